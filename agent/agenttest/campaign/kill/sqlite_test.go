package kill_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
)

// sqliteFile is a database that this process and the agent use at the same time.
type sqliteFile struct {
	path string
	db   *sql.DB
}

func newSQLite(t *testing.T, dir, setup string) *sqliteFile {
	t.Helper()
	f := &sqliteFile{path: filepath.Join(dir, "ledger.db")}
	var err error
	if f.db, err = sql.Open("sqlite3", "file:"+f.path+"?_busy_timeout=10000&_journal_mode=WAL"); err == nil {
		_, err = f.db.ExecContext(t.Context(), setup)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.db.Close() })
	return f
}

// produce commits the numbers, some one by one and some together.
func (f *sqliteFile) produce(ctx context.Context, first, n int) error {
	text := "BEGIN IMMEDIATE;"
	for i := first; i < first+n; i++ {
		text += fmt.Sprintf("INSERT OR IGNORE INTO ledger VALUES (%d, 'record %d');", i, i)
		if i%3 == 0 {
			text += "COMMIT; BEGIN IMMEDIATE;"
		}
	}
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err = conn.ExecContext(ctx, text+"COMMIT"); err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	}
	return err
}

// stored returns the numbers in the order of writing.
func (f *sqliteFile) stored(ctx context.Context) ([]int, error) {
	return numbersOf(ctx, f.db, "SELECT n FROM ledger ORDER BY rowid")
}

// numbersOf returns the numbers in the result of a query.
func numbersOf(ctx context.Context, db *sql.DB, query string) (all []int, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, rows.Err()
}

// TestSQLiteSource loses nothing, keeps the order of commits and, unless the agent is killed, repeats nothing.
func TestSQLiteSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:sqlite", Snapshot: true,
		System: func(t *testing.T, dir string) *kill.System {
			f := newSQLite(t, dir, "CREATE TABLE ledger (n INTEGER PRIMARY KEY, text TEXT)")
			return &kill.System{Produce: f.produce, Settings: func(string) map[string]string {
				return map[string]string{"path": f.path, "tables": "ledger", "poll": "20ms", "timeout": "30s"}
			}}
		},
	})
}

// TestSQLiteDestination writes each record exactly once, without a key.
func TestSQLiteDestination(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:sqlite", Once: true,
		System: func(t *testing.T, dir string) *kill.System {
			f := newSQLite(t, dir, "CREATE TABLE ledger (n INTEGER, text TEXT)")
			return &kill.System{Stored: f.stored, Settings: func(string) map[string]string {
				return map[string]string{"path": f.path, "table": "ledger", "positionTable": "conduit_positions",
					"timeout": "30s"}
			}}
		},
	})
}

// created returns the settings of a destination that creates its table and maps the fields to columns, together with
// the others.
func created(others map[string]string) map[string]string {
	for name, value := range map[string]string{"table": "created", "schema.evolution": "create", "mode": "append",
		"positionTable": "conduit_positions", "columns.rename.n": "number", "columns.omit": "text",
		"columns.constant.origin": "kill", "columns.expression.label": `after.text + "!"`} {
		others[name] = value
	}
	return others
}

// storedCreated returns the numbers of the rows that the settings of created lead to.
func storedCreated(ctx context.Context, db *sql.DB, query string) ([]int, error) {
	all, err := numbersOf(ctx, db, query)
	if err != nil && (strings.Contains(err.Error(), "no such table") || strings.Contains(err.Error(), "doesn't exist")) {
		return nil, nil
	}
	return all, err
}

// TestSQLiteCreatedDestination writes each record exactly once to a table that it creates, with mapped columns.
func TestSQLiteCreatedDestination(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:sqlite", Once: true,
		System: func(t *testing.T, dir string) *kill.System {
			f := newSQLite(t, dir, "SELECT 1")
			stored := func(ctx context.Context) ([]int, error) {
				return storedCreated(ctx, f.db, "SELECT CAST(number AS INTEGER) FROM created WHERE origin = 'kill' AND "+
					"label = 'record ' || CAST(number AS INTEGER) || '!' ORDER BY rowid")
			}
			return &kill.System{Stored: stored, Settings: func(string) map[string]string {
				return created(map[string]string{"path": f.path, "timeout": "30s"})
			}}
		},
	})
}
