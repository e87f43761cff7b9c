package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/template"
)

// target is a table to write to.
type target struct {
	sql     string               // its name
	columns map[string]pg.Column // by name; typeName without its modifier
	last    []string             // names of the fields of the record before, sorted
}

// target looks up a table: schema.name, or one that has a dot in its name.
func (d *Destination) target(ctx context.Context, name string) (*target, error) {
	if t := d.tables[name]; t != nil {
		return t, nil
	}
	var found []string
	for _, sql := range []string{sqlName(name), pg.Quote(name)} {
		r, err := pg.Row(ctx, d.conn, "SELECT to_regclass($1)::oid", sql)
		if err != nil {
			return nil, fmt.Errorf("cannot look up table %s: %w", name, err)
		}
		if r[0] != "" {
			found = []string{sql, r[0]}
			break
		}
	}
	if found == nil {
		return nil, refusal{fmt.Errorf("cannot find table %s: create it, or change the setting table", name)}
	}
	columns, err := pg.Rows(ctx, d.conn, strings.Replace(pg.ColumnsQuery, "a.atttypmod", "-1", 1), found[1])
	if err != nil {
		return nil, fmt.Errorf("cannot look up the columns of %s: %w", name, err)
	}
	t := &target{sql: found[0], columns: map[string]pg.Column{}}
	for _, c := range columns {
		oid, _ := pg.ParseInt([]byte(c[1]))
		t.columns[c[0]] = pg.Column{Name: c[0], OID: uint32(oid), TypeName: c[2]}
	}
	d.tables[name] = t
	return t, nil
}

// columnsOf returns the names of the fields, sorted. Each has a column.
func (t *target) columnsOf(fields map[string]any) ([]string, error) {
	if len(fields) == len(t.last) && !slices.ContainsFunc(t.last, func(n string) bool { _, ok := fields[n]; return !ok }) {
		return t.last, nil // as most records have the fields of the one before
	}
	if len(fields) == 0 {
		return nil, errors.New("the record has no fields")
	}
	names := slices.Sorted(maps.Keys(fields))
	for _, n := range names {
		if _, ok := t.columns[n]; !ok {
			return nil, fmt.Errorf("it has no column %q: add it, or remove the field with a processor", n)
		}
	}
	t.last = names
	return names, nil
}

// change is what a record asks for.
type change struct {
	kind    kind
	table   *target
	key     []string // names of its columns, sorted
	columns []string // names of all columns to write, sorted; those of the key for a delete
	values  map[string]any
}

type kind int

const (
	insert kind = iota // without a key
	upsert
	update // of some columns: those left out stay
	remove
)

// same reports whether one statement can do both.
func (c *change) same(o *change) bool {
	return c.kind == o.kind && c.table == o.table && slices.Equal(c.key, o.key) && sameNames(c.columns, o.columns)
}

func sameNames(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// identity is the key as text.
func (c *change) identity() string {
	var b strings.Builder
	for _, k := range c.key {
		fmt.Fprintf(&b, "%v\x00", c.values[k])
	}
	return b.String()
}

// change returns what r asks for.
func (d *Destination) change(ctx context.Context, r *record.Record) (*change, error) {
	name, err := d.tableOf(r)
	if err != nil {
		return nil, err
	}
	t, err := d.target(ctx, name)
	if err != nil {
		return nil, err
	}
	key, err := object(r.Key)
	if err != nil {
		key = nil // a raw key that is no object names no columns
	}
	c := &change{table: t, key: slices.Sorted(maps.Keys(key))}
	if r.Operation == record.OperationDelete {
		if len(key) == 0 {
			return nil, refusal{fmt.Errorf("cannot delete from table %s: the record has no key", name)}
		}
		c.kind, c.columns, c.values = remove, c.key, key
		return c, nil
	}
	payload, err := object(r.After)
	if err != nil {
		return nil, refusal{fmt.Errorf("cannot write to table %s: the payload is no object: %w", name, err)}
	}
	if len(key) > 0 {
		if payload = maps.Clone(payload); payload == nil {
			payload = map[string]any{}
		}
		for k, v := range key {
			if _, ok := payload[k]; !ok {
				payload[k] = v
			}
		}
	}
	c.values = payload
	if c.columns, err = t.columnsOf(payload); err != nil {
		return nil, refusal{fmt.Errorf("cannot write to table %s: %w", name, err)}
	}
	switch {
	case len(key) == 0 && r.Operation == record.OperationUpdate:
		return nil, refusal{fmt.Errorf("cannot update table %s: the record has no key", name)}
	case len(key) == 0:
		c.kind = insert
	case r.Operation == record.OperationUpdate && len(c.columns) < len(t.columns) && len(c.columns) > len(c.key):
		c.kind = update
	default:
		c.kind = upsert
	}
	return c, nil
}

// transaction writes the records in one transaction, with their positions if there is a ledger.
func (d *Destination) transaction(ctx context.Context, records []record.Record) error {
	d.timeLimit = template.TimeLimit{}
	changes, hashes, err := d.changes(ctx, records)
	if err != nil || len(changes) == 0 {
		return err
	}
	groups := grouped(changes)
	if len(groups) == 1 && hashes == nil && groups[0][0].kind != update { // one statement is a transaction
		return d.apply(ctx, groups[0])
	}
	if err := pg.Execute(ctx, d.conn, "BEGIN"); err != nil {
		return err
	}
	for _, g := range groups {
		if err := d.apply(ctx, g); err != nil {
			d.rollback(ctx)
			return err
		}
	}
	sql := "COMMIT"
	if hashes != nil {
		sql = d.ledger.statement(hashes) + "; " + sql
	}
	if err := pg.Execute(ctx, d.conn, sql); err != nil { // deferred constraints are checked here
		d.rollback(ctx)
		return err
	}
	if hashes != nil {
		d.ledger.noted(len(hashes) / len(hash{}))
	}
	return nil
}

func (d *Destination) rollback(ctx context.Context) {
	if d.conn.IsClosed() {
		return
	}
	if err := pg.Execute(ctx, d.conn, "ROLLBACK"); err != nil {
		pg.Close(d.conn)
	}
}

// changes returns what the records ask for that are not written yet, and with a ledger their hashes.
func (d *Destination) changes(ctx context.Context, records []record.Record) (all []*change, hashes []byte, err error) {
	all = make([]*change, 0, len(records))
	for i := range records {
		if d.ledger != nil {
			h := hashOf(&records[i])
			if d.ledger.has(h) {
				continue
			}
			hashes = append(hashes, h[:]...)
		}
		c, err := d.change(ctx, &records[i])
		if err != nil {
			return nil, nil, err
		}
		all = append(all, c)
	}
	return all, hashes, nil
}

// grouped cuts the changes, in order, into groups that one statement each can do: it must not
// touch a row twice.
func grouped(changes []*change) (groups [][]*change) {
	keys := map[string]struct{}{}
	for i, c := range changes {
		id := ""
		if c.kind != insert {
			id = c.identity()
		}
		_, twice := keys[id]
		if i == 0 || !c.same(changes[i-1]) || c.kind != insert && twice {
			groups = append(groups, nil)
			clear(keys)
		}
		keys[id] = struct{}{}
		groups[len(groups)-1] = append(groups[len(groups)-1], c)
	}
	return groups
}

// apply does a group of changes.
func (d *Destination) apply(ctx context.Context, group []*change) error {
	first := group[0]
	if first.kind == insert {
		return d.copyIn(ctx, group)
	}
	params := make([][]byte, len(first.columns))
	for i, name := range first.columns {
		list, err := arrayOf(group, first.table.columns[name], name)
		if err != nil {
			return err
		}
		params[i] = list
	}
	for _, sql := range first.statements() {
		if err := d.conn.ExecParams(ctx, sql, params, nil, nil, nil).Read().Err; err != nil {
			return first.explain(err)
		}
	}
	return nil
}

func (c *change) explain(err error) error {
	const noConstraint = "42P10"
	if pg.Code(err) == noConstraint {
		return fmt.Errorf("cannot write to table %s: its columns (%s) need a primary key or a unique index, since records have them as their key: %w", c.table.sql, pg.List(c.key), err)
	}
	return fmt.Errorf("cannot write to table %s: %w", c.table.sql, err)
}

// statements returns the SQL for the change. Its parameters are an array of texts for each column.
func (c *change) statements() []string {
	names, casts, arrays, sets := make([]string, len(c.columns)), make([]string, len(c.columns)), make([]string, len(c.columns)), []string{}
	for i, n := range c.columns {
		names[i] = pg.Quote(n)
		casts[i] = "u." + pg.Quote(n) + "::" + c.table.columns[n].TypeName
		arrays[i] = fmt.Sprintf("$%d::text[]", i+1)
	}
	keys, on := make([]string, len(c.key)), make([]string, len(c.key))
	for i, k := range c.key {
		keys[i] = pg.Quote(k)
		on[i] = "t." + pg.Quote(k) + " = u." + pg.Quote(k) + "::" + c.table.columns[k].TypeName
	}
	from := "unnest(" + pg.List(arrays) + ") AS u(" + pg.List(names) + ")"
	where := strings.Join(on, " AND ")
	switch c.kind {
	case remove:
		return []string{"DELETE FROM " + c.table.sql + " AS t USING " + from + " WHERE " + where}
	case update:
		for i, n := range c.columns {
			if !slices.Contains(c.key, n) {
				sets = append(sets, names[i]+" = "+casts[i])
			}
		}
		return []string{
			"UPDATE " + c.table.sql + " AS t SET " + pg.List(sets) + " FROM " + from + " WHERE " + where,
			"INSERT INTO " + c.table.sql + " (" + pg.List(names) + ") SELECT " + pg.List(casts) + " FROM " + from +
				" WHERE NOT EXISTS (SELECT FROM " + c.table.sql + " AS t WHERE " + where + ")",
		}
	}
	for i, n := range c.columns {
		if !slices.Contains(c.key, n) {
			sets = append(sets, names[i]+" = EXCLUDED."+names[i])
		}
	}
	conflict := "DO NOTHING"
	if len(sets) > 0 {
		conflict = "DO UPDATE SET " + pg.List(sets)
	}
	return []string{"INSERT INTO " + c.table.sql + " (" + pg.List(names) + ") SELECT " + pg.List(casts) + " FROM " + from +
		" ON CONFLICT (" + pg.List(keys) + ") " + conflict}
}

// copyIn inserts rows with COPY.
func (d *Destination) copyIn(ctx context.Context, group []*change) error {
	first := group[0]
	names, columns := make([]string, len(first.columns)), make([]pg.Column, len(first.columns))
	for i, n := range first.columns {
		names[i], columns[i] = pg.Quote(n), first.table.columns[n]
	}
	rows := d.rows[:0]
	for _, c := range group {
		for i, n := range first.columns {
			if i > 0 {
				rows = append(rows, '\t')
			}
			var err error
			if rows, err = appendCopy(rows, c.values[n], columns[i]); err != nil {
				return err
			}
		}
		rows = append(rows, '\n')
	}
	d.rows = rows
	if _, err := d.conn.CopyFrom(ctx, bytes.NewReader(rows), "COPY "+first.table.sql+" ("+pg.List(names)+") FROM STDIN"); err != nil {
		return first.explain(err)
	}
	return nil
}
