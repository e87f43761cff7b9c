package sqlsink

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Table is a table to write to.
type Table[C any] struct {
	SQL     string       // quoted name
	Columns map[string]C // columns that can be written, by name

	last []string  // field names of the previous record, sorted
	read time.Time // when the columns were read again because a field had none; zero: never
}

// rereadPause is the shortest time between two lookups of the columns of a table for a field that has none.
const rereadPause = 2 * time.Second

// columnsOf returns the sorted names of the fields. Each must have a column.
func (t *Table[C]) columnsOf(name string, fields map[string]any) ([]string, error) {
	if len(fields) > 0 && len(fields) == len(t.last) && !slices.ContainsFunc(t.last, func(n string) bool {
		_, ok := fields[n]
		return !ok
	}) {
		return t.last, nil // most records have the same fields as the previous one
	}
	if len(fields) == 0 {
		return nil, Refuse("cannot write to table %s: the record has no fields", name)
	}
	names := slices.Sorted(maps.Keys(fields))
	for i, n := range names {
		if _, ok := t.Columns[n]; !ok {
			return nil, Refuse("cannot write to table %s: it has no column %q: add it, which needs no restart, or "+
				"leave the field out with columns.omit", name, n)
		}
		names[i] = strings.Clone(n) // does not retain the text of the record
	}
	t.last = names
	return names, nil
}

// Change is the change of a row that a record requires.
type Change[C any] struct {
	Kind    Kind
	Table   *Table[C]
	Key     []string // names of the key columns, sorted
	Columns []string // names of all columns to write, sorted; the key columns for a delete
	Values  map[string]any
}

// Kind is the kind of a change.
type Kind int

// Kinds of changes.
const (
	Insert Kind = iota // without a key
	Upsert
	Update // of some columns: the others keep their values
	Remove
	Mark // an update of some columns of a row that may not exist
)

// same reports whether one statement can make both changes.
func (c *Change[C]) same(o *Change[C]) bool {
	return c.Kind == o.Kind && c.Table == o.Table && slices.Equal(c.Key, o.Key) && sameNames(c.Columns, o.Columns)
}

func sameNames(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// identity returns the key as text.
func (c *Change[C]) identity() string {
	var b strings.Builder
	for _, k := range c.Key {
		fmt.Fprintf(&b, "%v\x00", c.Values[k])
	}
	return b.String()
}

// change sets c to the change that the first of the records requires. Without an effect c has no table.
func (w *Writer[C]) change(ctx context.Context, c *Change[C], records []record.Record) error {
	row, err := w.row(ctx, &records[0])
	if err != nil || row.table == "" {
		return err
	}
	t, err := w.Database.Table(ctx, row.table)
	if err == nil && t == nil {
		t, err = w.create(ctx, &row, records)
	}
	if err != nil || t == nil {
		return err
	}
	*c = Change[C]{Kind: row.kind, Table: t, Key: row.key, Values: row.values}
	if c.Columns, err = w.columnsOf(ctx, t, &row); err != nil {
		return err
	}
	if c.Kind == Update && (len(c.Columns) == len(t.Columns) || len(c.Columns) == len(c.Key)) {
		c.Kind = Upsert
	}
	return nil
}

// columnsOf returns the sorted columns of a row. Someone may have added a column since the table was looked up: before
// columnsOf refuses a row, it reads the columns again, unless it did so just before.
func (w *Writer[C]) columnsOf(ctx context.Context, t *Table[C], r *row) ([]string, error) {
	names, err := t.columnsOf(r.table, r.values)
	if err == nil || len(r.values) == 0 || time.Since(t.read) < rereadPause {
		return names, err
	}
	t.read, t.last = time.Now(), nil
	if err := w.Database.Reread(ctx, r.table, t); err != nil {
		return nil, err
	}
	return t.columnsOf(r.table, r.values)
}

// withKey returns fields with the fields of key that it lacks.
func withKey(fields, key map[string]any) map[string]any {
	if len(key) == 0 {
		return fields
	}
	all := maps.Clone(key)
	maps.Copy(all, fields)
	return all
}

// grouped splits the changes, at least one, into groups in the same order. One statement can make the changes of a
// group, which must not have two changes of a row.
func grouped[C any](changes []*Change[C]) (groups [][]*Change[C]) {
	keys, start := map[string]struct{}{}, 0
	for i, c := range changes {
		id, twice := "", false
		if c.Kind != Insert {
			id = c.identity()
			_, twice = keys[id]
		}
		if i > 0 && (twice || !c.same(changes[i-1])) {
			groups, start = append(groups, changes[start:i:i]), i
			clear(keys)
		}
		if c.Kind != Insert {
			keys[id] = struct{}{}
		}
	}
	return append(groups, changes[start:])
}
