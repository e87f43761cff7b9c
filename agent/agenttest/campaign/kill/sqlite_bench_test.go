package kill_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
)

const sqliteRecords = 200_000

// BenchmarkSQLite moves rows with an agent, and with bare loops of the same driver: transactions with as many inserts
// as the agent writes at once, and one query.
func BenchmarkSQLite(b *testing.B) {
	runBenchmarks(b, sqliteRecords, []benchmark{{"inserts", benchInsertLoop}, {"file-to-sqlite", benchToSQLite},
		{"select", benchSelect}, {"sqlite-to-file", benchFromSQLite}})
}

// benchDB makes a database with the table bench.
func benchDB(b *testing.B, dir, more string) *sql.DB {
	b.Helper()
	db, err := sql.Open("sqlite3", "file:"+dir+"/bench.db?_busy_timeout=10000&_journal_mode=WAL&_synchronous=FULL")
	if err == nil {
		_, err = db.ExecContext(b.Context(), "CREATE TABLE bench (id INTEGER, text TEXT);"+more)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	return db
}

func benchInsertLoop(b *testing.B) {
	b.StopTimer()
	db, text := benchDB(b, agenttest.NewDir(b), ""), strings.Repeat("x", 100)
	b.StartTimer()
	const batch = 512
	for n := 0; n < sqliteRecords; n += batch {
		if err := insertRows(b.Context(), db, n, min(batch, sqliteRecords-n), text); err != nil {
			b.Fatal(err)
		}
	}
}

func insertRows(ctx context.Context, db *sql.DB, first, n int, text string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	insert, err := tx.PrepareContext(ctx, "INSERT INTO bench (id, text) VALUES (?, ?)")
	if err != nil {
		return err
	}
	defer func() { _ = insert.Close() }()
	for i := range n {
		if _, err := insert.ExecContext(ctx, first+i, text); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func benchToSQLite(b *testing.B) {
	b.StopTimer()
	dir := agenttest.NewDir(b)
	db := benchDB(b, dir, "")
	writeLines(b, dir, sqliteRecords)
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: %s/in}}
      - {id: out, type: destination, plugin: builtin:sqlite, settings: {path: %s/bench.db, table: bench}}
`, dir, dir), sometimes(func() bool {
		var n int
		_ = db.QueryRowContext(b.Context(), "SELECT max(rowid) FROM bench").Scan(&n)
		return n >= sqliteRecords
	}))
}

// fill is SQL that fills the table.
var fill = fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO "+
	"bench SELECT i, '%s' FROM n", sqliteRecords, strings.Repeat("x", 100))

func benchSelect(b *testing.B) {
	b.StopTimer()
	db := benchDB(b, agenttest.NewDir(b), fill)
	b.StartTimer()
	rows, err := db.QueryContext(b.Context(), "SELECT id, text FROM bench")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id int
		var text string
		if err := rows.Scan(&id, &text); err != nil {
			b.Fatal(err)
		}
	}
	if rows.Err() != nil {
		b.Fatal(rows.Err())
	}
}

func benchFromSQLite(b *testing.B) {
	b.StopTimer()
	dir := agenttest.NewDir(b)
	benchDB(b, dir, fill)
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:sqlite, settings: {path: %s/bench.db, tables: bench}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %s/out}}
`, dir, dir), lines(dir+"/out", sqliteRecords))
}
