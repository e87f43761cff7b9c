// Package pg speaks with PostgreSQL for the source and the destination of the postgres connector, and for clusters:
// sessions, the catalogue, and the text format of values.
package pg

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Table is a table as described by the catalogue.
type Table struct {
	OID          uint32
	Schema, Name string
	Estimate     int64    // number of rows; 0: unknown
	Columns      []Column // without generated columns, unless a publication has them
	Key          []string // columns of the replica identity's index, or of the primary key in key order; empty: no key
	Partitions   bool     // it has partitions, which hold all its rows
	Filter       string   // SQL condition for the rows to read; "": all

	excluded []string // OIDs of partitions that the source does not read

	collection *Table // parent named in the records of this table; nil: this table
}

// LeftOut is a table that cannot be captured without breaking the programs that write to it.
type LeftOut struct {
	*Table
	Named bool // by the settings; otherwise a pattern matches it
	Err   error
}

// Column is a column of a table.
type Column struct {
	Name     string
	OID      uint32 // type
	TypeName string // in SQL syntax

	generated bool
}

// ID returns schema.name.
func (t *Table) ID() string { return t.Schema + "." + t.Name }

// SQL returns the qualified, quoted name of the table.
func (t *Table) SQL() string { return Quote(t.Schema) + "." + Quote(t.Name) }

// Only returns the SQL for the table without its heirs, which are separate tables.
func (t *Table) Only() string {
	if t.Partitions {
		return t.SQL()
	}
	return "ONLY " + t.SQL()
}

// IsHeir reports whether the table is included because it inherits from another included table.
func (t *Table) IsHeir() bool { return t.collection != nil }

// Collection returns the schema and the table name in the records of the table.
func (t *Table) Collection() (schema, name string) {
	if t.collection != nil {
		return t.collection.Collection()
	}
	return t.Schema, t.Name
}

// ParsePattern splits name or schema.name. In the name, * matches any characters.
func ParsePattern(item string) (schema, name string) {
	if schema, name, ok := strings.Cut(item, "."); ok {
		return schema, name
	}
	return "public", item
}

// tableColumns are the columns to query for a table c in the schema n. The last column names the relation, the table
// itself or a partition, that has no usable replica identity: UPDATE and DELETE fail on it once it is in a publication
// that publishes them.
//
// The array keeps the planner's estimate of the number of partitions small. For the function alone the planner assumes
// a thousand rows, considers the query so expensive that it compiles it, and spends half a second of CPU time on a
// query that takes a millisecond.
const tableColumns = `c.oid, n.nspname, c.relname, c.relpersistence, greatest(c.reltuples, 0)::bigint, c.relkind = 'p',
  EXISTS (SELECT FROM pg_catalog.pg_depend d
    WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'),
  coalesce((SELECT r.oid::regclass::text
    FROM unnest(c.oid || ARRAY(SELECT relid::oid FROM pg_catalog.pg_partition_tree(c.oid))) t(oid)
      JOIN pg_catalog.pg_class r ON r.oid = t.oid,
      (SELECT current_setting('server_version_num')::int >= 180000) v(checks_generated)
    WHERE r.relkind = 'r' AND r.relpersistence = 'p' AND NOT CASE r.relreplident
      WHEN 'n' THEN false
      WHEN 'f' THEN NOT (checks_generated AND EXISTS (SELECT FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = r.oid AND a.attgenerated <> '' AND NOT a.attisdropped))
      ELSE EXISTS (SELECT FROM pg_catalog.pg_index i
        WHERE i.indrelid = r.oid AND i.indisvalid AND i.indimmediate
          AND CASE r.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
          AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
            WHERE a.attrelid = r.oid AND a.attnum = ANY (i.indkey) AND a.attgenerated <> ''))
      END
    ORDER BY 1 LIMIT 1), '')`

const tablesQuery = `
SELECT ` + tableColumns + `
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname = $1 AND c.relname LIKE $2
ORDER BY n.nspname, c.relname`

// heirsQuery selects the tables that inherit from the table with the OID $1 and are not partitions.
const heirsQuery = `
WITH RECURSIVE heirs AS (
  SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = $1::oid
  UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN heirs h ON i.inhparent = h.inhrelid)
SELECT ` + tableColumns + `
FROM heirs h JOIN pg_catalog.pg_class c ON c.oid = h.inhrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND NOT c.relispartition
ORDER BY n.nspname, c.relname`

// like converts a name with * to a LIKE pattern.
var like = strings.NewReplacer(`\`, `\\`, "_", `\_`, "%", `\%`, "*", "%")

// Selection holds the tables selected by the setting tables.
type Selection struct {
	Tables    []*Table
	Left      []LeftOut // tables that cannot be captured, because programs could no longer update them
	Unmatched []string  // patterns that match no table
}

// Resolve returns the tables that match the items of the setting tables, and the tables that inherit from them, without
// columns. A pattern matches no table of an extension.
func Resolve(ctx context.Context, conn *pgconn.PgConn, items []string) (*Selection, error) {
	r := resolver{seen: map[uint32]bool{}}
	for _, item := range items {
		schema, name := ParsePattern(item)
		several := strings.Contains(name, "*")
		found, err := Rows(ctx, conn, tablesQuery, schema, like.Replace(name))
		if err != nil {
			return nil, fmt.Errorf("cannot look up table %s: %w", item, err)
		}
		if len(found) == 0 && several {
			r.Unmatched = append(r.Unmatched, item)
		}
		if len(found) == 0 && !several {
			return nil, missing(ctx, conn, schema, name)
		}
		for _, row := range found {
			if several && row[6] == "t" {
				continue
			}
			if row[3] != "p" {
				if several {
					continue
				}
				return nil, fmt.Errorf("cannot read changes of table %s: it is unlogged or temporary, so its changes "+
					"are not in the write-ahead log", item)
			}
			r.add(row, nil, !several)
		}
	}
	for _, t := range slices.Concat(r.Tables, r.leftTables()) {
		if t.Partitions {
			if err := r.exclude(ctx, conn, t); err != nil {
				return nil, err
			}
			continue
		}
		heirs, err := Rows(ctx, conn, heirsQuery, strconv.FormatUint(uint64(t.OID), 10))
		if err != nil {
			return nil, fmt.Errorf("cannot look up the tables that inherit from %s: %w", t.ID(), err)
		}
		for _, row := range heirs {
			if row[3] == "p" {
				r.add(row, t, false)
			}
		}
	}
	return &r.Selection, nil
}

// kindQuery selects the kind of the relation $2 of the schema $1, and the table that it is a partition of.
const kindQuery = `
SELECT CASE WHEN c.relispartition THEN 'partition' ELSE
    CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table'
      WHEN 'S' THEN 'sequence' ELSE 'relation without rows' END END,
  coalesce((SELECT a.relid::regclass::text FROM pg_catalog.pg_partition_ancestors(c.oid) a
    JOIN pg_catalog.pg_class r ON r.oid = a.relid WHERE NOT r.relispartition), '')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2`

// missing explains why a table cannot be read.
func missing(ctx context.Context, conn *pgconn.PgConn, schema, name string) error {
	r, err := Row(ctx, conn, kindQuery, schema, name)
	switch {
	case err != nil:
		return fmt.Errorf("cannot look up table %s.%s: %w", schema, name, err)
	case r == nil:
		return fmt.Errorf("cannot find table %s: no such table in schema %s of this "+
			"database", name, schema)
	case r[0] == "partition":
		return fmt.Errorf("cannot read partition %s.%s alone: read the partitioned table %s instead",
			schema, name, r[1])
	}
	return fmt.Errorf("cannot read changes of %s.%s: a %s has none in the write-ahead log; read the "+
		"underlying tables instead", schema, name, r[0])
}

// resolver collects tables.
type resolver struct {
	Selection
	seen map[uint32]bool
}

// add adds the table of a row, unless it was added before. Its records name the table collection, unless that is nil.
func (r *resolver) add(row []string, collection *Table, named bool) {
	oid, _ := strconv.ParseUint(row[0], 10, 32)
	estimate, _ := strconv.ParseInt(row[4], 10, 64)
	t := &Table{OID: uint32(oid), Schema: row[1], Name: row[2], Estimate: estimate, collection: collection,
		Partitions: row[5] == "t"}
	if r.seen[t.OID] {
		return
	}
	r.seen[t.OID] = true
	if without := row[7]; without != "" {
		err := fmt.Errorf("%s has no replica identity, or one with a deferrable constraint or a generated column, so "+
			"UPDATE and DELETE would fail on the server or come without a key: run ALTER TABLE %s ADD PRIMARY KEY "+
			"(…) or ALTER TABLE %s REPLICA IDENTITY FULL", without, without, without)
		r.Left = append(r.Left, LeftOut{t, named, err})
		return
	}
	r.Tables = append(r.Tables, t)
}

// unloggedQuery selects the partitions of a table whose changes are not in the write-ahead log.
const unloggedQuery = `
SELECT c.oid, n.nspname, c.relname, CASE c.relkind WHEN 'f' THEN 'a foreign table' ELSE 'unlogged or temporary' END
FROM pg_catalog.pg_partition_tree($1::oid::regclass) t
  JOIN pg_catalog.pg_class c ON c.oid = t.relid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE t.isleaf AND (c.relkind = 'f' OR c.relkind = 'r' AND c.relpersistence <> 'p')
ORDER BY n.nspname, c.relname`

// exclude leaves out partitions without logged changes, and does not read their rows either.
func (r *resolver) exclude(ctx context.Context, conn *pgconn.PgConn, t *Table) error {
	rows, err := Rows(ctx, conn, unloggedQuery, strconv.FormatUint(uint64(t.OID), 10))
	if err != nil {
		return fmt.Errorf("cannot look up the partitions of %s: %w", t.ID(), err)
	}
	for _, row := range rows {
		oid, _ := strconv.ParseUint(row[0], 10, 32)
		t.excluded = append(t.excluded, row[0])
		r.Left = append(r.Left, LeftOut{Table: &Table{OID: uint32(oid), Schema: row[1], Name: row[2]},
			Err: fmt.Errorf("this partition of %s is %s, so its changes are not in the write-ahead log; the source "+
				"reads neither its rows nor its changes", t.ID(), row[3])})
	}
	return nil
}

// Condition returns the SQL condition for the rows to read, or "".
func (t *Table) Condition() string {
	var all []string
	if t.Filter != "" {
		all = append(all, "("+t.Filter+")")
	}
	if len(t.excluded) > 0 {
		all = append(all, "tableoid NOT IN ("+strings.Join(t.excluded, ", ")+")")
	}
	return strings.Join(all, " AND ")
}

func (r *resolver) leftTables() (all []*Table) {
	for _, l := range r.Left {
		all = append(all, l.Table)
	}
	return all
}

// ColumnsQuery selects the name, type and SQL type name of the columns of the table with the OID $1.
const ColumnsQuery = `
SELECT a.attname, a.atttypid, pg_catalog.format_type(a.atttypid, a.atttypmod)
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
ORDER BY a.attnum`

// keyQuery selects the columns of the key. The index of the replica identity takes precedence over the primary key: for
// a deleted row the server sends only its columns.
const keyQuery = `
SELECT a.attname
FROM (SELECT indrelid, indkey, indnkeyatts FROM pg_catalog.pg_index
      WHERE indrelid = $1::oid AND (indisprimary OR indisreplident) ORDER BY indisreplident DESC LIMIT 1) i,
     pg_catalog.generate_subscripts(i.indkey, 1) k
     JOIN pg_catalog.pg_attribute a ON true
WHERE a.attrelid = i.indrelid AND a.attnum = i.indkey[k] AND k < i.indnkeyatts
ORDER BY k`

// allColumnsQuery is ColumnsQuery with generated columns, and whether a column is generated.
const allColumnsQuery = `
SELECT a.attname, a.atttypid, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attgenerated <> ''
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum`

// Narrow keeps only the published columns of the table; nil means all except generated ones. generated reports whether
// the server can publish generated columns: before PostgreSQL 18 a publication may name them, but the server does not
// send them. If a column of the key is missing, the table has no key.
func (t *Table) Narrow(published []string, generated bool) {
	t.Columns = slices.DeleteFunc(t.Columns, func(c Column) bool {
		return c.generated && (!generated || published == nil) || published != nil &&
			!slices.Contains(published, c.Name)
	})
	for _, k := range t.Key {
		if !slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == k }) {
			t.Key = nil
			return
		}
	}
}

// Describe fills in all columns, and the key.
func (t *Table) Describe(ctx context.Context, conn *pgconn.PgConn) error {
	oid := strconv.FormatUint(uint64(t.OID), 10)
	columns, err := Rows(ctx, conn, allColumnsQuery, oid)
	if err != nil {
		return fmt.Errorf("cannot look up the columns of %s: %w", t.ID(), err)
	}
	t.Columns, t.Key = nil, nil
	for _, c := range columns {
		typ, _ := strconv.ParseUint(c[1], 10, 32)
		t.Columns = append(t.Columns, Column{c[0], uint32(typ), c[2], c[3] == "t"})
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

// TypeOf returns the type of a column in SQL syntax.
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
