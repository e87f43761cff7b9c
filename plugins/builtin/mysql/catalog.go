package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// tableInfo is a table as information_schema describes it.
type tableInfo struct {
	Schema, Name  string
	Estimate      int64
	Transactional bool
	Columns       []columnInfo
	Key           []string // columns of the primary key in its order
}

// columnInfo is a column.
type columnInfo struct {
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
func (t *tableInfo) ID() string { return t.Schema + "." + t.Name }

func (t *tableInfo) column(name string) *columnInfo {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return &t.Columns[i]
		}
	}
	return nil
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// SQL is the name in SQL.
func (t *tableInfo) SQL() string { return quote(t.Schema) + "." + quote(t.Name) }

const tablesQuery = "SELECT table_schema, table_name, coalesce(table_rows, 0), coalesce(engine, '') FROM information_schema.tables WHERE table_schema = ? AND table_type = 'BASE TABLE' ORDER BY table_name"

// resolve returns the tables that the patterns stand for, in the order of their ids, without their columns.
func resolve(ctx context.Context, db *sql.DB, patterns []pattern) (all []*tableInfo, err error) {
	var schemas []string
	for _, p := range patterns {
		if !slices.Contains(schemas, p.schema) {
			schemas = append(schemas, p.schema)
		}
	}
	for _, schema := range schemas {
		found, err := tablesOf(ctx, db, schema)
		if err != nil {
			return nil, err
		}
		for _, p := range patterns {
			if p.schema == schema && p.name != "*" && !slices.ContainsFunc(found, func(t *tableInfo) bool { return t.Name == p.name }) {
				return nil, fmt.Errorf("cannot find table %s in database %s: there is none of that name, or the user may not read it: GRANT SELECT ON %s.* TO the user", p.name, schema, quote(schema))
			}
		}
		for _, t := range found {
			if slices.ContainsFunc(patterns, func(p pattern) bool { return p.matches(t.Schema, t.Name) }) {
				all = append(all, t)
			}
		}
	}
	slices.SortFunc(all, func(a, b *tableInfo) int { return strings.Compare(a.ID(), b.ID()) })
	return all, nil
}

func tablesOf(ctx context.Context, db *sql.DB, schema string) (all []*tableInfo, err error) {
	rows, err := db.QueryContext(ctx, tablesQuery, schema)
	if err != nil {
		return nil, fmt.Errorf("cannot look up the tables of %s: %w", schema, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		t, engine := &tableInfo{}, ""
		if err := rows.Scan(&t.Schema, &t.Name, &t.Estimate, &engine); err != nil {
			return nil, fmt.Errorf("cannot look up the tables of %s: %w", schema, err)
		}
		t.Transactional = engine == "InnoDB" || engine == "ROCKSDB" || engine == "TokuDB"
		all = append(all, t)
	}
	return all, rows.Err()
}

const columnsQuery = `SELECT column_name, lower(data_type), column_type, coalesce(character_set_name, ''), coalesce(datetime_precision, 0), coalesce(character_octet_length, 0), coalesce(generation_expression, '') <> ''
FROM information_schema.columns WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position`

const keyQuery = "SELECT column_name FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? AND index_name = 'PRIMARY' ORDER BY seq_in_index"

// describe fills in the columns and the key. A table that there is not any more has none.
func (t *tableInfo) describe(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, columnsQuery, t.Schema, t.Name)
	if err != nil {
		return fmt.Errorf("cannot look up the columns of %s: %w", t.ID(), err)
	}
	defer func() { _ = rows.Close() }()
	t.Columns, t.Key = nil, nil
	for rows.Next() {
		var c columnInfo
		var declared string
		if err := rows.Scan(&c.Name, &c.Type, &declared, &c.Charset, &c.Precision, &c.Length, &c.Generated); err != nil {
			return fmt.Errorf("cannot look up the columns of %s: %w", t.ID(), err)
		}
		c.Unsigned = strings.Contains(declared, "unsigned") || strings.Contains(declared, "zerofill")
		if c.Type == "enum" || c.Type == "set" {
			c.Values, c.Unsigned = members(declared), false
		}
		t.Columns = append(t.Columns, c)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("cannot look up the columns of %s: %w", t.ID(), err)
	}
	return t.describeKey(ctx, db)
}

func (t *tableInfo) describeKey(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, keyQuery, t.Schema, t.Name)
	if err != nil {
		return fmt.Errorf("cannot look up the key of %s: %w", t.ID(), err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return fmt.Errorf("cannot look up the key of %s: %w", t.ID(), err)
		}
		t.Key = append(t.Key, name)
	}
	return rows.Err()
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
