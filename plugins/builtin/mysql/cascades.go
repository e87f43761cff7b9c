package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
)

// Cascades returns the foreign keys of the table through which a change of another table changes rows of this one. It
// parses SHOW CREATE TABLE, because a user who may only read tables does not see foreign keys in information_schema.
func (t *Table) Cascades(ctx context.Context, db *sql.DB) (all []ForeignKey, err error) {
	err = sqlsink.EachRow(ctx, db, "SHOW CREATE TABLE "+t.SQL(), func(rows *sql.Rows) error {
		var name, statement string
		if err := rows.Scan(&name, &statement); err != nil {
			return err
		}
		for _, key := range ForeignKeys(statement) {
			if cascades(key.OnDelete) || cascades(key.OnUpdate) {
				all = append(all, key)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot look up the foreign keys of %s: %w", t.ID(), err)
	}
	return all, nil
}

func cascades(rule string) bool { return rule == "CASCADE" || strings.HasPrefix(rule, "SET ") }
