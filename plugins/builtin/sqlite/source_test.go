package sqlite_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlite"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
)

func TestSnapshotAndChanges(t *testing.T) {
	w := newWorld(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT); INSERT INTO t VALUES (-1, 'a'), (0, "+
		"'tab\there'), (7, NULL)")
	s := w.open(w.settings("t"), nil)
	rows := s.Want(`snapshot t {"id":-1} to {"id":-1,"x":"a"}`, `snapshot t {"id":0} to {"id":0,"x":"tab\there"}`,
		`snapshot t {"id":7} to {"id":7,"x":null}`)
	w.exec("INSERT INTO t VALUES (8, 'b'); UPDATE t SET x = 'c' WHERE id = 8; DELETE FROM t WHERE id = 7; UPDATE t " +
		"SET id = 9 WHERE id = 8")
	changes := s.Want(`create t {"id":8} to {"id":8,"x":"b"}`,
		`update t {"id":8} from {"id":8,"x":"b"} to {"id":8,"x":"c"}`, `delete t {"id":7} from {"id":7,"x":null}`,
		`delete t {"id":8} from {"id":8,"x":"c"}`, `create t {"id":9} to {"id":9,"x":"c"}`)
	for _, r := range changes {
		if r.Metadata.Get(record.KeyCreatedAt) == "" {
			t.Errorf("metadata is %v", r.Metadata)
		}
	}
	s.Settle(append(rows, changes[:2]...)...)
	wait.For(s, "what is acknowledged is removed", func() bool {
		return w.query("SELECT count(*) FROM conduit_changes") == "3"
	})
	s.Close()
	s = w.open(w.settings("t"), changes[1].Position)
	s.Want(`delete t {"id":7} from {"id":7,"x":null}`, `delete t {"id":8} from {"id":8,"x":"c"}`)
}

// TestMissed opens a source at a position whose changes have been removed, and at a position of an older copy of the
// database.
func TestMissed(t *testing.T) {
	w := newWorld(t, "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (0)")
	s := w.open(w.settings("t"), nil)
	s.Settle(s.Next(1)...) // all rows have been read, so that changes follow
	w.exec("INSERT INTO t VALUES (1), (2), (3)")
	got := s.Next(3)
	s.Settle(got...)
	wait.For(s, "what is acknowledged is removed", func() bool {
		return w.query("SELECT count(*) FROM conduit_changes") == "0"
	})
	s.Close()
	if err := w.source().TryOpen(w.settings("t"), got[0].Position); err == nil || !strings.Contains(err.Error(),
		"changes were missed: the position is after change 1, but changes up to 3 have been removed") {
		t.Errorf("got %v", err)
	}
	w.exec("UPDATE sqlite_sequence SET seq = 2 WHERE name = 'conduit_changes'")
	if err := w.source().TryOpen(w.settings("t"), got[2].Position); err == nil ||
		!strings.Contains(err.Error(), "an older copy") {
		t.Errorf("got %v", err)
	}
}

// TestReplaced replaces the database during reading.
func TestReplaced(t *testing.T) {
	w := newWorld(t, "PRAGMA journal_mode = DELETE; CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
	s := w.open(w.settings("t"), nil)
	s.Next(1)
	other := newWorld(t, "PRAGMA journal_mode = DELETE; CREATE TABLE t (id INTEGER PRIMARY KEY)")
	if err := os.Rename(other.path, w.path); err != nil {
		t.Fatal(err)
	}
	if err := s.Fails(); !strings.Contains(err.Error(), "belongs to another database than file") {
		t.Errorf("got %v", err)
	}
}

func TestKeys(t *testing.T) {
	w := newWorld(t, `CREATE TABLE a (u TEXT PRIMARY KEY, n INT); CREATE TABLE b (x TEXT, y REAL NOT NULL, z BLOB NOT NULL,
		PRIMARY KEY (z, y)) WITHOUT ROWID;
		CREATE TABLE c (rowid TEXT, n INT); CREATE TABLE d (k TEXT NOT NULL COLLATE NOCASE PRIMARY KEY);
		INSERT INTO a VALUES ('b', 1), (NULL, 2), ('a', 3); INSERT INTO b VALUES ('q', 2.5, x'00ff'), ('r', -1, x'00ff');
		INSERT INTO c VALUES ('r', 1), ('r', 1); INSERT INTO d VALUES ('B'), ('a')`)
	lines := []string{`snapshot a {"u":"b"} to {"n":1,"u":"b"}`, `snapshot a {"u":null} to {"n":2,"u":null}`,
		`snapshot a {"u":"a"} to {"n":3,"u":"a"}`,
		`snapshot b {"y":-1,"z":"AP8="} to {"x":"r","y":-1,"z":"AP8="}`,
		`snapshot b {"y":2.5,"z":"AP8="} to {"x":"q","y":2.5,"z":"AP8="}`,
		`snapshot c null to {"n":1,"rowid":"r"}`, `snapshot c null to {"n":1,"rowid":"r"}`,
		`snapshot d {"k":"a"} to {"k":"a"}`, `snapshot d {"k":"B"} to {"k":"B"}`}
	rows := w.open(w.settings("a,b,c,d"), nil).Want(lines...)
	for i := range rows { // resumes after every row
		s := w.open(w.settings("a,b,c,d"), rows[i].Position)
		s.Want(lines[i+1:]...)
		s.Close()
	}
	s := w.open(w.settings("a,b,c,d"), rows[len(rows)-1].Position)
	w.exec("DELETE FROM b WHERE y = -1; UPDATE c SET n = 2; UPDATE d SET k = 'b' WHERE k = 'B'")
	s.Want(`delete b {"y":-1,"z":"AP8="} from {"x":"r","y":-1,"z":"AP8="}`,
		`update c null from {"n":1,"rowid":"r"} to {"n":2,"rowid":"r"}`,
		`update c null from {"n":1,"rowid":"r"} to {"n":2,"rowid":"r"}`, `delete d {"k":"B"} from {"k":"B"}`,
		`create d {"k":"b"} to {"k":"b"}`)
}

// TestTypes checks that snapshots and changes have the same values.
func TestTypes(t *testing.T) {
	w := newWorld(t, `CREATE TABLE t (id INTEGER PRIMARY KEY, b BOOLEAN, i INT, r REAL, x TEXT, bl BLOB, d DATETIME,
		n NUMERIC, big INT, odd INT, nul, g GENERATED ALWAYS AS (i * 2));
		INSERT INTO t VALUES (1, 1, -2, 1.5, 'ü"\', x'00ff', '2026-01-02 03:04:05', 12345678901234567890, 9223372036854775807,
		'text', NULL)`)
	s := w.open(w.settings("t"), nil)
	const want = `{"b":true,"big":9223372036854775807,"bl":"AP8=","d":"2026-01-02 ` +
		`03:04:05","i":-2,"id":1,"n":12345678901234567000,"nul":null,"odd":"text","r":1.5,"x":"ü\"\\"}`
	rows := s.Next(1)
	w.exec("UPDATE t SET nul = NULL")
	changes := s.Next(1)
	for _, r := range append(rows, changes...) {
		if after, _ := r.After.MarshalJSON(); string(after) != want {
			t.Errorf("%s:\n got %s\nwant %s", r.Operation, after, want)
		}
	}
	if after, _ := changes[0].After.Structured(); fmt.Sprintf("%T %T", after["i"], after["bl"]) != "int64 []uint8" {
		t.Errorf("got %T and %T", after["i"], after["bl"])
	}
}

// TestTablesCome creates and changes tables while the source runs.
func TestTablesCome(t *testing.T) {
	w := newWorld(t, "CREATE TABLE a (id INTEGER PRIMARY KEY); INSERT INTO a VALUES (1)")
	s := w.open(w.settings("*"), nil)
	s.Want(`snapshot a {"id":1} to {"id":1}`)
	w.exec("BEGIN; CREATE TABLE late (id INTEGER PRIMARY KEY); INSERT INTO late VALUES (1); COMMIT")
	s.Want(`snapshot late {"id":1} to {"id":1}`)
	w.exec("INSERT INTO late VALUES (2); INSERT INTO a VALUES (2)")
	s.Want(`create late {"id":2} to {"id":2}`, `create a {"id":2} to {"id":2}`)
	w.exec("ALTER TABLE a ADD COLUMN x DEFAULT 'y'")
	s.Want(`snapshot a {"id":1} to {"id":1,"x":"y"}`, `snapshot a {"id":2} to {"id":2,"x":"y"}`)
	w.exec("BEGIN; CREATE TABLE made (id INTEGER PRIMARY KEY, z); INSERT INTO made SELECT id, x FROM a; DROP TABLE " +
		"a; ALTER TABLE made RENAME TO a; COMMIT")
	s.Want(`snapshot a {"id":1} to {"id":1,"z":"y"}`, `snapshot a {"id":2} to {"id":2,"z":"y"}`)
	w.exec("INSERT INTO a VALUES (3, 4)")
	s.Want(`create a {"id":3} to {"id":3,"z":4}`)
	w.exec("DROP TRIGGER " + w.query("SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'late' "+
		"AND name LIKE '%insert'"))
	s.Want(`snapshot late {"id":1} to {"id":1}`, `snapshot late {"id":2} to {"id":2}`)
}

// TestReadAgain reads one table in full again, and leaves another one alone.
func TestReadAgain(t *testing.T) {
	w := newWorld(t, "CREATE TABLE a (id INTEGER PRIMARY KEY); INSERT INTO a VALUES (1); CREATE TABLE b (id INTEGER "+
		"PRIMARY KEY); INSERT INTO b VALUES (1)")
	before := w.settings("a,b")
	s := w.open(before, nil)
	first := s.Next(2)
	w.exec("INSERT INTO a VALUES (2)")
	last := s.Next(1)
	s.Settle(last...)
	s.Close()
	w.exec("INSERT INTO a VALUES (3); INSERT INTO b VALUES (2)")
	after := w.settings("a,b", "snapshot.again", "a/1")
	s = w.source()
	if err := s.LifecycleOnUpdated(s.Ctx, before, after); err != nil {
		t.Fatal(err)
	}
	if err := s.TryOpen(after, last[0].Position); err != nil {
		t.Fatal(err)
	}
	got := s.Want(`create a {"id":3} to {"id":3}`, `create b {"id":2} to {"id":2}`, `snapshot a {"id":1} to {"id":1}`,
		`snapshot a {"id":2} to {"id":2}`, `snapshot a {"id":3} to {"id":3}`)
	seen := map[string]bool{}
	for _, r := range append(append(first, last...), got...) {
		if seen[string(r.Position)] {
			t.Errorf("two records have the position %s", r.Position)
		}
		seen[string(r.Position)] = true
	}
}

// TestSnapshotWhileWriting reads a large table while its rows change: in the end each row is as in the database.
func TestSnapshotWhileWriting(t *testing.T) {
	w := newWorld(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, x INT); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "+
		"SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO t SELECT i, 0 FROM n")
	s := w.open(w.settings("t"), nil)
	state, rows := map[int64]any{}, 0
	apply := func(records []record.Record) {
		for _, r := range records {
			key, _ := r.Key.Structured()
			id := key["id"].(int64)
			if r.Operation == record.OperationDelete {
				delete(state, id)
				continue
			}
			if r.Operation == record.OperationSnapshot {
				rows++
			}
			after, _ := r.After.Structured()
			state[id] = after["x"]
		}
	}
	var last record.Position
	for round := int64(1); rows < 2900; round++ {
		got := s.Next(100)
		apply(got)
		last = got[99].Position
		w.exec(fmt.Sprintf("UPDATE t SET x = %d WHERE id %% 500 = %d; DELETE FROM t WHERE id = %d; INSERT INTO t "+
			"VALUES (%d, %d)", round, round, 3000-round, 3000+round, round))
		if round%7 == 0 { // resumes after a restart
			s.Close()
			s = w.open(w.settings("t"), last)
		}
	}
	p := s.Progress()
	if len(p.Snapshots) == 1 && (p.Snapshots[0].Of != "t" || p.Snapshots[0].Total < 2900) {
		t.Errorf("progress is %+v", p)
	}
	w.exec("INSERT INTO t VALUES (999999, 0)")
	for state[999999] == nil {
		apply(s.Next(1))
	}
	var lines []string
	for id := range int64(1000000) {
		if x, ok := state[id]; ok {
			lines = append(lines, fmt.Sprintf("%d|%v", id, x))
		}
	}
	if got, want := strings.Join(lines, "\n"), w.query("SELECT id, x FROM t ORDER BY id"); got != want {
		t.Errorf("%d rows are read that differ from the %d of the table", len(state), strings.Count(want, "\n")+1)
	}
}

// TestMax makes more changes than the database may keep.
func TestMax(t *testing.T) {
	w := newWorld(t, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
	settings := w.settings("t", "changes.max", "3")
	s := w.open(settings, nil)
	w.exec("INSERT INTO t VALUES (1)")
	last := s.Next(1)
	s.Settle(last...)
	wait.For(s, "what is acknowledged is removed", func() bool {
		return w.query("SELECT count(*) FROM conduit_changes") == "0"
	})
	s.Close()
	w.exec("INSERT INTO t VALUES (2), (3), (4), (5), (6)")
	s = w.open(settings, last[0].Position)
	last = s.Want(`create t {"id":2} to {"id":2}`, `create t {"id":3} to {"id":3}`, `create t {"id":4} to {"id":4}`)
	if err := s.Fails(); !strings.Contains(err.Error(), "2 changes of table t were missed") ||
		!strings.Contains(err.Error(), "snapshot.again") {
		t.Errorf("got %v", err)
	}
	s.Close()
	settings["changes.max-action"] = "snapshot"
	s = w.open(settings, last[2].Position)
	for id := 1; id <= 6; id++ {
		s.Want(fmt.Sprintf(`snapshot t {"id":%d} to {"id":%d}`, id, id))
	}
}

func TestLifecycle(t *testing.T) {
	w := newWorld(t, "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
	never := w.settings("t", "snapshotMode", "never")
	s := w.source()
	if err := s.LifecycleOnCreated(s.Ctx, never); err != nil {
		t.Fatal(err)
	}
	w.exec("INSERT INTO t VALUES (2)") // before the source is opened for the first time
	if err := s.TryOpen(never, nil); err != nil {
		t.Fatal(err)
	}
	s.Want(`create t {"id":2} to {"id":2}`)
	other := plugintest.NewOpened(t, sqlite.Connector(), "other:source")
	if err := other.TryOpen(never, nil); err == nil ||
		!strings.Contains(err.Error(), "belongs to connector "+sourceID) {
		t.Errorf("a second source with the same table opens: %v", err)
	}
	other = plugintest.NewOpened(t, sqlite.Connector(), "other:source")
	if err := other.TryOpen(w.settings("t", "changes.table", "other_changes"), nil); err != nil {
		t.Fatal(err)
	}
	other.Want(`snapshot t {"id":1} to {"id":1}`, `snapshot t {"id":2} to {"id":2}`)
	w.exec("INSERT INTO t VALUES (3)")
	other.Want(`create t {"id":3} to {"id":3}`)
	other.Close()
	s.Close()
	moved := w.settings("t", "changes.table", "moved")
	for _, err := range []error{other.LifecycleOnDeleted(other.Ctx, w.settings("t")), // belongs to another: no effect
		other.LifecycleOnDeleted(other.Ctx, w.settings("t", "changes.table", "other_changes"))} {
		if err != nil {
			t.Error(err)
		}
	}
	if got := w.query("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'conduit%' AND type = 'trigger'"); got !=
		"4" {
		t.Errorf("%s triggers are there", got)
	}
	if err := s.LifecycleOnUpdated(s.Ctx, w.settings("t"), moved); err != nil {
		t.Error(err)
	}
	if err := s.LifecycleOnDeleted(s.Ctx, moved); err != nil {
		t.Error(err)
	}
	if got := w.query("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'"); got != "t" {
		t.Errorf("left is %s", got)
	}
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	if err := s.LifecycleOnDeleted(s.Ctx, moved); err != nil {
		t.Errorf("of a database that is gone: %v", err)
	}
}

// TestContract checks that the connector satisfies the contract of connectors.
func TestContract(t *testing.T) {
	plugintest.Run(t, plugintest.Target{Connector: sqlite.Connector(),
		Source: func(tb testing.TB, n int) map[string]string {
			w := newWorld(tb, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
			for i := range n {
				w.exec(fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
			}
			return w.settings("t")
		}})
}

// TestBadItems reads values that do not fit their columns, from a snapshot and from changes, and the rows after them.
func TestBadItems(t *testing.T) {
	w := newWorld(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, b BOOLEAN, i INT, r REAL, d DATETIME, x TEXT, j JSON)")
	const odd = `INSERT INTO t VALUES (%[1]d, 'no', 'text', 9e999, '0000-00-00', CAST(x'ff00e9' AS TEXT), '{'), (%[1]d+1,
		x'00', 1e300, -9e999, x'ff', 'a' || char(0) || 'b', NULL),
		(%[1]d+2, 7, 0.5, 'NaN', '99999-01-01', CAST(zeroblob(3000000) AS TEXT), zeroblob(3000000)), (%[1]d+3, 1, 1, 1, 1, 1,
		1)`
	w.exec(fmt.Sprintf(odd, 1))
	s := w.open(w.settings("t"), nil)
	all := s.Next(4)
	w.exec(fmt.Sprintf(odd, 5))
	for _, r := range append(all, s.Next(4)...) {
		if _, err := record.AppendJSON(nil, &r); err != nil {
			t.Error(err)
		}
		if _, err := record.AppendWire(nil, &r); err != nil {
			t.Error(err)
		}
	}
}
