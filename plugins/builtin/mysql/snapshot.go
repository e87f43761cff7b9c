package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
)

// chunkRows is the maximum number of rows that a statement reads.
const chunkRows = 10_000

// pending reports whether a snapshot is due, and selects its entries of the settings.
func (s *Source) pending() bool {
	if len(s.begun) > 0 {
		return true
	}
	s.reading = nil
	for _, item := range s.settings.items() {
		if !s.done.has(item) {
			s.begun = append(s.begun, item)
		}
	}
	return len(s.begun) > 0
}

// toRead returns the tables whose rows have not been read yet, sorted by id.
func (s *Source) toRead(ctx context.Context) ([]*Table, error) {
	patterns := slices.DeleteFunc(slices.Clone(s.settings.patterns), func(p pattern) bool {
		return !s.begun.has(p.item)
	})
	all, err := resolve(ctx, s.db, patterns)
	if err != nil {
		return nil, err
	}
	covered := func(t *Table) bool { // another entry covers it, whose rows have been read
		return (s.done.has(itemOf(t.ID())) || s.done.has(itemOf(t.Schema+".*"))) &&
			!slices.ContainsFunc(patterns, func(p pattern) bool { return p.Name == t.Name && p.Schema == t.Schema })
	}
	all = slices.DeleteFunc(all, func(t *Table) bool {
		return s.reading != nil && t.ID() < s.reading.Name || covered(t)
	})
	for _, t := range all {
		if err := t.Describe(ctx, s.db); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readTables reads and emits the rows of the tables of the entries in begun, in one transaction. The rows contain all
// changes committed before its snapshot; the log, which resumes afterwards, has the later ones.
func (s *Source) readTables(ctx context.Context, connected func()) error {
	tables, err := s.toRead(ctx)
	if err != nil {
		return err
	}
	session, err := s.settings.openGuarded(ctx)
	if err != nil {
		return err
	}
	defer session.Close()
	connected()
	conn := session.Conn
	if err := s.beginSnapshot(ctx, conn); err != nil {
		return err
	}
	if err := session.watch(ctx); err != nil { // not earlier, because writers block while the session waits for a lock
		return err
	}
	r := &rowReader{source: s, conn: conn}
	for _, t := range tables {
		if err := r.read(ctx, t); err != nil {
			if isNumber(err, changedSince) {
				return fmt.Errorf("%w: %w", errAgain, err)
			}
			return err
		}
	}
	for _, item := range s.begun {
		if !s.done.has(item) {
			s.done = append(s.done, item)
		}
	}
	s.begun, s.reading = nil, nil
	s.prune()
	s.monitor.reads(nil)
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		return fmt.Errorf("cannot end the snapshot: %w", err)
	}
	return r.finish(ctx)
}

// beginSnapshot begins the transaction and records which transactions its snapshot contains. When the snapshot resumes
// after a lost connection, the place of the first transaction stays valid: later snapshots contain all its changes.
func (s *Source) beginSnapshot(ctx context.Context, conn *sql.Conn) error {
	for _, sql := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
		"SET SESSION net_write_timeout = 3600", "SET SESSION wait_timeout = 86400"} {
		if _, err := conn.ExecContext(ctx, sql); err != nil {
			return fmt.Errorf("cannot begin the snapshot: %w", err)
		}
	}
	begin := s.server.beginMySQL
	if s.server.maria {
		begin = s.server.beginMaria
	}
	at, err := begin(ctx, conn)
	if err != nil {
		return fmt.Errorf("cannot begin the snapshot: %w", err)
	}
	switch {
	case s.at.file == "":
		s.at = at
	case s.seen == nil && s.reading == nil:
		s.seen = &seen{GTID: at.set.String(), File: at.file, Pos: at.pos, Items: s.begun.String(), set: at.set}
		if at.set.Empty() && (s.server.maria || s.server.gtids) {
			s.seen = nil
		}
	case s.seen != nil && s.reading == nil: // rows newer than the earlier ones: their changes arrive again
		read := parseItems(s.seen.Items)
		s.seen.Items = append(read, slices.DeleteFunc(slices.Clone(s.begun), read.has)...).String()
	}
	return nil
}

// rowReader turns rows into records and emits them. It keeps the last record until it knows whether more follow.
type rowReader struct {
	source *Source
	conn   *sql.Conn

	table    *Table
	keys     []int // key columns for paging
	progress progress.Snapshot
	metadata record.Metadata
	prefix   []byte // of positions, before the key
	suffix   []byte
	last     []string // key of the last row
	records  []record.Record
	bytes    int
}

// read reads the rows of a table after the key in the position, in key order.
func (r *rowReader) read(ctx context.Context, t *Table) error {
	s := r.source
	r.prepare(t)
	for {
		n, err := r.chunk(ctx)
		if err != nil {
			if isNumber(err, commandDenied) {
				return fmt.Errorf("cannot read table %s: %w: run GRANT SELECT ON %s TO %s", t.ID(), err, t.SQL(),
					s.server.user)
			}
			return fmt.Errorf("cannot read table %s: %w", t.ID(), err)
		}
		if len(r.keys) == 0 || n < chunkRows {
			return nil
		}
	}
}

func (r *rowReader) prepare(t *Table) {
	s := r.source
	r.table, r.keys = t, t.Ordered()
	r.metadata = record.NewMetadata(map[string]string{record.KeyCollection: t.Name, metaDatabase: t.Schema})
	r.last, r.progress = nil, progress.Snapshot{Of: t.ID(), Total: t.Estimate, StartedAt: time.Now()}
	if from := s.reading; from != nil && from.Name == t.ID() && len(from.Key) == len(r.keys) && len(r.keys) > 0 {
		r.last, r.progress.Rows, r.progress.Resumed = from.Key, from.Rows, from.Rows
	}
	name, _ := json.Marshal(t.ID()) // cannot fail
	r.prefix = s.at.append(nil, typeSnapshot)
	if s.at.index > 0 {
		in, _ := json.Marshal(s.at.in) // cannot fail
		r.prefix = fmt.Appendf(r.prefix, `,"in":%s,"index":%d`, in, s.at.index)
	}
	r.prefix = fmt.Appendf(r.prefix, `,"table":{"name":%s,"key":`, name)
	r.suffix = append([]byte("}"), s.suffix(s.seen)...)
	r.report()
}

func (r *rowReader) report() {
	p := r.progress
	r.source.monitor.reads(&p)
}

// chunk reads the next rows and returns their number.
func (r *rowReader) chunk(ctx context.Context) (n int, err error) {
	rows, err := r.conn.QueryContext(ctx, r.table.Page(r.keys, r.last, chunkRows))
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	columns := r.table.Columns
	raw := make([]sql.RawBytes, len(columns))
	var into []any
	for i := range columns {
		if r.table.Reads(&columns[i]) {
			into = append(into, &raw[i])
		}
	}
	for ; rows.Next(); n++ {
		if err := rows.Scan(into...); err != nil {
			return n, err
		}
		if len(r.records) > maxRecords || r.bytes >= maxBytes {
			if err := r.flush(ctx); err != nil {
				return n, err
			}
		}
		r.add(raw)
	}
	return n, rows.Err()
}

// add appends the record of a row.
func (r *rowReader) add(raw []sql.RawBytes) {
	t := r.table
	values := make(map[string]any, len(raw))
	for i, b := range raw {
		c := &t.Columns[i]
		switch {
		case !t.Reads(c):
		case b == nil:
			values[c.Name] = nil
		default:
			values[c.Name] = c.Value(b)
			r.bytes += len(b) + 16
		}
	}
	rec := record.Record{Operation: record.OperationSnapshot, Metadata: withSpare(r.metadata),
		After: record.Structured(values)}
	if len(t.Key) > 0 {
		key := make(map[string]any, len(t.Key))
		for _, k := range t.Key {
			key[k] = values[k]
		}
		rec.Key = record.Structured(key)
	}
	if len(r.keys) > 0 {
		r.last = t.Last(r.keys, raw)
	}
	r.progress.Rows++
	key, _ := json.Marshal(r.last) // cannot fail
	p := append(append(make(record.Position, 0, len(r.prefix)+len(key)+len(r.suffix)+32), r.prefix...), key...)
	p = strconv.AppendInt(append(p, `,"rows":`...), r.progress.Rows, 10)
	rec.Position = append(p, r.suffix...)
	r.records = append(r.records, rec)
}

// flush emits all records except the last one. Reading then resumes after them.
func (r *rowReader) flush(ctx context.Context) error {
	n := len(r.records) - 1
	if n < 1 {
		return nil
	}
	s := r.source
	if !s.Send(ctx, r.records[:n:n]) {
		return ctx.Err()
	}
	if p, err := parsePosition(r.records[n-1].Position); err == nil && p.Table != nil {
		s.reading = p.Table
	}
	r.records, r.bytes = append([]record.Record(nil), r.records[n]), 0
	r.report()
	return nil
}

// finish emits the rest. The position of the last row marks the table as complete.
func (r *rowReader) finish(ctx context.Context) error {
	n := len(r.records)
	if n == 0 {
		return nil
	}
	s := r.source
	p := s.at.append(nil, typeStream)
	if s.at.index > 0 {
		in, _ := json.Marshal(s.at.in) // cannot fail
		p = fmt.Appendf(p, `,"in":%s,"index":%d`, in, s.at.index)
	}
	r.records[n-1].Position = append(p, s.suffix(s.seen)...)
	if !s.Send(ctx, r.records) {
		return ctx.Err()
	}
	return nil
}
