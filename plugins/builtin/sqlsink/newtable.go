package sqlsink

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// NewTable is a table to create.
type NewTable struct {
	Name    string // as in the setting table
	Columns []NewColumn
	Key     []string // columns of the primary key, the first of Columns; may be empty
}

// NewColumn is a column to create.
type NewColumn struct {
	Name string
	Type Type
}

// Grammar describes how a database writes the definition of a table.
type Grammar struct {
	Quote func(name string) string
	// Type returns the SQL type for values. keys is the number of columns of the primary key that the column belongs
	// to, or 0.
	Type func(t Type, keys int) string
	// Length returns the length of a name, of at most MaxLength. nil: there is no limit.
	Length    func(name string) int
	MaxLength int
	End       string // end of the statement
}

// Statement returns the statement that creates the table as schema.name, or as name without a schema. It returns an
// error from Refuse if a name is too long for the database.
func (n *NewTable) Statement(g *Grammar, schema, name string) (string, error) {
	if err := n.checkName(g, "table", name); err != nil {
		return "", err
	}
	table := g.Quote(name)
	if schema != "" {
		table = g.Quote(schema) + "." + table
	}
	all := make([]string, len(n.Columns))
	for i, c := range n.Columns {
		if err := n.checkName(g, "column", c.Name); err != nil {
			return "", err
		}
		keys, end := 0, ""
		if slices.Contains(n.Key, c.Name) {
			keys, end = len(n.Key), " NOT NULL"
		}
		all[i] = strings.TrimSuffix(g.Quote(c.Name)+" "+g.Type(c.Type, keys), " ") + end
	}
	if len(n.Key) > 0 {
		quoted := make([]string, len(n.Key))
		for i, k := range n.Key {
			quoted[i] = g.Quote(k)
		}
		all = append(all, "PRIMARY KEY ("+strings.Join(quoted, ", ")+")")
	}
	return "CREATE TABLE IF NOT EXISTS " + table + " (" + strings.Join(all, ", ") + ")" + g.End, nil
}

func (n *NewTable) checkName(g *Grammar, kind, name string) error {
	switch {
	case name == "" || strings.Contains(name, "\x00"):
		return Refuse("cannot create table %s: %s is no name of a %s", n.Name, strconv.Quote(name), kind)
	case g.Length != nil && g.Length(name) > g.MaxLength:
		return Refuse("cannot create table %s: the name %q of a %s is too long: it has %d bytes or characters, and the "+
			"database allows %d; set table or columns.rename", n.Name, name, kind, g.Length(name), g.MaxLength)
	}
	return nil
}

// maxShown is the number of records whose columns the statement in an error has.
const maxShown = 100

// create creates the missing table of a row, with columns for the records of this table. The first record requires the
// row. If the row only deletes, create returns nil, because there is nothing to delete.
func (w *Writer[C]) create(ctx context.Context, first *row, records []record.Record) (*Table[C], error) {
	creates := w.settings.Evolution == evolutionCreate
	if !creates { // each record is refused with a statement of its own
		records = records[:min(len(records), maxShown)]
	}
	n, err := w.newTable(ctx, first.table, records)
	if err != nil {
		return nil, err
	}
	if len(n.Columns) == 0 {
		if creates {
			return nil, nil
		}
		return nil, Refuse("cannot find table %s: create it, or change the setting table", first.table)
	}
	statement, err := w.Database.Statement(ctx, n)
	if err != nil {
		return nil, err
	}
	if !creates {
		return nil, Refuse("cannot find table %s: create it, change the setting table, or set schema.evolution to "+
			"create. To create it, run: %s", first.table, statement)
	}
	err = w.Database.Create(ctx, statement)
	t, lookup := w.Database.Table(ctx, first.table) // after an error, another connector may have created it
	switch {
	case t != nil && err == nil:
		w.log.Info("created a table", "table", first.table, "statement", statement)
		return t, nil
	case t != nil:
		return t, nil
	case err != nil:
		return nil, fmt.Errorf("cannot create table %s: %w", first.table, err)
	case lookup != nil:
		return nil, lookup
	}
	return nil, Refuse("cannot find table %s after creating it", first.table)
}

// newTable returns a table for the rows that records add to the table with this name. It has no columns if there are no
// such rows.
func (w *Writer[C]) newTable(ctx context.Context, name string, records []record.Record) (*NewTable, error) {
	n := &NewTable{Name: name}
	found, declared := map[string]Type{}, declarations{types: map[string]Type{}, known: map[[2]string]struct{}{}}
	for i := range records {
		row, err := w.row(ctx, &records[i])
		if err != nil || row.table != name || row.kind == Remove || row.kind == Mark {
			continue // an error refuses the record when its turn comes
		}
		for column, v := range row.values {
			found[column] = found[column].with(typeOf(v))
		}
		if n.Key == nil {
			n.Key = row.key
		}
		if err := w.declare(ctx, &declared, &records[i]); err != nil {
			return nil, err
		}
	}
	add := func(column string) {
		t, ok := found[column]
		if !ok {
			return
		}
		isKey := slices.Contains(n.Key, column)
		if !isKey || t.Name != Whole { // a schema that is inferred from decoded JSON has floats only
			t = declared.types[column].observed(t)
		}
		n.Columns = append(n.Columns, NewColumn{strings.Clone(column), t.column(isKey)})
		delete(found, column)
	}
	for _, all := range [][]string{n.Key, declared.order, slices.Sorted(maps.Keys(found))} {
		for _, column := range all {
			add(column)
		}
	}
	return n, nil
}

// declarations are the types of columns that the schemas of records declare.
type declarations struct {
	types map[string]Type
	order []string               // columns, in the order of the fields
	known map[[2]string]struct{} // subjects and versions of the schemas
}

// declare adds the schemas of r.
func (w *Writer[C]) declare(ctx context.Context, d *declarations, r *record.Record) error {
	for _, named := range [][2]string{
		{r.Metadata.Get(record.KeyKeySchemaSubject), r.Metadata.Get(record.KeyKeySchemaVersion)},
		{r.Metadata.Get(record.KeyPayloadSchemaSubject), r.Metadata.Get(record.KeyPayloadSchemaVersion)},
	} {
		version, err := strconv.Atoi(named[1])
		if _, known := d.known[named]; known || err != nil || named[0] == "" || w.schemas == nil {
			continue
		}
		d.known[[2]string{strings.Clone(named[0]), strings.Clone(named[1])}] = struct{}{}
		codec, err := w.schemas.Codec(ctx, named[0], version)
		if err != nil {
			return Blameless(fmt.Errorf("cannot get version %d of schema %q: %w", version, named[0], err))
		}
		for _, f := range schema.Describe(codec).Fields {
			column, ok := f.Name, true
			if w.mapping != nil {
				column, ok = w.mapping.column(f.Name)
			}
			if ok {
				d.types[column] = d.types[column].with(declaredType(f.Type))
				d.order = append(d.order, column)
			}
		}
	}
	return nil
}
