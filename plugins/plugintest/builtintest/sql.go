// Package builtintest has checks for built-in connectors and processors: for destinations of SQL databases, and that no
// setting leads to a file, socket or program outside the allowed paths.
package builtintest

import (
	"bytes"
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// ExecSQL runs statements.
func ExecSQL(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// QuerySQL returns the rows of a query, columns joined by |. NULL is nothing.
func QuerySQL(t testing.TB, db *sql.DB, text string) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for rows.Next() {
		values, pointers := make([][]byte, len(columns)), make([]any, len(columns))
		for i := range values {
			pointers[i] = &values[i]
		}
		if err := rows.Scan(pointers...); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(bytes.Join(values, []byte("|"))))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// SQLDestination is a destination that writes to the table t of a database.
type SQLDestination struct {
	DB   *sql.DB
	Open func(settings ...string) (sdk.Destination, context.Context)
}

// Write writes all records with a new destination.
func (d *SQLDestination) Write(t testing.TB, records []record.Record, settings ...string) {
	t.Helper()
	open, ctx := d.Open(settings...)
	if n, err := open.Write(ctx, records); n != len(records) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(records), err)
	}
}

// Refused is a record that is refused, with a text in the error.
type Refused struct {
	Record record.Record
	Want   string
}

// CheckRefused writes each of the records as one of many: the records before it are written to the table, which has the
// columns id, x and n, and the error contains the text.
func (d *SQLDestination) CheckRefused(t testing.TB, all map[string]Refused) {
	t.Helper()
	for name, c := range all {
		ExecSQL(t, d.DB, "DELETE FROM t")
		var records []record.Record
		for i := range 40 {
			records = append(records, plugintest.Row(i, record.OperationCreate, map[string]any{"id": i},
				map[string]any{"id": i, "x": "ok", "n": i}))
		}
		records[23] = c.Record
		open, ctx := d.Open()
		if n, err := open.Write(ctx, records); n != 23 || err == nil || !strings.Contains(err.Error(), c.Want) ||
			Lost(err) {
			t.Errorf("%s: wrote %d: %v", name, n, err)
		}
		if got := QuerySQL(t, d.DB, "SELECT count(*) FROM t"); got != "23" {
			t.Errorf("%s: %s rows are written", name, got)
		}
	}
}

// CheckOnce writes records to the table, which has the column n, again after a restart, as an agent does after a kill,
// and then deletes the connector.
func (d *SQLDestination) CheckOnce(t testing.TB) {
	t.Helper()
	var all []record.Record
	for i := range 100 {
		all = append(all, plugintest.Row(i, record.OperationCreate, nil, map[string]any{"n": i}))
	}
	for _, part := range [][]record.Record{all[:60], all[30:80], all[80:]} {
		d.Write(t, part, "positionTable", "conduit_positions")
	}
	// Processors split one record into several, and some of these were written.
	var pieces []record.Record
	for n := 100; n < 105; n++ {
		pieces = append(pieces, plugintest.Row(100, record.OperationCreate, nil, map[string]any{"n": n}))
	}
	d.Write(t, pieces[:2], "positionTable", "conduit_positions")
	d.Write(t, pieces, "positionTable", "conduit_positions")
	if got := QuerySQL(t, d.DB, "SELECT count(*), count(DISTINCT n) FROM t"); got != "105|105" {
		t.Errorf("got %s", got)
	}
}

// CheckBeside writes to the table, which has the column n, with two instances of a destination, as a pipeline and a
// replay of its dead letters do. They do not disturb each other, and no record is written twice.
func (d *SQLDestination) CheckBeside(t testing.TB) {
	t.Helper()
	var all []record.Record
	for i := range 100 {
		all = append(all, plugintest.Row(i, record.OperationCreate, nil, map[string]any{"n": i}))
	}
	pipeline, ctx := d.Open("positionTable", "conduit_positions")
	replay, other := d.Open("positionTable", "conduit_positions")
	for i, part := range [][]record.Record{all[:20], all[20:40], all[40:60], all[50:80], all[80:90], all[90:]} {
		to, ctx := pipeline, ctx
		if i%2 == 1 {
			to, ctx = replay, other
		}
		if n, err := to.Write(ctx, part); n != len(part) || err != nil {
			t.Errorf("write %d: wrote %d of %d: %v", i, n, len(part), err)
		}
	}
	if got := QuerySQL(t, d.DB, "SELECT count(*), count(DISTINCT n) FROM t"); got != "100|100" {
		t.Errorf("got %s", got)
	}
}

// CheckForgets deletes the connector: no positions are left.
func (d *SQLDestination) CheckForgets(t testing.TB, settings map[string]string) {
	t.Helper()
	open, ctx := d.Open()
	settings["positionTable"] = "conduit_positions"
	if err := open.LifecycleOnDeleted(ctx, settings); err != nil {
		t.Fatal(err)
	}
	if got := QuerySQL(t, d.DB, "SELECT count(*) FROM conduit_positions"); got != "0" {
		t.Errorf("%s rows of positions are left", got)
	}
}
