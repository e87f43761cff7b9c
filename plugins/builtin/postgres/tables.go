package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// table is a table to read, as the catalogue describes it.
type table struct {
	oid          uint32
	schema, name string
	identity     byte // replica identity: d, n, f or i
	estimate     int64
	columns      []column
	key          []string // columns of the primary key in its order, or of the replica identity's index; nothing: it has none
}

type column struct {
	name     string
	oid      uint32
	typeName string // as SQL writes it
}

// id is schema.name.
func (t *table) id() string { return t.schema + "." + t.name }

// sql is the name in SQL.
func (t *table) sql() string { return quote(t.schema) + "." + quote(t.name) }

// pattern is what an item of the setting tables stands for.
type pattern struct{ schema, name string } // name * stands for all

func parsePattern(item string) pattern {
	if schema, name, ok := strings.Cut(item, "."); ok {
		return pattern{schema, name}
	}
	return pattern{"public", item}
}

const tablesQuery = `
SELECT c.oid, n.nspname, c.relname, c.relpersistence, c.relreplident, greatest(c.reltuples, 0)::bigint
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname = $1 AND ($2 = '*' OR c.relname = $2)
ORDER BY n.nspname, c.relname`

// resolve returns the tables that the items of the setting tables stand for, without their columns.
func resolve(ctx context.Context, conn *pgconn.PgConn, items []string) (all []*table, err error) {
	for _, item := range items {
		p := parsePattern(item)
		found, err := rows(ctx, conn, tablesQuery, p.schema, p.name)
		if err != nil {
			return nil, fmt.Errorf("cannot look up table %s: %w", item, err)
		}
		if len(found) == 0 && p.name != "*" {
			return nil, fmt.Errorf("cannot find table %s: there is none of that name in schema %s of this database", item, p.schema)
		}
		for _, r := range found {
			if r[3] != "p" {
				if p.name == "*" {
					continue
				}
				return nil, fmt.Errorf("cannot read changes of table %s: it is unlogged or temporary, so that they are not in the write-ahead log", item)
			}
			oid, _ := strconv.ParseUint(r[0], 10, 32)
			estimate, _ := strconv.ParseInt(r[5], 10, 64)
			t := &table{oid: uint32(oid), schema: r[1], name: r[2], identity: r[4][0], estimate: estimate}
			if !slices.ContainsFunc(all, func(o *table) bool { return o.oid == t.oid }) {
				all = append(all, t)
			}
		}
	}
	return all, nil
}

const columnsQuery = `
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

// describe fills in the columns and the key.
func (t *table) describe(ctx context.Context, conn *pgconn.PgConn) error {
	oid := strconv.FormatUint(uint64(t.oid), 10)
	columns, err := rows(ctx, conn, columnsQuery, oid)
	if err != nil {
		return fmt.Errorf("cannot look up the columns of %s: %w", t.id(), err)
	}
	t.columns, t.key = nil, nil
	for _, c := range columns {
		typ, _ := strconv.ParseUint(c[1], 10, 32)
		t.columns = append(t.columns, column{c[0], uint32(typ), c[2]})
	}
	key, err := rows(ctx, conn, keyQuery, oid)
	if err != nil {
		return fmt.Errorf("cannot look up the key of %s: %w", t.id(), err)
	}
	for _, k := range key {
		t.key = append(t.key, k[0])
	}
	return nil
}

// typeOf returns the type of a column as SQL writes it.
func (t *table) typeOf(name string) string {
	for _, c := range t.columns {
		if c.name == name {
			return c.typeName
		}
	}
	return "text"
}

func ids(tables []*table) []string {
	all := make([]string, len(tables))
	for i, t := range tables {
		all[i] = t.id()
	}
	return all
}
