package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
)

// Capture is the state of a source in a database.
type Capture struct {
	Table     string // table of changes; the names of the other tables, and of triggers, begin with it
	Connector string // connector id of the source
	Snapshot  bool   // read the rows of tables, not only changes
	Max       int64  // maximum number of changes kept; 0: no limit
	Reread    bool   // read a table again after missed changes
	Log       *slog.Logger

	DB      string           // identifier of the database
	Version int64            // of the schema, at the end of Prepare
	LeftOut []LeftOut        // tables with rows that * does not match
	Unique  []string         // captured tables with a further unique index: REPLACE deletes their rows unnoticed
	Tables  map[int64]*Shape // by number; includes tables that are no longer captured but have changes
	Runs    []captureRun     // tables to read in full, in order
}

// Shape describes a table at the time when its triggers were created.
type Shape struct {
	Number  int64
	Name    string
	Columns []Column
	Active  bool  // the table is captured
	Missed  int64 // changes not recorded because of the limit
	Unique  bool  // the table has a unique index beside its primary key; not set by Load
}

// Column is a column of a table.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty"` // as declared
	Key  int    `json:"key,omitempty"`  // index in the primary key, from 1; 0: not in the key
	Null bool   `json:"null,omitempty"` // nullable
}

// LeftOut is a table that cannot be captured.
type LeftOut struct {
	Table string
	Err   error
}

// captureRun is a pass over all rows of a table.
type captureRun struct {
	Number int64
	Table  string
}

// Operations of changes.
const (
	Insert = 1
	Update = 2
	Delete = 3
)

// Key returns the indexes of the primary key columns, in key order.
func (s *Shape) Key() []int {
	var key []int
	for i, c := range s.Columns {
		if c.Key > 0 {
			key = append(key, i)
		}
	}
	slices.SortFunc(key, func(a, b int) int { return s.Columns[a].Key - s.Columns[b].Key })
	return key
}

// Shape returns the shape of a captured table, or nil if the table is not captured.
func (c *Capture) Shape(table string) *Shape {
	for _, s := range c.Tables {
		if s.Active && s.Name == table {
			return s
		}
	}
	return nil
}

// Transaction runs do in a transaction that takes the write lock at its beginning.
func Transaction(ctx context.Context, conn *sql.Conn, do func() error) error {
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := do()
	if err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // the error above is more important
	}
	return err
}

// Prepare creates or changes tables and triggers to match the tables of the settings, and fills c. The tables in again
// are read in full once more. If over is set, the source starts over and all tables are.
func (c *Capture) Prepare(ctx context.Context, conn *sql.Conn, tables, again []string, over bool) error {
	err := Transaction(ctx, conn, func() error { return c.prepare(ctx, conn, tables, again, over) })
	if err != nil {
		return fmt.Errorf("cannot set up change capture: %w", err)
	}
	return nil
}

func (c *Capture) prepare(ctx context.Context, conn *sql.Conn, tables, again []string, over bool) error {
	if err := c.own(ctx, conn); err != nil {
		return err
	}
	wanted, err := c.resolve(ctx, conn, tables)
	if err != nil {
		return err
	}
	c.Unique = nil
	for _, w := range wanted {
		if w.Unique {
			c.Unique = append(c.Unique, w.Name)
		}
	}
	if err := c.Load(ctx, conn); err != nil {
		return err
	}
	for _, s := range c.Tables {
		if s.Active && !slices.ContainsFunc(wanted, func(w *Shape) bool { return w.Name == s.Name }) {
			if err := c.warnIfGone(ctx, conn, s.Name); err != nil {
				return err
			}
			if err := c.drop(ctx, conn, s); err != nil {
				return err
			}
		}
	}
	for _, w := range wanted {
		// A pending run already has its positions, and no position was saved.
		first := over && c.Snapshot && !slices.ContainsFunc(c.Runs, func(r captureRun) bool {
			return r.Table == w.Name
		})
		if err := c.capture(ctx, conn, w, first || slices.Contains(again, w.Name)); err != nil {
			return fmt.Errorf("table %s: %w", w.Name, err)
		}
	}
	if err := c.Load(ctx, conn); err != nil {
		return err
	}
	return conn.QueryRowContext(ctx, "PRAGMA schema_version").Scan(&c.Version)
}

// warnIfGone warns of a captured table that no longer exists: SQLite runs no triggers for rows that disappear with
// their table.
func (c *Capture) warnIfGone(ctx context.Context, conn *sql.Conn, table string) error {
	var exists bool
	err := conn.QueryRowContext(ctx, "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = "+
		"?", table).Scan(&exists)
	if err == nil && !exists {
		c.Log.Warn("a table was dropped or renamed; if its rows are gone, there are no delete records for them",
			"table", table)
	}
	return err
}

// capture creates the triggers of a table unless they exist and are up to date. If read is set, it schedules a run of
// the table.
func (c *Capture) capture(ctx context.Context, conn *sql.Conn, w *Shape, read bool) error {
	old := c.Shape(w.Name)
	if old == nil || !slices.Equal(old.Columns, w.Columns) {
		if old != nil {
			there, err := c.triggers(ctx, conn, old)
			if err != nil {
				return err
			}
			if len(there) < len(c.statements(old)) {
				c.Log.Warn(recreated, "table", w.Name)
			} else {
				c.Log.Info("the columns of a table changed: reading its rows again", "table", w.Name)
			}
			if err := c.drop(ctx, conn, old); err != nil {
				return err
			}
		}
		if err := c.add(ctx, conn, w); err != nil || !c.Snapshot && !read {
			return err
		}
		return c.run(ctx, conn, w.Name)
	}
	there, err := c.triggers(ctx, conn, old)
	if err != nil {
		return err
	}
	if !slices.Equal(there, c.statements(old)) {
		if len(there) < len(c.statements(old)) {
			c.Log.Warn(recreated, "table", w.Name)
			read = read || c.Snapshot
		}
		if err := c.trigger(ctx, conn, old); err != nil {
			return err
		}
	}
	if old.Missed > 0 && (c.Reread || read) {
		c.Log.Warn("changes of a table were missed, because changes.max was reached: reading its rows again, without "+
			"records of rows deleted in the meantime", "table", w.Name, "missed", old.Missed)
		if _, err := conn.ExecContext(ctx, "UPDATE "+c.name("_tables")+" SET missed = 0 WHERE shape = ?",
			old.Number); err != nil {
			return err
		}
		read = true
	}
	if read {
		return c.run(ctx, conn, w.Name)
	}
	return nil
}

const recreated = "the triggers of a table were removed, for example because it was recreated, and its changes were " +
	"missed: reading its rows again, without records of rows deleted in the meantime"

// run schedules a run of a table.
func (c *Capture) run(ctx context.Context, conn *sql.Conn, table string) error {
	_, err := conn.ExecContext(ctx, "DELETE FROM "+c.name("_runs")+" WHERE name = ?", table)
	if err == nil {
		_, err = conn.ExecContext(ctx, "INSERT INTO "+c.name("_runs")+" (name) VALUES (?)", table)
	}
	return err
}

// name returns the quoted name of a table of c.
func (c *Capture) name(suffix string) string { return Quote(c.Table + suffix) }

// own creates the tables of c if they do not exist, and checks that they belong to this source.
func (c *Capture) own(ctx context.Context, conn *sql.Conn) error {
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS " + c.name("") +
			" (id INTEGER PRIMARY KEY AUTOINCREMENT, shape INTEGER NOT NULL, op INTEGER NOT NULL, at INTEGER NOT NULL)",
		"CREATE TABLE IF NOT EXISTS " + c.name("_tables") + " (shape INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT " +
			"NOT NULL, columns TEXT NOT NULL, active INTEGER NOT NULL, missed INTEGER NOT NULL DEFAULT 0)",
		"CREATE TABLE IF NOT EXISTS " + c.name("_runs") +
			" (run INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL)",
		"CREATE TABLE IF NOT EXISTS " + c.name("_source") +
			" (connector TEXT NOT NULL, db TEXT NOT NULL, removed INTEGER NOT NULL)",
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	var owner string
	err := conn.QueryRowContext(ctx, "SELECT connector, db FROM "+c.name("_source")).Scan(&owner, &c.DB)
	if errors.Is(err, sql.ErrNoRows) {
		id := make([]byte, 8)
		_, _ = rand.Read(id) // never fails
		c.DB = hex.EncodeToString(id)
		_, err = conn.ExecContext(ctx, "INSERT INTO "+c.name("_source")+" VALUES (?, ?, 0)", c.Connector, c.DB)
		return err
	}
	if err == nil && owner != c.Connector {
		return fmt.Errorf("table %s belongs to connector %s: set changes.table of each source to a different name",
			c.Table,
			owner)
	}
	return err
}

// Load reads the captured tables and the pending runs.
func (c *Capture) Load(ctx context.Context, conn *sql.Conn) error {
	c.Tables, c.Runs = map[int64]*Shape{}, nil
	err := sqlsink.EachRow(ctx, conn, "SELECT shape, name, columns, active, missed FROM "+c.name("_tables"),
		func(rows *sql.Rows) error {
			s := &Shape{}
			var columns string
			if err := rows.Scan(&s.Number, &s.Name, &columns, &s.Active, &s.Missed); err != nil {
				return err
			}
			c.Tables[s.Number] = s
			return json.Unmarshal([]byte(columns), &s.Columns)
		})
	if err != nil {
		return err
	}
	return sqlsink.EachRow(ctx, conn, "SELECT run, name FROM "+c.name("_runs")+" ORDER BY run",
		func(rows *sql.Rows) error {
			var r captureRun
			err := rows.Scan(&r.Number, &r.Table)
			if c.Shape(r.Table) != nil {
				c.Runs = append(c.Runs, r)
			}
			return err
		})
}

// resolve returns the tables that match the items of the setting tables.
func (c *Capture) resolve(ctx context.Context, conn *sql.Conn, items []string) ([]*Shape, error) {
	list, err := c.list(ctx, conn)
	if err != nil {
		return nil, err
	}
	names, err := list.choose(items)
	if err != nil {
		return nil, err
	}
	every := slices.Contains(items, "*")
	var all []*Shape
	c.LeftOut = nil
	for _, name := range list.unclear {
		c.LeftOut = append(c.LeftOut, LeftOut{name, errors.New(list.refused[name])})
	}
	for _, name := range names {
		s := &Shape{Name: name}
		err := sqlsink.EachRow(ctx, conn,
			`SELECT name, type, pk, "notnull" FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid`,
			func(rows *sql.Rows) error {
				var col Column
				var strict bool
				err := rows.Scan(&col.Name, &col.Type, &col.Key, &strict)
				col.Null = !strict
				s.Columns = append(s.Columns, col)
				return err
			}, name)
		if err != nil {
			return nil, err
		}
		if err := conn.QueryRowContext(ctx,
			`SELECT count(*) > 0 FROM pragma_index_list(?) WHERE "unique" AND origin <> 'pk'`,
			name).Scan(&s.Unique); err != nil {
			return nil, err
		}
		if len(s.Columns) > maxColumns {
			why := fmt.Errorf("it has %d columns, more than the maximum of %d for change capture", len(s.Columns),
				maxColumns)
			if !every {
				return nil, fmt.Errorf("cannot capture table %s: %w; remove it from tables", name, why)
			}
			c.LeftOut = append(c.LeftOut, LeftOut{name, why})
			continue
		}
		all = append(all, s)
	}
	return all, nil
}

// Drop removes all tables and triggers of c, if they belong to this source.
func (c *Capture) Drop(ctx context.Context, conn *sql.Conn) error {
	return Transaction(ctx, conn, func() error {
		var owner string
		err := conn.QueryRowContext(ctx, "SELECT connector FROM "+c.name("_source")).Scan(&owner)
		if err != nil && Refused(err) || errors.Is(err, sql.ErrNoRows) || err == nil && owner != c.Connector {
			return nil // there is nothing, or it belongs to another source
		}
		if err == nil {
			err = c.Load(ctx, conn)
		}
		if err != nil {
			return err
		}
		for _, s := range c.Tables {
			if err := c.drop(ctx, conn, s); err != nil {
				return err
			}
		}
		for _, suffix := range noteTables {
			if _, err := conn.ExecContext(ctx, "DROP TABLE IF EXISTS "+c.name(suffix)); err != nil {
				return err
			}
		}
		return nil
	})
}
