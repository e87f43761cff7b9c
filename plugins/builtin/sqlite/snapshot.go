package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
)

// order returns the expressions by which the rows of a table are read: the primary key, or the rowid if a key column
// may be NULL.
func order(t *Shape) []string {
	var names []string
	key := t.Key()
	for _, k := range key {
		c := t.Columns[k]
		if c.Null && !(len(key) == 1 && strings.EqualFold(c.Type, "INTEGER")) {
			return []string{rowid(t)}
		}
		names = append(names, Quote(c.Name))
	}
	if len(names) == 0 {
		return []string{rowid(t)}
	}
	return names
}

// rowid returns a name of the rowid that no column has.
func rowid(t *Shape) string {
	for _, name := range []string{"rowid", "_rowid_"} {
		if !slices.ContainsFunc(t.Columns, func(c Column) bool { return strings.EqualFold(c.Name, name) }) {
			return name
		}
	}
	return "oid"
}

// readRows returns the next rows of a run. done reports whether they are the last ones.
func (s *Source) readRows(ctx context.Context, run captureRun) (records []record.Record, done bool, err error) {
	t := s.captured.Shape(run.Table)
	var after []string
	if s.at.Run == run.Number {
		after = s.at.Key
	}
	if after == nil || s.reading.Of != t.Name {
		if err := s.begin(ctx, run, after); err != nil {
			return nil, false, err
		}
	}
	by := order(t)
	query, args, err := rowsQuery(t, by, after)
	if err != nil {
		return nil, false, err
	}
	rows, err := s.conn.QueryContext(ctx, query, append(args, maxRecords)...)
	if err != nil {
		return nil, false, fmt.Errorf("cannot read table %s: %w", t.Name, err)
	}
	defer func() { _ = rows.Close() }()
	v, bytes := newValues(len(by)+len(t.Columns)), 0
	for rows.Next() {
		if err := v.scan(rows); err != nil {
			return nil, false, fmt.Errorf("cannot read table %s: %w", t.Name, err)
		}
		records = append(records, s.row(run, t, v.values, len(by)))
		if bytes += v.bytes(); bytes >= maxBytes || len(records) == maxRecords {
			s.reading.Rows = s.at.N
			s.monitor.set(func() { s.monitor.snapshots = []progress.Snapshot{s.reading} })
			return records, false, nil
		}
	}
	if err := rows.Err(); err != nil {
		return nil, false, fmt.Errorf("cannot read table %s: %w", t.Name, err)
	}
	s.finish(run, records)
	return records, true, nil
}

// begin begins a run, or resumes it after a restart.
func (s *Source) begin(ctx context.Context, run captureRun, after []string) error {
	s.reading = progress.Snapshot{Of: run.Table, StartedAt: time.Now()}
	if after != nil {
		s.reading.Rows, s.reading.Resumed = s.at.N, s.at.N
	}
	if err := s.conn.QueryRowContext(ctx, "SELECT count(*) FROM "+Quote(run.Table)).Scan(&s.reading.Total); err != nil {
		return fmt.Errorf("cannot read table %s: %w", run.Table, err)
	}
	return nil
}

// finish marks the run as complete in the position.
func (s *Source) finish(run captureRun, records []record.Record) {
	s.at.Run, s.at.Key, s.at.N, s.reading = run.Number, nil, 0, progress.Snapshot{}
	if n := len(records); n > 0 {
		records[n-1].Position = s.at.append()
	}
	s.monitor.set(func() { s.monitor.snapshots = nil })
}

// unstable returns the table that is currently read by rowid, if there is one: a VACUUM, which changes the schema
// version, may change the rowids.
func (s *Source) unstable() []string {
	for _, r := range s.captured.Runs {
		if r.Number == s.at.Run && s.at.Key != nil && !strings.HasPrefix(order(s.captured.Shape(r.Table))[0], `"`) {
			return []string{r.Table}
		}
	}
	return nil
}

// rowsQuery returns the query for the rows after a key, and its arguments except the limit.
func rowsQuery(t *Shape, by, after []string) (string, []any, error) {
	names := slices.Clone(by)
	for _, c := range t.Columns {
		names = append(names, "+"+Quote(c.Name)) // without a declared type, the driver does not convert values
	}
	for i := range by {
		names[i] = "+" + by[i]
	}
	query := "SELECT " + strings.Join(names, ", ") + " FROM " + Quote(t.Name)
	var args []any
	if len(after) == len(by) {
		query += " WHERE (" + strings.Join(by, ", ") + ") > (" + strings.Repeat("?, ", len(by)-1) + "?)"
		for _, k := range after {
			v, err := keyValue(k)
			if err != nil {
				return "", nil, err
			}
			args = append(args, v)
		}
	}
	return query + " ORDER BY " + strings.Join(by, ", ") + " LIMIT ?", args, nil
}

// row returns the record of a row, and moves the position to it. The first n values of the row are its sort key.
func (s *Source) row(run captureRun, t *Shape, row []any, n int) record.Record {
	if s.at.Run != run.Number {
		s.at.Run, s.at.N = run.Number, 0
	}
	s.at.Key = make([]string, n)
	for i := range n {
		s.at.Key[i] = keyText(row[i])
	}
	s.at.N++
	fields := make(map[string]any, len(t.Columns))
	for i, c := range t.Columns {
		fields[c.Name] = value(c, row[n+i])
	}
	return record.Record{Position: s.at.append(), Operation: record.OperationSnapshot, Metadata: metadata(t, 0),
		Key: keyOf(t, fields), After: record.Structured(fields)}
}
