package sqlsink

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Table is a table to write to.
type Table[C any] struct {
	SQL     string       // its name in SQL
	Columns map[string]C // that can be written, by name

	last []string // names of the fields of the record before, sorted
}

// columnsOf returns the names of the fields, sorted. Each has a column.
func (t *Table[C]) columnsOf(name string, fields map[string]any) ([]string, error) {
	if len(fields) > 0 && len(fields) == len(t.last) && !slices.ContainsFunc(t.last, func(n string) bool { _, ok := fields[n]; return !ok }) {
		return t.last, nil // as most records have the fields of the one before
	}
	if len(fields) == 0 {
		return nil, Refuse("cannot write to table %s: the record has no fields", name)
	}
	names := slices.Sorted(maps.Keys(fields))
	for i, n := range names {
		if _, ok := t.Columns[n]; !ok {
			return nil, Refuse("cannot write to table %s: it has no column %q: add it, or remove the field with a processor", name, n)
		}
		names[i] = strings.Clone(n) // apart from the text of the record
	}
	t.last = names
	return names, nil
}

// Change is what a record asks for.
type Change[C any] struct {
	Kind    Kind
	Table   *Table[C]
	Key     []string // names of its columns, sorted
	Columns []string // names of all columns to write, sorted; those of the key for a delete
	Values  map[string]any
}

// Kind is the kind of a change.
type Kind int

// The kinds.
const (
	Insert Kind = iota // without a key
	Upsert
	Update // of some columns: those left out stay
	Remove
)

// same reports whether one statement can do both.
func (c *Change[C]) same(o *Change[C]) bool {
	return c.Kind == o.Kind && c.Table == o.Table && slices.Equal(c.Key, o.Key) && sameNames(c.Columns, o.Columns)
}

func sameNames(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// identity is the key as text.
func (c *Change[C]) identity() string {
	var b strings.Builder
	for _, k := range c.Key {
		fmt.Fprintf(&b, "%v\x00", c.Values[k])
	}
	return b.String()
}

// change sets c to what r asks for.
func (w *Writer[C]) change(ctx context.Context, c *Change[C], r *record.Record) error {
	name, err := w.tableOf(r)
	if err != nil {
		return err
	}
	t, err := w.Database.Table(ctx, name)
	if err != nil {
		return err
	}
	key := keyObject(r.Key)
	*c = Change[C]{Table: t}
	if len(key) > 0 {
		c.Key = slices.Sorted(maps.Keys(key))
	}
	if r.Operation == record.OperationDelete {
		if len(key) == 0 {
			return Refuse("cannot delete from table %s: the record has no key", name)
		}
		c.Kind, c.Values = Remove, key
		c.Columns, err = t.columnsOf(name, key)
		return err
	}
	payload, err := object(r.After)
	if err != nil {
		return Refuse("cannot write to table %s: the payload is no object: %w", name, err)
	}
	c.Values = withKey(payload, key)
	if c.Columns, err = t.columnsOf(name, c.Values); err != nil {
		return err
	}
	switch {
	case len(key) == 0 && r.Operation == record.OperationUpdate:
		return Refuse("cannot update table %s: the record has no key", name)
	case len(key) == 0:
		c.Kind = Insert
	case r.Operation == record.OperationUpdate && len(c.Columns) < len(t.Columns) && len(c.Columns) > len(c.Key):
		c.Kind = Update
	default:
		c.Kind = Upsert
	}
	return nil
}

// withKey returns the fields with those of the key that they lack.
func withKey(fields, key map[string]any) map[string]any {
	if len(key) == 0 {
		return fields
	}
	all := maps.Clone(key)
	maps.Copy(all, fields)
	return all
}

// grouped cuts the changes, of which there are some, in order, into groups that one statement each can do: it must not
// touch a row twice.
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
