// Package sqlite_test tests the connector sqlite on databases that it shares with other programs.
package sqlite_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/sqlite"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestProgramsWithOtherModules checks that setting up a source does not restrict the SQLite command line, which has
// modules that the agent lacks: it can still use every table.
func TestProgramsWithOtherModules(t *testing.T) {
	cli := server.Need(t, "sqlite3", "sqlite3")
	path := filepath.Join(t.TempDir(), "programs.db")
	run := func(sql string) string {
		t.Helper()
		out, err := exec.Command(cli, "-bail", "-cmd", ".timeout 10000", path, sql).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", sql, err, out)
		}
		return string(out)
	}
	source := func() *plugintest.Opened { return plugintest.NewOpened(t, sqlite.Connector(), "p:source") }
	settings := func(tables string) map[string]string {
		return map[string]string{"path": path, "tables": tables, "poll": "5ms"}
	}
	open := func() *plugintest.Opened {
		t.Helper()
		s := source()
		if err := s.TryOpen(settings("*"), nil); err != nil {
			t.Fatal(err)
		}
		return s
	}
	run(`PRAGMA journal_mode = WAL; CREATE TABLE docs (id INTEGER PRIMARY KEY, body);
		CREATE VIRTUAL TABLE docs_fts USING fts5(body, content='docs', content_rowid='id');
		CREATE VIRTUAL TABLE own USING fts5(body); CREATE TABLE own_notes (a);
		CREATE TRIGGER ai AFTER INSERT ON docs BEGIN INSERT INTO docs_fts(rowid, body) VALUES (NEW.id, NEW.body); END;
		INSERT INTO docs VALUES (1, 'before')`)
	// An earlier version of the source created this table, with a trigger.
	run(`CREATE TABLE conduit_changes (id INTEGER PRIMARY KEY AUTOINCREMENT, shape INTEGER NOT NULL, op INTEGER NOT NULL,
		at INTEGER NOT NULL, b1, a1, b2, a2)`)
	s := open()
	run(`INSERT INTO conduit_changes_tables VALUES (77, 'docs_fts_data', '[{"name":"id","key":1},{"name":"block"}]', 1, 0);
		CREATE TRIGGER conduit_changes_77_insert AFTER INSERT ON docs_fts_data
		BEGIN INSERT INTO conduit_changes (shape, op, at, a1) SELECT 77, 1, 0, NEW.id; END`)
	s.Close()
	s = open()
	const captured = "SELECT group_concat(DISTINCT tbl_name) FROM sqlite_schema " +
		"WHERE type = 'trigger' AND name LIKE 'conduit_changes%'"
	if got := run(captured); got != "docs,own_notes\n" {
		t.Errorf("captured: %s", got)
	}
	s.Want(`snapshot docs {"id":1} to {"body":"before","id":1}`) // in a transaction that has read all rows
	run(`INSERT INTO docs VALUES (2, 'after'); INSERT INTO own VALUES ('text'); UPDATE own SET body = 'more';
		INSERT INTO own(own) VALUES ('optimize'); DELETE FROM own;
		PRAGMA trusted_schema = OFF; INSERT INTO own_notes VALUES (3)`)
	s.Want(`create docs {"id":2} to {"body":"after","id":2}`, `create own_notes null to {"a":3}`)
	for table, why := range map[string]string{"docs_fts_data": "it stores the content of a virtual table",
		"docs_fts": "virtual table", "none": "does not exist"} {
		if err := source().TryOpen(settings(table), nil); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v, want %s", table, err, why)
		}
	}
	// The agent cannot write to a table whose trigger needs such a module. No record is to blame for that.
	d, ctx := plugintest.OpenDestination(t, sqlite.Connector(), "p:destination",
		map[string]string{"path": path, "table": `{{ index .Metadata "opencdc.collection" }}`})
	r := plugintest.Row(1, record.OperationCreate, nil, map[string]any{"id": 9, "body": "x"})
	r.Metadata.Set(record.KeyCollection, "docs")
	if n, err := d.Write(ctx, []record.Record{r}); n != 0 || !errors.As(err, new(interface{ Lost() bool })) ||
		!strings.Contains(err.Error(), "sqlite_fts5") {
		t.Errorf("wrote %d, %v", n, err)
	}
	named := sdk.Standard(sqlite.Connector()).NewDestination()
	defer func() { _ = named.Teardown(ctx) }()
	if err := named.Configure(ctx, map[string]string{"path": path, "table": "docs"}); err != nil {
		t.Fatal(err)
	}
	if err := named.Open(ctx); err == nil || !strings.Contains(err.Error(), "docs_fts, whose module fts5") {
		t.Errorf("got %v", err)
	}
}
