package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// maxRecords and maxBytes bound a batch of records.
const (
	maxRecords = 512
	maxBytes   = 256 << 10
)

// read returns the next records, in one transaction with a consistent view of the database: changes and, when all of
// them have been read, rows of pending runs. So a row follows every change that it contains and precedes the others.
// all reports whether nothing is left.
func (s *Source) read(ctx context.Context) (records []record.Record, all bool, err error) {
	if _, err := s.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return nil, false, fmt.Errorf("cannot begin a transaction: %w", err)
	}
	before := s.at
	defer func() {
		_, _ = s.conn.ExecContext(context.WithoutCancel(ctx), "COMMIT") // nothing was written
		if err != nil {
			s.at = before
		}
		s.whole = s.whole && err != nil
	}()
	if s.whole {
		last, _, err := s.captured.Bounds(ctx, s.conn)
		if err != nil {
			return nil, false, fmt.Errorf("cannot read the captured changes: %w", err)
		}
		s.at.ID = last
	}
	records, all, err = s.readChanges(ctx)
	if err != nil || !all {
		return records, false, err
	}
	for all && len(records) < maxRecords {
		i := slices.IndexFunc(s.captured.Runs, func(r captureRun) bool {
			return r.Number > s.at.Run || r.Number == s.at.Run && s.at.Key != nil
		})
		if i < 0 {
			return records, true, nil
		}
		rows, done, err := s.readRows(ctx, s.captured.Runs[i])
		if err != nil {
			return nil, false, err
		}
		records, all = append(records, rows...), done
	}
	return records, false, nil
}

// missed returns an error if changes were not recorded, or again if the settings allow reading their tables again. Call
// it after all recorded changes were emitted.
func (s *Source) missed() (again bool, err error) {
	for _, t := range s.captured.Tables {
		switch {
		case !t.Active || t.Missed == 0:
		case s.captured.Reread:
			again = true
		default:
			return false, fmt.Errorf("%d changes of table %s were missed, because %s had reached changes.max: to "+
				"read the table again, add %s/1, or another word after the slash, to snapshot.again",
				t.Missed, t.Name, s.settings.Changes, t.Name)
		}
	}
	return again, nil
}

// readChanges returns changes after the position. all reports whether there are no more.
func (s *Source) readChanges(ctx context.Context) (records []record.Record, all bool, err error) {
	rows, err := s.conn.QueryContext(ctx,
		"SELECT * FROM "+Quote(s.settings.Changes)+" WHERE id > ? ORDER BY id LIMIT ?", s.at.ID, maxRecords)
	if err != nil {
		return nil, false, fmt.Errorf("cannot read changes: %w", err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, false, fmt.Errorf("cannot read changes: %w", err)
	}
	v := newValues(len(columns))
	bytes := 0
	for rows.Next() {
		if err := v.scan(rows); err != nil {
			return nil, false, fmt.Errorf("cannot read changes: %w", err)
		}
		r, err := s.change(v.values)
		if err != nil {
			return nil, false, err
		}
		records = append(records, r)
		if bytes += v.bytes(); bytes >= maxBytes {
			return records, false, nil
		}
	}
	return records, len(records) < maxRecords, rows.Err()
}

// values holds a row.
type values struct{ values, pointers []any }

func newValues(n int) *values {
	v := &values{make([]any, n), make([]any, n)}
	for i := range v.values {
		v.pointers[i] = &v.values[i]
	}
	return v
}

func (v *values) scan(rows *sql.Rows) error { return rows.Scan(v.pointers...) }

// bytes returns the approximate size of the row.
func (v *values) bytes() int {
	n := 0
	for _, one := range v.values {
		switch one := one.(type) {
		case string:
			n += len(one)
		case []byte:
			n += len(one)
		default:
			n += 8
		}
	}
	return n
}

// change returns the record of a row in the table of changes, and moves the position to it.
func (s *Source) change(row []any) (r record.Record, err error) {
	id, _ := row[0].(int64)
	shape, _ := row[1].(int64)
	op, _ := row[2].(int64)
	at, _ := row[3].(int64)
	t := s.captured.Tables[shape]
	if t == nil || len(row) < 4+2*len(t.Columns) {
		return r, fmt.Errorf("cannot read change %d: its table is unknown, because another program changed %s", id,
			s.settings.Changes)
	}
	s.at.ID = id
	s.monitor.set(func() { s.monitor.newest, s.monitor.current = time.UnixMilli(at), false })
	before, after := make(map[string]any, len(t.Columns)), make(map[string]any, len(t.Columns))
	for i, c := range t.Columns {
		before[c.Name], after[c.Name] = value(c, row[4+2*i]), value(c, row[5+2*i])
	}
	named := after
	switch op {
	case Insert:
		r.Operation, r.After = record.OperationCreate, record.Structured(after)
	case Update:
		r.Operation, r.Before, r.After = record.OperationUpdate, record.Structured(before), record.Structured(after)
	default:
		named = before
		r.Operation, r.Before = record.OperationDelete, record.Structured(before)
	}
	r.Key, r.Metadata = keyOf(t, named), metadata(t, at)
	if s.at.Key == nil {
		r.Position = appendChange(nil, s.at.DB, id, s.at.Run)
	} else {
		r.Position = s.at.append()
	}
	return r, nil
}

// value returns the value of a column. SQLite has no type for booleans.
func value(c Column, v any) any {
	if n, ok := v.(int64); ok && (n == 0 || n == 1) &&
		(strings.EqualFold(c.Type, "BOOLEAN") || strings.EqualFold(c.Type, "BOOL")) {
		return n == 1
	}
	return v
}

func keyOf(t *Shape, fields map[string]any) record.Data {
	key := map[string]any{}
	for _, c := range t.Columns {
		if c.Key > 0 {
			key[c.Name] = fields[c.Name]
		}
	}
	if len(key) == 0 {
		return record.Data{}
	}
	return record.Structured(key)
}

// metadata returns metadata with spare capacity for the keys that a host adds.
func metadata(t *Shape, at int64) record.Metadata {
	m := make(record.Metadata, 0, 4)
	m.Set(record.KeyCollection, t.Name)
	if at > 0 {
		m.Set(record.KeyCreatedAt, strconv.FormatInt(at*int64(time.Millisecond), 10))
	}
	return m
}

// settle periodically removes acknowledged changes and measures the lag.
func (s *Source) settle(ctx context.Context) error {
	acked, last, due := s.monitor.toSettle()
	if due {
		done, err := s.captured.Settle(ctx, s.conn, acked.ID, finished(acked))
		if err != nil {
			return fmt.Errorf("cannot remove acknowledged changes: %w", err)
		}
		if done {
			s.monitor.settled(acked)
		}
	}
	if time.Since(last) < measureEvery {
		return nil
	}
	newest, _, err := s.captured.Bounds(ctx, s.conn)
	if err != nil {
		return fmt.Errorf("cannot read changes: %w", err)
	}
	if s.settings.Max > 0 {
		err = s.captured.Load(ctx, s.conn)
	}
	s.monitor.measured(newest)
	return err
}

// finished returns the number of the last run that is complete at position p.
func finished(p position) int64 {
	if p.Key == nil {
		return p.Run
	}
	return p.Run - 1
}
