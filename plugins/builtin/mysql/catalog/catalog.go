// Package catalog knows the tables of a MariaDB or MySQL server as its information_schema describes them: their columns,
// keys and character sets. It makes the queries that read rows in the order of the key, and converts the texts of a query
// and the bytes of the binary log to values.
package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink/sqldb"
)

// Pattern stands for a table of a database or, with the name *, for all of them.
type Pattern struct{ Schema, Name string }

// Matches reports whether p stands for a table.
func (p *Pattern) Matches(schema, name string) bool {
	return p.Schema == schema && (p.Name == "*" || p.Name == name)
}

// Table is a table as information_schema describes it.
type Table struct {
	Schema, Name  string
	Estimate      int64
	Transactional bool
	Columns       []Column
	Key           []string // columns of the primary key in its order
}

// Column is a column of a table.
type Column struct {
	Name      string
	Type      string // data type, in lower case
	Unsigned  bool
	Charset   string   // of character strings, ENUM and SET
	Values    []string // of ENUM and SET
	Precision int      // digits of the fraction of a second
	Length    int      // in bytes
	Generated bool
}

// ID is database.name.
func (t *Table) ID() string { return t.Schema + "." + t.Name }

// Column returns the column of a name, or nil.
func (t *Table) Column(name string) *Column {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return &t.Columns[i]
		}
	}
	return nil
}

// Quote returns a name as SQL writes it.
func Quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// SQL is the name in SQL.
func (t *Table) SQL() string { return Quote(t.Schema) + "." + Quote(t.Name) }

const tablesQuery = "SELECT table_schema, table_name, coalesce(table_rows, 0), coalesce(engine, '') FROM information_schema.tables WHERE table_schema = ? AND table_type = 'BASE TABLE' ORDER BY table_name"

// Resolve returns the tables that the patterns stand for, in the order of their ids, without their columns. It is
// an error when there is no table of the name in a pattern.
func Resolve(ctx context.Context, db *sql.DB, patterns []Pattern) (all []*Table, err error) {
	var schemas []string
	for _, p := range patterns {
		if !slices.Contains(schemas, p.Schema) {
			schemas = append(schemas, p.Schema)
		}
	}
	for _, schema := range schemas {
		found, err := tablesOf(ctx, db, schema)
		if err != nil {
			return nil, err
		}
		for _, p := range patterns {
			if p.Schema == schema && p.Name != "*" && !slices.ContainsFunc(found, func(t *Table) bool { return t.Name == p.Name }) {
				return nil, fmt.Errorf("cannot find table %s in database %s: there is none of that name, or the user may not read it: GRANT SELECT ON %s.* TO the user", p.Name, schema, Quote(schema))
			}
		}
		for _, t := range found {
			if slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Matches(t.Schema, t.Name) }) {
				all = append(all, t)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Table) int { return strings.Compare(a.ID(), b.ID()) })
	return all, nil
}

func tablesOf(ctx context.Context, db *sql.DB, schema string) (all []*Table, err error) {
	err = sqldb.EachRow(ctx, db, tablesQuery, func(rows *sql.Rows) error {
		t, engine := &Table{}, ""
		err := rows.Scan(&t.Schema, &t.Name, &t.Estimate, &engine)
		t.Transactional = engine == "InnoDB" || engine == "ROCKSDB" || engine == "TokuDB"
		all = append(all, t)
		return err
	}, schema)
	if err != nil {
		return nil, fmt.Errorf("cannot look up the tables of %s: %w", schema, err)
	}
	return all, nil
}

const columnsQuery = `SELECT column_name, lower(data_type), column_type, coalesce(character_set_name, ''), coalesce(datetime_precision, 0), coalesce(character_octet_length, 0), coalesce(extra, '') REGEXP 'VIRTUAL|STORED|PERSISTENT'
FROM information_schema.columns WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position`

const keyQuery = "SELECT column_name FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? AND index_name = 'PRIMARY' ORDER BY seq_in_index"

// Describe fills in the columns and the key. A table that there is not any more has none.
func (t *Table) Describe(ctx context.Context, db *sql.DB) error {
	t.Columns, t.Key = nil, nil
	err := sqldb.EachRow(ctx, db, columnsQuery, func(rows *sql.Rows) error {
		var c Column
		var declared string
		err := rows.Scan(&c.Name, &c.Type, &declared, &c.Charset, &c.Precision, &c.Length, &c.Generated)
		c.Unsigned = strings.Contains(declared, "unsigned") || strings.Contains(declared, "zerofill")
		if c.Type == "enum" || c.Type == "set" {
			c.Values, c.Unsigned = members(declared), false
		}
		t.Columns = append(t.Columns, c)
		return err
	}, t.Schema, t.Name)
	if err != nil {
		return fmt.Errorf("cannot look up the columns of %s: %w", t.ID(), err)
	}
	err = sqldb.EachRow(ctx, db, keyQuery, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		t.Key = append(t.Key, name)
		return err
	}, t.Schema, t.Name)
	if err != nil {
		return fmt.Errorf("cannot look up the key of %s: %w", t.ID(), err)
	}
	return nil
}

// IsSequence reports whether MariaDB has a sequence of this name, whose changes are in the log like those of a table.
func IsSequence(ctx context.Context, db *sql.DB, schema, name string) (is bool, err error) {
	err = sqldb.EachRow(ctx, db, "SELECT table_type = 'SEQUENCE' FROM information_schema.tables WHERE table_schema = ? AND table_name = ?", func(rows *sql.Rows) error {
		return rows.Scan(&is)
	}, schema, name)
	if err != nil {
		err = fmt.Errorf("cannot look up %s.%s: %w", schema, name, err)
	}
	return is, err
}

// members returns the values in enum('a','b').
func members(declared string) (all []string) {
	_, rest, _ := strings.Cut(declared, "(")
	for {
		_, from, ok := strings.Cut(rest, "'")
		if !ok {
			return all
		}
		var value strings.Builder
		for {
			part, after, ok := strings.Cut(from, "'")
			value.WriteString(part)
			if rest = after; !ok || !strings.HasPrefix(after, "'") {
				break
			}
			value.WriteByte('\'')
			from = after[1:]
		}
		all = append(all, unescape.Replace(value.String()))
	}
}

var unescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r", `\0`, "\x00")
