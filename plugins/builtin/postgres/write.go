package postgres

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
)

// Table implements sqlsink.Database. A name is schema.name, or a table name that contains a dot.
func (d *database) Table(ctx context.Context, name string) (*table, error) {
	if t := d.tables[name]; t != nil {
		return t, nil
	}
	var found []string
	schema, rest, _ := strings.Cut(name, ".")
	for _, c := range []struct {
		sql    string
		length int
	}{{sqlName(name), max(len(schema), len(rest))}, {pg.Quote(name), len(name)}} {
		if c.length > maxName {
			continue
		}
		r, err := pg.Row(ctx, d.conn, "SELECT to_regclass($1)::oid", c.sql)
		if err != nil {
			return nil, fmt.Errorf("cannot look up table %s: %w", name, err)
		}
		if r[0] != "" {
			found = []string{c.sql, r[0]}
			break
		}
	}
	if found == nil {
		return nil, nil
	}
	columns, err := pg.Rows(ctx, d.conn, strings.Replace(pg.ColumnsQuery, "a.atttypmod", "-1", 1), found[1])
	if err != nil {
		return nil, fmt.Errorf("cannot look up the columns of %s: %w", name, err)
	}
	t := &table{SQL: found[0], Columns: map[string]pg.Column{}}
	for _, c := range columns {
		oid, _ := pg.ParseInt([]byte(c[1]))
		t.Columns[c[0]] = pg.Column{Name: c[0], OID: uint32(oid), TypeName: c[2]}
	}
	d.tables[name] = t
	return t, nil
}

// Reread implements sqlsink.Database.
func (d *database) Reread(ctx context.Context, name string, t *table) error {
	delete(d.tables, name)
	now, err := d.Table(ctx, name)
	if err != nil || now == nil {
		return err
	}
	t.Columns, d.tables[name] = now.Columns, t
	return nil
}

// maxName is the maximum length of a name in bytes. The server shortens a longer one, which may then be the name of
// another table.
const maxName = 63

// Statement implements sqlsink.Database. A name with a dot is schema.name if there is such a schema.
func (d *database) Statement(ctx context.Context, t *sqlsink.NewTable) (string, error) {
	grammar := &sqlsink.Grammar{Quote: pg.Quote, Type: newType, Length: func(name string) int { return len(name) },
		MaxLength: maxName}
	if schema, name, dotted := strings.Cut(t.Name, "."); dotted {
		r, err := pg.Row(ctx, d.conn, "SELECT to_regnamespace($1)", pg.Quote(schema))
		if err != nil {
			return "", fmt.Errorf("cannot look up schema %s: %w", schema, err)
		}
		if r[0] != "" {
			return t.Statement(grammar, schema, name)
		}
	}
	return t.Statement(grammar, "", t.Name)
}

var types = map[sqlsink.TypeName]string{sqlsink.Bool: "boolean", sqlsink.Int: "integer", sqlsink.Long: "bigint",
	sqlsink.Unsigned: "numeric(20)", sqlsink.Float: "double precision", sqlsink.Number: "numeric",
	sqlsink.Bytes: "bytea", sqlsink.Time: "timestamptz", sqlsink.Duration: "interval", sqlsink.JSON: "jsonb"}

// newType returns the type of a new column.
func newType(t sqlsink.Type, _ int) string {
	switch {
	case t.Name == sqlsink.Decimal && t.Precision > 0 && t.Precision <= 1000:
		return fmt.Sprintf("numeric(%d,%d)", t.Precision, t.Scale)
	case t.Name == sqlsink.Decimal:
		return "numeric"
	}
	return cmp.Or(types[t.Name], "text")
}

// Create implements sqlsink.Database.
func (d *database) Create(ctx context.Context, statement string) error {
	return pg.Execute(ctx, d.conn, statement)
}

// Commit implements sqlsink.Database.
func (d *database) Commit(ctx context.Context, groups [][]*change, ledger *sqlsink.Ledger, hashes []byte) error {
	if len(groups) == 1 && hashes == nil && groups[0][0].Kind != sqlsink.Update { // a single statement is a transaction
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
		sql = d.note(ledger, hashes) + "; " + sql
	}
	if err := pg.Execute(ctx, d.conn, sql); err != nil { // checks deferred constraints
		d.rollback(ctx)
		if hashes != nil && pg.Duplicated(err, d.positionTable) {
			return sqlsink.Taken(fmt.Errorf("cannot save positions in %s: %w", d.positions, err))
		}
		return err
	}
	return nil
}

func (d *database) rollback(ctx context.Context) {
	if d.conn.IsClosed() {
		return
	}
	if err := pg.Execute(ctx, d.conn, "ROLLBACK"); err != nil {
		d.Disconnect()
	}
}

// apply writes a group of changes.
func (d *database) apply(ctx context.Context, group []*change) error {
	first := group[0]
	if first.Kind == sqlsink.Insert {
		return d.copyIn(ctx, group)
	}
	params := make([][]byte, len(first.Columns))
	for i, name := range first.Columns {
		list, err := arrayOf(group, first.Table.Columns[name], name)
		if err != nil {
			return err
		}
		params[i] = list
	}
	for _, sql := range statements(first) {
		if err := d.conn.ExecParams(ctx, sql, params, nil, nil, nil).Read().Err; err != nil {
			return explain(first, err)
		}
	}
	return nil
}

func explain(c *change, err error) error {
	const noConstraint = "42P10"
	if pg.Code(err) == noConstraint {
		return fmt.Errorf("cannot write to table %s: add a primary key or a unique index on its columns (%s), which "+
			"are the key of the records: %w", c.Table.SQL, pg.List(c.Key), err)
	}
	return fmt.Errorf("cannot write to table %s: %w", c.Table.SQL, err)
}

// statements returns the SQL for the change. Its parameters are a text array per column.
func statements(c *change) []string {
	names, casts, arrays, sets := make([]string, len(c.Columns)), make([]string, len(c.Columns)),
		make([]string, len(c.Columns)), []string{}
	for i, n := range c.Columns {
		names[i] = pg.Quote(n)
		casts[i] = "u." + pg.Quote(n) + "::" + c.Table.Columns[n].TypeName
		arrays[i] = fmt.Sprintf("$%d::text[]", i+1)
	}
	keys, on := make([]string, len(c.Key)), make([]string, len(c.Key))
	for i, k := range c.Key {
		keys[i] = pg.Quote(k)
		on[i] = "t." + pg.Quote(k) + " = u." + pg.Quote(k) + "::" + c.Table.Columns[k].TypeName
	}
	from := "unnest(" + pg.List(arrays) + ") AS u(" + pg.List(names) + ")"
	where := strings.Join(on, " AND ")
	switch c.Kind {
	case sqlsink.Remove:
		return []string{"DELETE FROM " + c.Table.SQL + " AS t USING " + from + " WHERE " + where}
	case sqlsink.Update, sqlsink.Mark:
		for i, n := range c.Columns {
			if !slices.Contains(c.Key, n) {
				sets = append(sets, names[i]+" = "+casts[i])
			}
		}
		update := "UPDATE " + c.Table.SQL + " AS t SET " + pg.List(sets) + " FROM " + from + " WHERE " + where
		if c.Kind == sqlsink.Mark {
			return []string{update}
		}
		return []string{
			update,
			"INSERT INTO " + c.Table.SQL + " (" + pg.List(names) + ") SELECT " + pg.List(casts) + " FROM " + from +
				" WHERE NOT EXISTS (SELECT FROM " + c.Table.SQL + " AS t WHERE " + where + ")",
		}
	}
	for i, n := range c.Columns {
		if !slices.Contains(c.Key, n) {
			sets = append(sets, names[i]+" = EXCLUDED."+names[i])
		}
	}
	conflict := "DO NOTHING"
	if len(sets) > 0 {
		conflict = "DO UPDATE SET " + pg.List(sets)
	}
	return []string{"INSERT INTO " + c.Table.SQL + " (" + pg.List(names) + ") SELECT " + pg.List(casts) + " FROM " +
		from +
		" ON CONFLICT (" + pg.List(keys) + ") " + conflict}
}

// copyIn inserts rows with COPY.
func (d *database) copyIn(ctx context.Context, group []*change) error {
	first := group[0]
	names, columns := make([]string, len(first.Columns)), make([]pg.Column, len(first.Columns))
	for i, n := range first.Columns {
		names[i], columns[i] = pg.Quote(n), first.Table.Columns[n]
	}
	rows := d.rows[:0]
	for _, c := range group {
		for i, n := range first.Columns {
			if i > 0 {
				rows = append(rows, '\t')
			}
			var err error
			if rows, err = appendCopy(rows, c.Values[n], columns[i]); err != nil {
				return err
			}
		}
		rows = append(rows, '\n')
	}
	d.rows = nil // after a failed copy the client still reads for a moment
	if _, err := d.conn.CopyFrom(ctx, bytes.NewReader(rows),
		"COPY "+first.Table.SQL+" ("+pg.List(names)+") FROM STDIN"); err != nil {
		return explain(first, err)
	}
	d.rows = rows
	return nil
}
