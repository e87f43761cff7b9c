// Package pg is what the two sides of the postgres connector share: sessions, the catalogue, and
// the text format of values.
package pg

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Table is a table as the catalogue describes it.
type Table struct {
	OID          uint32
	Schema, Name string
	Estimate     int64    // of its rows; 0: unknown
	Columns      []Column // that are not generated
	Key          []string // columns of the primary key in its order, or of the replica identity's index; nothing: it has none
}

// Column is a column of a table.
type Column struct {
	Name     string
	OID      uint32 // of its type
	TypeName string // as SQL writes it
}

// ID is schema.name.
func (t *Table) ID() string { return t.Schema + "." + t.Name }

// SQL is the name in SQL.
func (t *Table) SQL() string { return Quote(t.Schema) + "." + Quote(t.Name) }

// ParsePattern returns schema and name of name or schema.name; in the name, * stands for any characters.
func ParsePattern(item string) (schema, name string) {
	if schema, name, ok := strings.Cut(item, "."); ok {
		return schema, name
	}
	return "public", item
}

const tablesQuery = `
SELECT c.oid, n.nspname, c.relname, c.relpersistence, greatest(c.reltuples, 0)::bigint
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname = $1 AND c.relname LIKE $2
ORDER BY n.nspname, c.relname`

// like has LIKE match what a name with * stands for.
var like = strings.NewReplacer(`\`, `\\`, "_", `\_`, "%", `\%`, "*", "%")

// Resolve returns the tables that the items of the setting tables stand for, without their columns.
func Resolve(ctx context.Context, conn *pgconn.PgConn, items []string) (all []*Table, err error) {
	for _, item := range items {
		schema, name := ParsePattern(item)
		several := strings.Contains(name, "*")
		found, err := Rows(ctx, conn, tablesQuery, schema, like.Replace(name))
		if err != nil {
			return nil, fmt.Errorf("cannot look up table %s: %w", item, err)
		}
		if len(found) == 0 && !several {
			return nil, fmt.Errorf("cannot find table %s: there is none of that name in schema %s of this database", item, schema)
		}
		for _, r := range found {
			if r[3] != "p" {
				if several {
					continue
				}
				return nil, fmt.Errorf("cannot read changes of table %s: it is unlogged or temporary, so that they are not in the write-ahead log", item)
			}
			oid, _ := strconv.ParseUint(r[0], 10, 32)
			estimate, _ := strconv.ParseInt(r[4], 10, 64)
			t := &Table{OID: uint32(oid), Schema: r[1], Name: r[2], Estimate: estimate}
			if !slices.ContainsFunc(all, func(o *Table) bool { return o.OID == t.OID }) {
				all = append(all, t)
			}
		}
	}
	return all, nil
}

// ColumnsQuery asks for name, type and its SQL of the columns of the table with the OID $1.
const ColumnsQuery = `
SELECT a.attname, a.atttypid, pg_catalog.format_type(a.atttypid, a.atttypmod)
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
ORDER BY a.attnum`

const keyQuery = `
SELECT a.attname
FROM (SELECT indrelid, indkey, indnkeyatts FROM pg_catalog.pg_index
      WHERE indrelid = $1::oid AND (indisprimary OR indisreplident) ORDER BY indisprimary DESC LIMIT 1) i,
     pg_catalog.generate_subscripts(i.indkey, 1) k
     JOIN pg_catalog.pg_attribute a ON true
WHERE a.attrelid = i.indrelid AND a.attnum = i.indkey[k] AND k < i.indnkeyatts
ORDER BY k`

// Describe fills in the columns and the key.
func (t *Table) Describe(ctx context.Context, conn *pgconn.PgConn) error {
	oid := strconv.FormatUint(uint64(t.OID), 10)
	columns, err := Rows(ctx, conn, ColumnsQuery, oid)
	if err != nil {
		return fmt.Errorf("cannot look up the columns of %s: %w", t.ID(), err)
	}
	t.Columns, t.Key = nil, nil
	for _, c := range columns {
		typ, _ := strconv.ParseUint(c[1], 10, 32)
		t.Columns = append(t.Columns, Column{c[0], uint32(typ), c[2]})
	}
	key, err := Rows(ctx, conn, keyQuery, oid)
	if err != nil {
		return fmt.Errorf("cannot look up the key of %s: %w", t.ID(), err)
	}
	for _, k := range key {
		t.Key = append(t.Key, k[0])
	}
	return nil
}

// TypeOf returns the type of a column as SQL writes it.
func (t *Table) TypeOf(name string) string {
	for _, c := range t.Columns {
		if c.Name == name {
			return c.TypeName
		}
	}
	return "text"
}

// IDs returns the ids of tables.
func IDs(tables []*Table) []string {
	all := make([]string, len(tables))
	for i, t := range tables {
		all[i] = t.ID()
	}
	return all
}
