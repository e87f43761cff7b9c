package mysql

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
)

// Charsets converts strings of the log from the character sets of their columns to UTF-8. The server does the
// conversion: one query returns all characters of a single-byte set; the other sets, which are rare, need one query per
// value.
type Charsets struct {
	db     *sql.DB
	ofID   map[int]string // character set names by collation id
	wide   map[string]bool
	tables map[string]*[256]string
}

// NewCharsets queries the server for its character sets.
func NewCharsets(ctx context.Context, db *sql.DB, maria bool) (*Charsets, error) {
	c := &Charsets{db: db, ofID: map[int]string{}, wide: map[string]bool{}, tables: map[string]*[256]string{}}
	err := sqlsink.EachRow(ctx, db, "SELECT coalesce(id, 0), coalesce(character_set_name, '') FROM "+
		"information_schema.collations", func(rows *sql.Rows) error {
		id, name := 0, ""
		defer func() { c.ofID[id] = name }()
		return rows.Scan(&id, &name)
	})
	if err == nil && maria { // a collation for several sets has one id for each; older servers have none of these
		_ = sqlsink.EachRow(ctx, db, "SELECT id, character_set_name FROM "+
			"information_schema.collation_character_set_applicability", func(rows *sql.Rows) error {
			id, name := 0, ""
			defer func() { c.ofID[id] = name }()
			return rows.Scan(&id, &name)
		})
	}
	if err == nil {
		err = sqlsink.EachRow(ctx, db, "SELECT character_set_name, maxlen > 1 FROM information_schema.character_sets",
			func(rows *sql.Rows) error {
				wide, name := false, ""
				defer func() { c.wide[name] = wide }()
				return rows.Scan(&name, &wide)
			})
	}
	if err != nil {
		return nil, fmt.Errorf("cannot look up the character sets: %w", err)
	}
	return c, nil
}

// converter returns the function that converts a character set to UTF-8. It is nil if no conversion is necessary.
func (c *Charsets) converter(ctx context.Context, name string) (func([]byte) (any, error), error) {
	switch name {
	case "", "utf8", "utf8mb3", "utf8mb4", "ascii", "binary":
		return nil, nil
	}
	wide, known := c.wide[name]
	if !known {
		return nil, fmt.Errorf("cannot convert the character set %s: the server does not know it", name)
	}
	if wide {
		return func(b []byte) (any, error) { return c.ask(ctx, name, b) }, nil
	}
	table := c.tables[name]
	if table == nil {
		var err error
		if table, err = c.characters(ctx, name); err != nil {
			return nil, fmt.Errorf("cannot convert the character set %s: %w", name, err)
		}
		c.tables[name] = table
	}
	return func(b []byte) (any, error) {
		var text strings.Builder
		for _, one := range b {
			text.WriteString(table[one])
		}
		return text.String(), nil
	}, nil
}

// characters queries the server for all characters of a single-byte set.
func (c *Charsets) characters(ctx context.Context, name string) (*[256]string, error) {
	var table [256]string
	var columns []string
	into := make([]any, len(table))
	values := make([]sql.NullString, len(table))
	for i := range table {
		columns = append(columns, fmt.Sprintf("CONVERT(x'%02X' USING %s)", i, name))
		into[i] = &values[i]
	}
	if err := c.db.QueryRowContext(ctx, "SELECT "+strings.Join(columns, ", ")).Scan(into...); err != nil {
		return nil, err
	}
	for i, v := range values {
		table[i] = v.String
	}
	return &table, nil
}

func (c *Charsets) ask(ctx context.Context, name string, b []byte) (any, error) {
	if len(b) == 0 {
		return "", nil
	}
	var text sql.NullString // NULL for bytes that the set does not have
	if err := c.db.QueryRowContext(ctx, "SELECT CONVERT(x'"+hex.EncodeToString(b)+"' USING "+name+
		")").Scan(&text); err != nil {
		return nil, fmt.Errorf("cannot convert from the character set %s: %w", name, err)
	}
	if !text.Valid {
		return nil, binlog.ErrUnconvertible
	}
	return text.String, nil
}
