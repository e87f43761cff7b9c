package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
)

// Pattern matches one table of a database or, with the name *, all its tables.
type Pattern struct{ Schema, Name string }

// Matches reports whether p matches a table.
func (p *Pattern) Matches(schema, name string) bool {
	return p.Schema == schema && (p.Name == "*" || p.Name == name)
}

// Table is a table as information_schema describes it.
type Table struct {
	Schema, Name  string
	Estimate      int64
	Transactional bool
	Columns       []Column
	Key           []string // columns of the primary key in key order, without system columns

	kind             string // table_type; "" if the table no longer exists
	rowStart, rowEnd string // system columns of a table with system versioning; "" otherwise
}

// Column is a column of a table.
type Column struct {
	Name      string
	Type      string // data type, in lower case
	Unsigned  bool
	Charset   string   // for character strings, ENUM and SET
	Values    []string // for ENUM and SET
	Precision int      // digits of fractional seconds
	Length    int      // in bytes
	Generated bool
}

// ID returns database.name.
func (t *Table) ID() string { return t.Schema + "." + t.Name }

// Column returns the column with the given name, or nil.
func (t *Table) Column(name string) *Column {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return &t.Columns[i]
		}
	}
	return nil
}

// Quote returns name as a quoted SQL identifier.
func Quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// SQL returns the qualified, quoted name of the table.
func (t *Table) SQL() string { return Quote(t.Schema) + "." + Quote(t.Name) }

// Types of tables that the source reads. Views have no changes, and a sequence has no rows of user data.
const (
	baseTable = "BASE TABLE"
	versioned = "SYSTEM VERSIONED" // MariaDB only
)

// IsRead reports whether the source reads tables of this type. It returns true for a table that no longer exists.
func (t *Table) IsRead() bool { return t.kind == "" || t.kind == baseTable || t.kind == versioned }

const tablesQuery = "SELECT table_schema, table_name, coalesce(table_rows, 0), coalesce(engine, '') FROM " +
	"information_schema.tables WHERE table_schema = ? AND table_type IN ('" + baseTable + "', '" + versioned +
	"') ORDER BY table_name"

// Resolve returns the tables that match the patterns, sorted by id, without their columns. It fails if no table has the
// name of a pattern.
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
			if p.Schema == schema && p.Name != "*" && !slices.ContainsFunc(found, func(t *Table) bool {
				return t.Name == p.Name
			}) {
				return nil, missing(ctx, db, p)
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

// missing explains why no readable table has the name of the pattern.
func missing(ctx context.Context, db *sql.DB, p Pattern) error {
	kind := ""
	err := sqlsink.EachRow(ctx, db, kindQuery, func(rows *sql.Rows) error { return rows.Scan(&kind) }, p.Schema, p.Name)
	if err == nil && kind != "" {
		return fmt.Errorf("cannot read table %s of database %s: a %s has no changes in the binary log; read the "+
			"underlying tables instead",
			p.Name, p.Schema, kind)
	}
	return fmt.Errorf("cannot find table %s in database %s: it does not exist, or the user cannot read it: "+
		"create it, or run GRANT SELECT ON %s.* TO the user",
		p.Name, p.Schema, Quote(p.Schema))
}

func tablesOf(ctx context.Context, db *sql.DB, schema string) (all []*Table, err error) {
	err = sqlsink.EachRow(ctx, db, tablesQuery, func(rows *sql.Rows) error {
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

const columnsQuery = `
SELECT column_name, lower(data_type), column_type, coalesce(character_set_name, ''), coalesce(datetime_precision, 0),
  coalesce(character_octet_length, 0), coalesce(extra, '') REGEXP 'VIRTUAL|STORED|PERSISTENT'
FROM information_schema.columns WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position`

const keyQuery = "SELECT column_name FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? " +
	"AND index_name = 'PRIMARY' ORDER BY seq_in_index"

// Describe fills in the columns and the key. A table that no longer exists has none.
func (t *Table) Describe(ctx context.Context, db *sql.DB) error {
	t.Columns, t.Key = nil, nil
	err := sqlsink.EachRow(ctx, db, columnsQuery, func(rows *sql.Rows) error {
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
	err = sqlsink.EachRow(ctx, db, keyQuery, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		t.Key = append(t.Key, name)
		return err
	}, t.Schema, t.Name)
	if err != nil {
		return fmt.Errorf("cannot look up the key of %s: %w", t.ID(), err)
	}
	return t.describeKind(ctx, db)
}

const (
	kindQuery   = "SELECT table_type FROM information_schema.tables WHERE table_schema = ? AND table_name = ?"
	periodQuery = "SELECT column_name, generation_expression FROM information_schema.columns WHERE table_schema = ? " +
		"AND table_name = ? AND generation_expression IN ('ROW START', 'ROW END')"
)

// describeKind fills in the type of the table and, with system versioning, its system columns: the user declares their
// names, or they are hidden after all other columns.
func (t *Table) describeKind(ctx context.Context, db *sql.DB) error {
	t.kind, t.rowStart, t.rowEnd = "", "", ""
	err := sqlsink.EachRow(ctx, db, kindQuery, func(rows *sql.Rows) error {
		return rows.Scan(&t.kind)
	}, t.Schema, t.Name)
	if err == nil && t.kind == versioned {
		err = sqlsink.EachRow(ctx, db, periodQuery, func(rows *sql.Rows) error {
			var name, bound string
			err := rows.Scan(&name, &bound)
			if bound == "ROW START" {
				t.rowStart = name
			} else {
				t.rowEnd = name
			}
			return err
		}, t.Schema, t.Name)
	}
	if err != nil {
		return fmt.Errorf("cannot look up table %s: %w", t.ID(), err)
	}
	if t.kind == versioned && t.rowEnd == "" {
		t.rowStart, t.rowEnd = hiddenStart, hiddenEnd
		for _, name := range []string{hiddenStart, hiddenEnd} {
			t.Columns = append(t.Columns, Column{Name: name, Type: "timestamp", Precision: 6, Generated: true})
		}
	}
	t.Key = slices.DeleteFunc(t.Key, t.isOfSystem)
	return nil
}

// Names of the system columns that MariaDB adds to a table with system versioning that declares none.
const (
	hiddenStart = "row_start"
	hiddenEnd   = "row_end"
)

func (t *Table) isOfSystem(column string) bool {
	return column != "" && (column == t.rowStart || column == t.rowEnd)
}

// members returns the values of a declaration such as enum('a','b').
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
