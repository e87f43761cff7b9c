package mysql

import (
	"database/sql"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Ordered returns the primary key columns if the source can page through the table in key order, and nil otherwise.
func (t *Table) Ordered() []int {
	var keys []int
	for _, k := range t.Key {
		i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == k })
		if i < 0 {
			return nil
		}
		switch t.Columns[i].Type {
		case "enum", "set", "bit", "float", "double", "json":
			return nil
		}
		keys = append(keys, i)
	}
	return keys
}

// Reads reports whether the snapshot reads column c: a generated column only if it is part of the key.
func (t *Table) Reads(c *Column) bool { return !c.Generated || slices.Contains(t.Key, c.Name) }

// Page returns the statement that reads at most limit rows in key order, after the key last, which Last returned. If
// last is empty, it starts at the first row. Without keys, it reads all rows.
func (t *Table) Page(keys []int, last []string, limit int) string {
	var names, by []string
	for i := range t.Columns {
		if c := &t.Columns[i]; t.Reads(c) {
			names = append(names, c.selected())
		}
	}
	query := "SELECT " + strings.Join(names, ", ") + " FROM " + t.SQL()
	for _, k := range keys {
		by = append(by, Quote(t.Columns[k].Name))
	}
	if len(last) > 0 {
		query += " WHERE " + t.behind(keys, by, last)
	}
	if len(by) > 0 {
		query += " ORDER BY " + strings.Join(by, ", ") + " LIMIT " + strconv.Itoa(limit)
	}
	return query
}

// behind returns the condition for keys greater than last, in a form for which the server uses the index.
func (t *Table) behind(keys []int, by, last []string) string {
	condition := ""
	for i := len(by) - 1; i >= 0; i-- {
		v := t.Columns[keys[i]].literal(last[i])
		if condition == "" {
			condition = by[i] + " > " + v
		} else {
			condition = by[i] + " >= " + v + " AND (" + by[i] + " > " + v + " OR " + condition + ")"
		}
	}
	return condition
}

// literal returns a value from Last as an SQL literal.
func (c *Column) literal(v string) string {
	switch {
	case c.binary():
		return "x'" + v + "'"
	case c.Charset != "":
		return "CONVERT(x'" + hex.EncodeToString([]byte(v)) + "' USING utf8mb4)"
	}
	return "'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(v) + "'"
}

// Last returns the key values of a row as text, with bytes in hexadecimal. The row has all columns of the table.
func (t *Table) Last(keys []int, row []sql.RawBytes) []string {
	last := make([]string, len(keys))
	for i, k := range keys {
		if last[i] = string(row[k]); t.Columns[k].binary() {
			last[i] = hex.EncodeToString(row[k])
		}
	}
	return last
}
