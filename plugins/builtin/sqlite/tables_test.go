package sqlite_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlite"
	"github.com/conduit-agent/conduit/plugins/plugintest"
)

// kinds are all kinds of tables, with statements that a program still executes after a source is set up.
var kinds = map[string]struct{ schema, program, captured string }{
	"ordinary": {"CREATE TABLE t (id INTEGER PRIMARY KEY, x)",
		"INSERT INTO t VALUES (1, 'a'); UPDATE t SET x = 'b'; DELETE FROM t", "t"},
	"without a key": {"CREATE TABLE t (x, y)", "INSERT INTO t VALUES (1, 2); UPDATE t SET y = 3; DELETE FROM t",
		"t"},
	"WITHOUT ROWID": {"CREATE TABLE t (a, b, PRIMARY KEY (a, b)) WITHOUT ROWID",
		"INSERT INTO t VALUES (1, 2); UPDATE t SET b = 3; DELETE FROM t", "t"},
	"STRICT": {"CREATE TABLE t (id INTEGER PRIMARY KEY, x ANY) STRICT",
		"INSERT INTO t VALUES (1, x'00'); UPDATE t SET x = 1.5; DELETE FROM t", "t"},
	"generated columns": {"CREATE TABLE t (a INT, b AS (a + 1) VIRTUAL, c AS (a + 2) STORED, UNIQUE (c))",
		"INSERT INTO t VALUES (1); UPDATE t SET a = 2; DELETE FROM t", "t"},
	"ON CONFLICT": {"CREATE TABLE t (a UNIQUE ON CONFLICT REPLACE, b NOT NULL ON CONFLICT IGNORE)",
		"INSERT INTO t VALUES (1, 2), (1, 3), (2, NULL); UPDATE t SET b = 4", "t"},
	"REPLACE and UPSERT": {"CREATE TABLE t (a PRIMARY KEY, b)",
		"REPLACE INTO t VALUES (1, 2); REPLACE INTO t VALUES (1, 3); INSERT INTO t VALUES (1, 4) ON CONFLICT (a) DO " +
			"UPDATE SET b = 5; INSERT OR IGNORE INTO t VALUES (1, 6)", "t"},
	"recursive triggers": {"CREATE TABLE t (a PRIMARY KEY, b)",
		"PRAGMA recursive_triggers = ON; REPLACE INTO t VALUES (1, 2); REPLACE INTO t VALUES (1, 3)", "t"},
	"quoted names": {`CREATE TABLE "a ""b'.[c]" ("select" INTEGER PRIMARY KEY, "x y""z", "OLD" )`,
		`INSERT INTO "a ""b'.[c]" VALUES (1, 2, 3); UPDATE "a ""b'.[c]" SET "x y""z" = 4`, `a "b'.[c]`},
	"foreign keys": {"CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (id INTEGER PRIMARY KEY, p " +
		"REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE)",
		"PRAGMA foreign_keys = ON; INSERT INTO p VALUES (1); INSERT INTO c VALUES (1, 1); UPDATE p SET id = 2; " +
			"DELETE FROM p", "c,p"},
	"own triggers": {"CREATE TABLE t (a); CREATE TABLE log (a); CREATE TRIGGER tr AFTER INSERT ON t BEGIN " +
		"INSERT INTO log VALUES (NEW.a); END", "INSERT INTO t VALUES (1) RETURNING a; UPDATE log SET a = 2", "log,t"},
	"views": {"CREATE TABLE t (a); CREATE VIEW v AS SELECT a FROM t; CREATE TRIGGER tr INSTEAD OF " +
		"INSERT ON v BEGIN INSERT INTO t VALUES (NEW.a); END", "INSERT INTO v VALUES (1)", "t"},
	"FTS4": {"CREATE VIRTUAL TABLE f USING fts4(body); CREATE TABLE f_notes (a)",
		"INSERT INTO f VALUES ('some text'); UPDATE f SET body = 'more'; INSERT INTO f(f) VALUES ('optimize'); " +
			"DELETE FROM f; INSERT INTO f_notes VALUES (1)", "f_notes"},
	"R*Tree": {"CREATE VIRTUAL TABLE r USING rtree(id, a, b)",
		"INSERT INTO r VALUES (1, 2, 3); UPDATE r SET b = 4; DELETE FROM r", ""},
	"alter": {"CREATE TABLE t (a INTEGER PRIMARY KEY, b)",
		"ALTER TABLE t ADD COLUMN c; ALTER TABLE t RENAME COLUMN b TO d; INSERT INTO t VALUES (1, 2, 3); ALTER TABLE " +
			"t RENAME TO u; UPDATE u SET d = 4; CREATE INDEX i ON u (d); VACUUM; REINDEX; ANALYZE", "t"},
	"drop": {"CREATE TABLE t (a); CREATE TABLE u (a)",
		"INSERT INTO u VALUES (1); DROP TABLE t; INSERT INTO u VALUES (2)", "t,u"},
	"temporary": {"CREATE TABLE t (a)",
		"CREATE TEMP TABLE x (a); INSERT INTO x VALUES (1); ATTACH ':memory:' AS o; CREATE TABLE o.y AS SELECT 1 AS " +
			"a; INSERT INTO t SELECT a FROM o.y", "t"},
	"untrusted schema": {"CREATE TABLE t (a)",
		"PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; INSERT INTO t VALUES (1); UPDATE t SET a = 2; " +
			"DELETE FROM t", "t"},
	"autoincrement": {"CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT)",
		"INSERT INTO t VALUES (NULL); DELETE FROM t", "t"},
	"a great many columns": {"CREATE TABLE wide (c0" + columns(1, 1500) + "); CREATE TABLE t (a)",
		"INSERT INTO wide (c0) VALUES (1); INSERT INTO t VALUES (1)", "t"},
}

func columns(from, to int) (text string) {
	for i := from; i < to; i++ {
		text += ", c" + strings.Repeat("x", i%10) + strings.Repeat("y", i/10%10) + strings.Repeat("z", i/100)
	}
	return text
}

// capturedTables returns the tables that have triggers of a source.
func (w *world) capturedTables() string {
	return strings.ReplaceAll(w.query("SELECT DISTINCT tbl_name FROM sqlite_schema WHERE type = 'trigger' AND name "+
		"LIKE 'conduit_changes%' ORDER BY 1"), "\n", ",")
}

// TestProgramsGoOnWriting checks that a program can write to every kind of table as before a source was set up, and
// that only ordinary tables are captured.
func TestProgramsGoOnWriting(t *testing.T) {
	for name, c := range kinds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.schema)
			s := w.open(w.settings("*"), nil)
			if got := w.capturedTables(); got != c.captured {
				t.Errorf("captured: %s, want %s", got, c.captured)
			}
			w.exec(c.program)
			s.Close()
			w.exec("CREATE TABLE IF NOT EXISTS later (a); INSERT INTO later VALUES (1)")
			w.open(w.settings("*"), nil).Close()
			if w.exec("UPDATE later SET a = 2"); w.query("PRAGMA integrity_check") != "ok" {
				t.Error("the database is damaged")
			}
		})
	}
}

// TestTablesOfUnknownModules checks that a table that may belong to a virtual table of an unknown module is left out
// and reported.
func TestTablesOfUnknownModules(t *testing.T) {
	w := newWorld(t, `CREATE TABLE v_rows (a); CREATE TABLE other (a); PRAGMA writable_schema = ON;
		INSERT INTO sqlite_schema VALUES ('table', 'v', 'v', 0, 'CREATE VIRTUAL TABLE v USING "vec0"(x)');
		PRAGMA writable_schema = RESET`)
	s := w.open(w.settings("*"), nil)
	if got := w.capturedTables(); got != "other" {
		t.Errorf("captured: %s", got)
	}
	if skipped := s.Progress().Skipped; len(skipped) != 1 || skipped[0].Of != "v_rows" ||
		!strings.Contains(skipped[0].Error, "vec0") {
		t.Errorf("left out: %v", skipped)
	}
}

// TestTwoSourcesOfAllTables checks that two sources in a database do not capture each other's tables.
func TestTwoSourcesOfAllTables(t *testing.T) {
	w := newWorld(t, "CREATE TABLE t (a INTEGER PRIMARY KEY); INSERT INTO t VALUES (0)")
	one := w.open(w.settings("*"), nil)
	two := plugintest.NewOpened(w, sqlite.Connector(), "p:other")
	if err := two.TryOpen(w.settings("*", "changes.table", "others"), nil); err != nil {
		t.Fatal(err)
	}
	one.Want(`snapshot t {"a":0} to {"a":0}`)
	two.Want(`snapshot t {"a":0} to {"a":0}`)
	w.exec("INSERT INTO t VALUES (1); UPDATE t SET a = 2 WHERE a = 1")
	want := []string{`create t {"a":1} to {"a":1}`, `delete t {"a":1} from {"a":1}`, `create t {"a":2} to {"a":2}`}
	one.Want(want...)
	two.Want(want...)
	if got := w.query("SELECT DISTINCT tbl_name FROM sqlite_schema WHERE type = 'trigger'"); got != "t" {
		t.Errorf("captured: %s", got)
	}
}

// TestReplacedRows checks that rows that REPLACE deletes because of a unique index beside the key are captured with
// recursive triggers.
func TestReplacedRows(t *testing.T) {
	w := newWorld(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, mail TEXT UNIQUE); INSERT INTO t VALUES (0, NULL)")
	s := w.open(w.settings("*"), nil)
	s.Next(1) // all rows have been read, so that changes follow
	w.exec("PRAGMA recursive_triggers = ON; INSERT INTO t VALUES (1, 'a'); INSERT OR REPLACE INTO t VALUES (2, 'a')")
	s.Want(`create t {"id":1} to {"id":1,"mail":"a"}`, `delete t {"id":1} from {"id":1,"mail":"a"}`,
		`create t {"id":2} to {"id":2,"mail":"a"}`)
}
