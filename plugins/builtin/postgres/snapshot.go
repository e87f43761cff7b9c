package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/record"
)

// readTables reads and emits the rows of the tables in todo, in one transaction. The rows contain all changes committed
// before its snapshot; the stream, which resumes afterwards, has the later ones.
func (s *Source) readTables(ctx context.Context, connected func()) error {
	conn, err := pg.ConnectGuarded(ctx, s.settings.URL, s.settings.Timeout, pg.Styles)
	if err != nil {
		return err
	}
	defer pg.Close(conn)
	connected()
	if err := s.beginSnapshot(ctx, conn); err != nil {
		return err
	}
	read := []string{}
	for len(s.todo) > 0 {
		t := s.tableOf(s.todo[0].Table)
		if t != nil {
			if err := s.readTable(ctx, conn, t); err != nil {
				return err
			}
			read = append(read, t.ID())
			s.read[t.OID] = true
		}
		s.todo = s.todo[1:]
	}
	s.all, s.begun = false, false
	s.monitor.snapshotDone()
	s.confirmer.snapshotRead(read)
	return nil
}

func (s *Source) tableOf(id string) *pg.Table {
	for _, t := range s.tables {
		if t.ID() == id {
			return t
		}
	}
	return nil
}

// beginSnapshot begins the transaction and records which transactions its snapshot contains. When the snapshot resumes
// after a lost connection, the record of the first transaction stays valid: later snapshots contain all its changes.
func (s *Source) beginSnapshot(ctx context.Context, conn *pgconn.PgConn) error {
	// Without sorting, rows come in the order of the key's index, and the first row comes at once. Without row
	// security, a policy that hides rows from the role is an error: the server would send their changes anyway.
	if err := pg.Execute(ctx, conn, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL enable_sort = off; "+
		"SET LOCAL statement_timeout = 0; "+
		"SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL row_security = off"); err != nil {
		return fmt.Errorf("cannot begin the snapshot: %w", err)
	}
	r, err := pg.Row(ctx, conn, "SELECT pg_catalog.txid_current_snapshot()")
	if err != nil {
		return fmt.Errorf("cannot begin the snapshot: %w", err)
	}
	end, err := pg.Row(ctx, conn, "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE "+
		"pg_current_wal_insert_lsn() END")
	if err != nil {
		return fmt.Errorf("cannot begin the snapshot: %w", err)
	}
	if s.begun { // an earlier snapshot may have read tables, and all rows contain its changes
		return nil
	}
	s.begun = true
	found := &seen{Snapshot: r[0], Until: end[0]}
	if !s.all {
		for _, t := range s.todo {
			found.Tables = append(found.Tables, t.Table)
		}
	}
	s.seen = parseSeen(found)
	return nil
}

// readTable reads the rows of a table after the key in todo, in key order.
func (s *Source) readTable(ctx context.Context, conn *pgconn.PgConn, t *pg.Table) error {
	progress := s.monitor.snapshotOf(t, s.todo[0].Rows)
	r := &rowReader{source: s, ctx: ctx, table: t, progress: progress, limit: min(s.settings.FetchSize, maxRecords)}
	if err := r.prepare(); err != nil {
		return err
	}
	copying, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := conn.CopyTo(copying, r, copyStatement(t, s.todo[0].Key))
	if err == nil {
		r.finish()
		err = r.flush()
	}
	switch {
	case r.err != nil:
		return r.err
	case err != nil:
		return explainRead(err, t)
	}
	progress.finish()
	return nil
}

// copyStatement returns the COPY statement for the rows of t with a key greater than after.
func copyStatement(t *pg.Table, after []string) string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = pg.Quote(c.Name)
	}
	sql, where := "COPY (SELECT "+strings.Join(names, ", ")+" FROM "+t.Only(), []string(nil)
	if c := t.Condition(); c != "" {
		where = append(where, c)
	}
	by := ""
	if len(t.Key) > 0 {
		keys := make([]string, len(t.Key))
		for i, k := range t.Key {
			keys[i] = pg.Quote(k)
		}
		if len(after) == len(keys) {
			values := make([]string, len(keys))
			for i, k := range t.Key {
				values[i] = pg.Literal(after[i]) + "::" + t.TypeOf(k)
			}
			where = append(where, "("+strings.Join(keys, ", ")+") > ("+strings.Join(values, ", ")+")")
		}
		by = " ORDER BY " + strings.Join(keys, ", ")
	}
	if len(where) > 0 {
		sql += " WHERE " + strings.Join(where, " AND ")
	}
	return sql + by + ") TO STDOUT"
}

// rowReader turns the rows of a COPY into records and emits them.
type rowReader struct {
	source   *Source
	ctx      context.Context // of the call that reads the table
	table    *pg.Table
	progress *snapshotProgress
	limit    int
	err      error // why reading ended, if the server is not the cause

	keys           []int // key columns
	metadata       record.Metadata
	prefix, suffix []byte // of positions, around the key and the number of rows
	rows           int64
	fields         [][]byte
	last           [][]byte // key of the last row
	records        []record.Record
	bytes          int
	arena          *record.Arena // for the metadata of records; nil without records
	text           []byte        // positions of the records
	expected       int           // expected number of records emitted together
}

// firstRows is the expected number of rows of a table.
const firstRows = 32

// begin allocates space for the records that are emitted together.
func (r *rowReader) begin() {
	n := cmp.Or(r.expected, firstRows)
	r.records, r.arena = make([]record.Record, 0, n), record.NewArena(n, len(r.metadata), 0)
	r.text = make([]byte, 0, n*(len(r.prefix)+len(r.suffix)+numberText))
}

const numberText = 48 // approximate bytes of key and number in a position

func (r *rowReader) prepare() error {
	s, t := r.source, r.table
	for _, k := range t.Key {
		r.keys = append(r.keys, slices.IndexFunc(t.Columns, func(c pg.Column) bool { return c.Name == k }))
	}
	schema, name := t.Collection()
	r.metadata = record.NewMetadata(map[string]string{record.KeyCollection: name, metaSchema: schema})
	if err := s.schemas.attach(r.ctx, &r.metadata, name, t.Columns, r.keys, ""); err != nil {
		return err
	}
	r.rows = s.todo[0].Rows
	table, _ := json.Marshal(t.ID()) // cannot fail
	p := []byte(`{"type":1`)
	if s.at.commit > 0 {
		p = fmt.Appendf(p, `,"last_lsn":"%s","index":%d`, s.at.commit, s.at.index)
	}
	if s.all {
		p = append(p, `,"all":true`...)
	}
	r.prefix = fmt.Appendf(p, `,"system":"%s","todo":[{"table":%s,"key":[`, s.system, table)
	for _, rest := range s.todo[1:] {
		if len(rest.Key) > 0 { // the others are in all, or in the mark of the publication
			one, _ := json.Marshal(rest)
			r.suffix = append(append(r.suffix, ','), one...)
		}
	}
	r.suffix = append(r.suffix, ']')
	if s.seen != nil {
		r.suffix = append(append(r.suffix, `,"seen":`...), s.seen.json...)
	}
	r.suffix = append(r.suffix, '}')
	r.last = make([][]byte, len(r.keys))
	return nil
}

var errStopped = errors.New("reading ended")

// Write takes a row in the text format of COPY, which ends with a newline.
func (r *rowReader) Write(line []byte) (int, error) {
	n := len(line)
	line = bytes.TrimSuffix(line, []byte{'\n'})
	r.fields = splitRow(r.fields[:0], line)
	if len(r.fields) != len(r.table.Columns) {
		r.err = fmt.Errorf("cannot read table %s: a row has %d columns instead of %d", r.table.ID(), len(r.fields),
			len(r.table.Columns))
		return 0, r.err
	}
	if len(r.records) >= r.limit || r.bytes >= maxBytes { // one row stays, so that finish can mark the last one
		if err := r.flush(); err != nil {
			return 0, err
		}
	}
	r.add()
	r.bytes += n
	return n, nil
}

// add appends the record of the fields.
func (r *rowReader) add() {
	values := make(map[string]any, len(r.fields))
	for i, f := range r.fields {
		if f == nil {
			values[r.table.Columns[i].Name] = nil
		} else {
			values[r.table.Columns[i].Name] = pg.Decode(r.table.Columns[i].OID, f)
		}
	}
	if r.rows++; r.records == nil {
		r.begin()
	}
	rec := record.Record{Operation: record.OperationSnapshot,
		Metadata: append(r.arena.Metadata(len(r.metadata)), r.metadata...), After: record.Structured(values)}
	start := len(r.text)
	position := append(r.text, r.prefix...)
	if len(r.keys) > 0 {
		key := make(map[string]any, len(r.keys))
		for i, k := range r.keys {
			name := r.table.Columns[k].Name
			key[name] = values[name]
			if i > 0 {
				position = append(position, ',')
			}
			position = appendJSONString(position, r.fields[k])
			r.last[i] = append(r.last[i][:0], r.fields[k]...)
		}
		rec.Key = record.Structured(key)
	}
	position = append(position, `],"rows":`...)
	position = append(strconv.AppendInt(position, r.rows, 10), '}')
	r.text = append(position, r.suffix...)
	rec.Position = r.text[start:len(r.text):len(r.text)]
	r.records = append(r.records, rec)
}

// finish marks everything as read in the position of the last row of the last table.
func (r *rowReader) finish() {
	s, n := r.source, len(r.records)
	if n == 0 || len(s.todo) > 1 {
		return
	}
	p := []byte(`{"type":1`)
	if s.at.commit > 0 {
		p = fmt.Appendf(p, `,"last_lsn":"%s","index":%d`, s.at.commit, s.at.index)
	}
	p = fmt.Appendf(p, `,"system":"%s"`, s.system)
	if s.seen != nil {
		p = append(append(p, `,"seen":`...), s.seen.json...)
	}
	r.records[n-1].Position = append(p, '}')
}

// flush emits the records. Reading then resumes after them.
func (r *rowReader) flush() error {
	if len(r.records) == 0 {
		return nil
	}
	s := r.source
	s.confirmer.sentRows(len(r.records))
	if !s.Send(r.ctx, r.records) {
		r.err = errStopped
		return r.err
	}
	s.todo[0].Key, s.todo[0].Rows = nil, r.rows
	for _, k := range r.last {
		s.todo[0].Key = append(s.todo[0].Key, string(k))
	}
	r.progress.set(r.rows)
	r.records, r.bytes, r.expected = nil, 0, len(r.records)
	return nil
}

// withSpare returns a copy of m with spare capacity for the keys that a host adds.
func withSpare(m record.Metadata) record.Metadata {
	return append(make(record.Metadata, 0, len(m)+2), m...)
}

// appendJSONString appends text as a JSON string.
func appendJSONString(dst, text []byte) []byte {
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted, _ := json.Marshal(string(text)) // cannot fail
			return append(dst, quoted...)
		}
	}
	dst = append(append(dst, '"'), text...)
	return append(dst, '"')
}

// splitRow appends the fields of a row in the text format of COPY; NULL is nil. Fields refer to line. splitRow decodes
// escapes in place.
func splitRow(dst [][]byte, line []byte) [][]byte {
	for {
		end := bytes.IndexByte(line, '\t')
		field := line
		if end >= 0 {
			field = line[:end]
		}
		dst = append(dst, unescape(field))
		if end < 0 {
			return dst
		}
		line = line[end+1:]
	}
}

// escapes maps the letter after a backslash in the text format of COPY.
var escapes = [256]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

func unescape(field []byte) []byte {
	at := bytes.IndexByte(field, '\\')
	if at < 0 {
		return field
	}
	if len(field) == 2 && field[1] == 'N' {
		return nil
	}
	to := at
	for i := at; i < len(field); i++ {
		c := field[i]
		if c == '\\' && i+1 < len(field) {
			i++
			if c = field[i]; escapes[c] != 0 {
				c = escapes[c]
			}
		}
		field[to] = c
		to++
	}
	return field[:to]
}

// visibility tells which transactions a snapshot contains.
type visibility struct {
	seen
	json       []byte // encoded seen
	xmin, xmax uint64
	open       []uint64 // transactions between the two that had not ended
	until      pg.LSN
}

// parseSeen returns nil for nil, and for an invalid s: then the source emits changes that rows contain already, which
// loses nothing.
func parseSeen(s *seen) *visibility {
	if s == nil {
		return nil
	}
	v := &visibility{seen: *s}
	v.json, _ = json.Marshal(s) // cannot fail
	parts := strings.Split(s.Snapshot, ":")
	if len(parts) != 3 {
		return nil
	}
	var err1, err2, err3 error
	v.xmin, err1 = strconv.ParseUint(parts[0], 10, 64)
	v.xmax, err2 = strconv.ParseUint(parts[1], 10, 64)
	v.until, err3 = pg.ParseLSN(s.Until)
	if err1 != nil || err2 != nil || err3 != nil {
		return nil
	}
	for x := range strings.SplitSeq(parts[2], ",") {
		if n, err := strconv.ParseUint(x, 10, 64); err == nil {
			v.open = append(v.open, n)
		}
	}
	return v
}

// contains reports whether the rows contain the changes of a transaction. xid is the lower half of the transaction id.
func (v *visibility) contains(xid uint32, commit pg.LSN) bool {
	if v == nil || commit >= v.until {
		return false
	}
	full := v.xmax&^0xffffffff | uint64(xid)
	const half = 1 << 31
	switch {
	case full > v.xmax+half && full >= 1<<32:
		full -= 1 << 32
	case full+half < v.xmax:
		full += 1 << 32
	}
	return full < v.xmin || full < v.xmax && !slices.Contains(v.open, full)
}

// covers reports whether the snapshot read the rows of the table with this id.
func (v *visibility) covers(id string) bool {
	return len(v.Tables) == 0 || slices.Contains(v.Tables, id)
}

// Metadata keys of records, in addition to those of the OpenCDC format.
const (
	metaSchema = "postgres.schema"
	metaLSN    = "postgres.lsn"         // of the commit
	metaTime   = "postgres.commit_time" // RFC 3339, in UTC
	metaXID    = "postgres.xid"
)

func nanoseconds(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
