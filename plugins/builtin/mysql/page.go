package mysql

import (
	"database/sql"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Ordered returns the columns of the primary key, if rows can be read in their order and from one on, else none.
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

// Reads reports whether rows are read with a column: one that is generated only if the key has it.
func (t *Table) Reads(c *Column) bool { return !c.Generated || slices.Contains(t.Key, c.Name) }

// Page returns the statement that reads the columns of at most limit rows in the order of keys, those behind last, which
// Last returned; without a last one it is the first rows. Without keys, it reads all rows.
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

// behind returns the condition for a greater key, in a form for which the server uses the index.
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

// literal returns a value that Last returned as SQL writes it.
func (c *Column) literal(v string) string {
	switch {
	case c.binary():
		return "x'" + v + "'"
	case c.Charset != "":
		return "CONVERT(x'" + hex.EncodeToString([]byte(v)) + "' USING utf8mb4)"
	}
	return "'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(v) + "'"
}

// Last returns the values of keys in a row, which has all columns of the table, as text: bytes in hexadecimal.
func (t *Table) Last(keys []int, row []sql.RawBytes) []string {
	last := make([]string, len(keys))
	for i, k := range keys {
		if last[i] = string(row[k]); t.Columns[k].binary() {
			last[i] = hex.EncodeToString(row[k])
		}
	}
	return last
}
