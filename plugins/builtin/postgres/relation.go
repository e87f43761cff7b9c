package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/record"
)

// relation is a table as the server described it.
type relation struct {
	oid          uint32
	schema, name string // of the records: those of the partitioned table or parent, if the table has one
	wanted       bool   // the source reads the table
	full         bool   // replica identity
	columns      []pg.Column
	keys         []int // indexes of key columns

	// Metadata with the schema of records, by the columns that they lack; see absent.
	schemas      map[string]record.Metadata
	unregistered bool // registering the last schema failed

	complete   record.Metadata // of complete records in the transaction completeOf
	completeOf pg.LSN
}

func (r *relation) id() string { return r.schema + "." + r.name }

// describe returns the table that the server described. It registers the schema of complete rows, so that an error ends
// the session.
func (st *stream) describe(ctx context.Context, m *pg.Relation) (*relation, error) {
	r := &relation{oid: m.OID, schema: m.Schema, name: m.Name, full: m.Identity == 'f',
		schemas: map[string]record.Metadata{}}
	known, err := st.known(ctx, m.OID, r.id())
	if err != nil {
		return nil, err
	}
	r.wanted = known != nil
	if known != nil && (known.IsHeir() || known.Partitions) {
		r.schema, r.name = known.Collection()
	}
	for i, c := range m.Columns {
		r.columns = append(r.columns, pg.Column{Name: c.Name, OID: c.Type, TypeName: c.TypeName})
		if c.Key && !r.full {
			r.keys = append(r.keys, i)
		}
	}
	if known != nil && (r.full || m.Identity == 'n') && len(known.Key) > 0 {
		r.keys = nil
		for _, k := range known.Key {
			if i := slices.IndexFunc(r.columns, func(c pg.Column) bool { return c.Name == k }); i >= 0 {
				r.keys = append(r.keys, i)
			}
		}
	}
	if !r.wanted {
		return r, nil
	}
	var complete record.Metadata
	err = st.schemas.attach(ctx, &complete, r.name, r.columns, r.keys, "")
	r.schemas[""] = complete
	return r, err
}

// known returns the table for the changes of a table in the stream: the table itself, or its partitioned table if the
// publication publishes partitions. It is nil if the source does not read the table.
func (st *stream) known(ctx context.Context, oid uint32, id string) (*pg.Table, error) {
	if t := st.tables[oid]; t != nil {
		return t, nil
	}
	if t := st.tableOf(id); t != nil {
		return t, nil
	}
	above, err := st.now.ancestors(ctx, oid)
	for _, a := range above {
		if t := st.tables[a]; t != nil {
			return t, err
		}
	}
	return nil, err
}

// checkKey returns an error if the server did not send all columns of the key.
func (r *relation) checkKey(row pg.Tuple) error {
	for _, k := range r.keys {
		if k >= len(row) || row[k].Kind != pg.Text {
			return r.incomplete(fmt.Errorf("the server did not send the key column %s", r.columns[k].Name))
		}
	}
	return nil
}

// metadata returns the metadata of a record without the absent columns: its transaction, table and schema.
func (st *stream) metadata(ctx context.Context, r *relation, absent string) record.Metadata {
	if absent == "" && r.complete != nil && r.completeOf == st.tx.Commit {
		return withSpare(r.complete)
	}
	withSchema, ok := r.schemas[absent]
	if !ok {
		if err := st.schemas.attach(ctx, &withSchema, r.name, r.columns, r.keys, absent); err != nil {
			if !r.unregistered { // once, not for each record without a schema
				st.log.Warn("cannot register the schema of a table", "table", r.id(), "err", err)
			}
			r.unregistered = true
		} else {
			r.schemas[absent], r.unregistered = withSchema, false
		}
	}
	// The spare capacity is also for the keys that a host adds.
	m := append(make(record.Metadata, 0, len(st.tx.metadata)+len(withSchema)+4), st.tx.metadata...)
	m.Set(record.KeyCollection, r.name)
	m.Set(metaSchema, r.schema)
	for _, f := range withSchema {
		m.Set(f.Key, f.Value)
	}
	if absent == "" {
		r.complete, r.completeOf = m, st.tx.Commit
		return withSpare(m)
	}
	return m
}

// absent returns a byte for each column, x for a column that a record of the tuples lacks, or "" if it has all columns.
func (r *relation) absent(tuples ...pg.Tuple) string {
	var mask []byte
	for _, t := range tuples {
		for i := range t {
			if t[i].Kind == pg.Unchanged {
				if mask == nil {
					mask = []byte(strings.Repeat("-", len(r.columns)))
				}
				mask[i] = 'x'
			}
		}
	}
	return string(mask)
}

// values returns the columns of a tuple by name, without those that the server did not send. With keyOnly it returns
// only the key.
func (r *relation) values(t pg.Tuple, keyOnly bool) map[string]any {
	values := make(map[string]any, len(t))
	for i := range t {
		switch {
		case t[i].Kind == pg.Text:
			values[r.columns[i].Name] = pg.Decode(r.columns[i].OID, t[i].Text)
		case t[i].Kind == pg.Null && !keyOnly:
			values[r.columns[i].Name] = nil
		}
	}
	return values
}

// keyChanged reports whether the tuples differ in a column of the key that both have.
func (r *relation) keyChanged(before, after pg.Tuple) bool {
	for _, k := range r.keys {
		if k < len(before) && k < len(after) && before[k].Kind == pg.Text && after[k].Kind == pg.Text &&
			string(before[k].Text) != string(after[k].Text) {
			return true
		}
	}
	return false
}
