package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
)

// add stores the shape of a table and creates its triggers.
func (c *Capture) add(ctx context.Context, conn *sql.Conn, w *Shape) error {
	if err := c.widen(ctx, conn, len(w.Columns)); err != nil {
		return err
	}
	columns, _ := json.Marshal(w.Columns) // cannot fail
	result, err := conn.ExecContext(ctx, "INSERT INTO "+c.name("_tables")+" (name, columns, active) VALUES (?, ?, 1)",
		w.Name, string(columns))
	if err != nil {
		return err
	}
	if w.Number, err = result.LastInsertId(); err != nil {
		return err
	}
	return c.trigger(ctx, conn, w)
}

// widen ensures that the table of changes has columns for the values of n columns before (b1, …) and after (a1, …) a
// change. They have no type, so that SQLite does not convert the values.
func (c *Capture) widen(ctx context.Context, conn *sql.Conn, n int) error {
	var have int
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM pragma_table_info(?)", c.Table).Scan(&have); err != nil {
		return err
	}
	for i := (have-fixed)/2 + 1; i <= n; i++ {
		for _, side := range "ba" {
			if _, err := conn.ExecContext(ctx,
				fmt.Sprintf("ALTER TABLE %s ADD COLUMN %c%d", c.name(""), side, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// fixed is the number of columns before the value columns in the table of changes.
const fixed = 4

// trigger creates the triggers of a shape, and replaces the existing ones.
func (c *Capture) trigger(ctx context.Context, conn *sql.Conn, s *Shape) error {
	if err := c.dropTriggers(ctx, conn, s); err != nil {
		return err
	}
	for _, statement := range c.statements(s) {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// drop ends the capture of a table.
func (c *Capture) drop(ctx context.Context, conn *sql.Conn, s *Shape) error {
	if err := c.dropTriggers(ctx, conn, s); err != nil {
		return err
	}
	s.Active = false
	_, err := conn.ExecContext(ctx, "UPDATE "+c.name("_tables")+" SET active = 0 WHERE shape = ?", s.Number)
	return err
}

func (c *Capture) dropTriggers(ctx context.Context, conn *sql.Conn, s *Shape) error {
	for _, event := range events {
		if _, err := conn.ExecContext(ctx, "DROP TRIGGER IF EXISTS "+c.triggerName(s, event)); err != nil {
			return err
		}
	}
	return nil
}

// events are the name suffixes of triggers, sorted. A change of the key is recorded as a delete and an insert.
var events = []string{"delete", "insert", "rekey", "update"}

func (c *Capture) triggerName(s *Shape, event string) string {
	return c.name(fmt.Sprintf("_%d_%s", s.Number, event))
}

// triggers returns the SQL of the existing triggers of a shape, on its table.
func (c *Capture) triggers(ctx context.Context, conn *sql.Conn, s *Shape) (there []string, err error) {
	prefix := fmt.Sprintf("%s_%d_", c.Table, s.Number)
	err = sqlsink.EachRow(ctx, conn, "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? AND "+
		"substr(name, 1, ?) = ? ORDER BY name", func(rows *sql.Rows) error {
		var text string
		err := rows.Scan(&text)
		there = append(there, text)
		return err
	}, s.Name, len(prefix), prefix)
	return there, err
}

// statements returns the statements that create the triggers of a shape, in the order of events.
func (c *Capture) statements(s *Shape) []string {
	var before, after []int
	var changed []string
	for i, col := range s.Columns {
		before, after = append(before, i), append(after, i)
		if col.Key > 0 {
			name := Quote(col.Name)
			changed = append(changed, "OLD."+name+" IS NOT NEW."+name+" COLLATE BINARY")
		}
	}
	when := strings.Join(changed, " OR ")
	all := []string{
		c.statement(s, "delete", "DELETE", "", c.note(s, Delete, before, nil)),
		c.statement(s, "insert", "INSERT", "", c.note(s, Insert, nil, after)),
	}
	if when == "" {
		return append(all, c.statement(s, "update", "UPDATE", "", c.note(s, Update, before, after)))
	}
	return append(all,
		c.statement(s, "rekey", "UPDATE", " WHEN "+when, c.note(s, Delete, before, nil)+c.note(s, Insert, nil, after)),
		c.statement(s, "update", "UPDATE", " WHEN NOT ("+when+")", c.note(s, Update, before, after)),
	)
}

func (c *Capture) statement(s *Shape, event, on, when, body string) string {
	return "CREATE TRIGGER " + c.triggerName(s, event) + " AFTER " + on + " ON " + Quote(s.Name) + when + " BEGIN " +
		body + "END"
}

// note returns the statement that records a change, with the values of columns before and after it. Above the limit, it
// only counts the change as missed.
func (c *Capture) note(s *Shape, op int, before, after []int) string {
	names := []string{"shape", "op", "at"}
	values := []string{fmt.Sprint(s.Number), fmt.Sprint(op),
		"CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"}
	for _, i := range before {
		names, values = append(names, fmt.Sprintf("b%d", i+1)), append(values, "OLD."+Quote(s.Columns[i].Name))
	}
	for _, i := range after {
		names, values = append(names, fmt.Sprintf("a%d", i+1)), append(values, "NEW."+Quote(s.Columns[i].Name))
	}
	insert := "INSERT INTO " + c.name("") + " (" + strings.Join(names, ", ") + ") SELECT " + strings.Join(values, ", ")
	if c.Max == 0 {
		return insert + "; "
	}
	kept := fmt.Sprintf("coalesce((SELECT max(id) FROM %s) - (SELECT min(id) FROM %s) + 1, 0)", c.name(""), c.name(""))
	return fmt.Sprintf("UPDATE %s SET missed = missed + 1 WHERE shape = %d AND %s >= %d; ", c.name("_tables"), s.Number,
		kept, c.Max) +
		fmt.Sprintf("%s WHERE %s < %d; ", insert, kept, c.Max)
}

// Settle removes the changes up to id, some at a time, and the runs up to run. The caller guarantees that all
// destinations have them. It reports whether nothing is left to remove.
func (c *Capture) Settle(ctx context.Context, conn *sql.Conn, id, run int64) (done bool, err error) {
	err = Transaction(ctx, conn, func() error {
		const most = 5000 // so that other writers wait only briefly
		result, err := conn.ExecContext(ctx, "DELETE FROM "+c.name("")+" WHERE id <= min(?, (SELECT min(id) FROM "+
			c.name("")+") + ?)", id, most)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		done = n < most
		if err == nil {
			_, err = conn.ExecContext(ctx, "UPDATE "+c.name("_source")+" SET removed = max(removed, ?)", id)
		}
		if err == nil {
			_, err = conn.ExecContext(ctx, "DELETE FROM "+c.name("_runs")+" WHERE run <= ?", run)
		}
		return err
	})
	if err == nil {
		c.Runs = slices.DeleteFunc(c.Runs, func(r captureRun) bool { return r.Number <= run })
	}
	return done, err
}

// Bounds returns the numbers of the last change, and of the last removed change.
func (c *Capture) Bounds(ctx context.Context, conn *sql.Conn) (last, removed int64, err error) {
	err = conn.QueryRowContext(ctx, "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0), "+
		"removed FROM "+c.name("_source"), c.Table).Scan(&last, &removed)
	return last, removed, err
}
