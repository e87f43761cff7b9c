package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlite"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type m = map[string]any

// destination opens a destination for the file of the world.
func (w *world) destination(more ...string) (sdk.Destination, context.Context) {
	w.Helper()
	settings := w.settings("t", more...)
	delete(settings, "tables")
	delete(settings, "poll")
	return plugintest.OpenDestination(w, sqlite.Connector(), "p:destination", settings)
}

func (w *world) sink() *builtintest.SQLDestination {
	return &builtintest.SQLDestination{DB: w.db, Open: func(more ...string) (sdk.Destination, context.Context) {
		return w.destination(more...)
	}}
}

func (w *world) write(records []record.Record, more ...string) {
	w.Helper()
	w.sink().Write(w, records, more...)
}

func TestOperations(t *testing.T) {
	w := newWorld(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT, y DEFAULT 'kept'); CREATE TABLE only (a, b, "+
		"PRIMARY KEY (a, b))")
	raw := plugintest.Row(9, record.OperationCreate, nil, nil)
	raw.Key, raw.After = record.Raw([]byte("9")), record.Raw([]byte(`{"id": 9, "x": 12345678901234567890}`))
	only := plugintest.Row(11, record.OperationCreate, m{"a": 1, "b": "z"}, nil)
	only.Metadata.Set(record.KeyCollection, "only")
	w.write([]record.Record{
		plugintest.Row(1, record.OperationSnapshot, m{"id": 1}, m{"id": 1, "x": "a"}),
		plugintest.Row(2, record.OperationCreate, m{"id": 2}, m{"id": 2, "x": "b\t\\\n\"'"}),
		plugintest.Row(3, record.OperationUpdate, m{"id": 1}, m{"id": 1, "x": "c"}),
		plugintest.Row(4, record.OperationUpdate, m{"id": 1}, m{"id": 1, "x": "d", "y": "e"}),
		plugintest.Row(5, record.OperationDelete, m{"id": 2}, nil),
		plugintest.Row(6, record.OperationCreate, m{"id": 3}, nil), // only the key
		plugintest.Row(7, record.OperationCreate, nil, m{"id": 4, "x": nil}),
		plugintest.Row(8, record.OperationUpdate, m{"id": 5}, m{"id": 5, "x": "not there"}),
		raw, only, only,
	})
	if got, want := w.query("SELECT * FROM t ORDER BY id"), "1|d|e\n3||kept\n4||kept\n5|not "+
		"there|kept\n9|12345678901234567890|kept"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := w.query("SELECT * FROM only"); got != "1|z" {
		t.Errorf("got %s", got)
	}
}

// TestRefused checks that the records before a refused one are written, and that the error gives the reason.
func TestRefused(t *testing.T) {
	w := newWorld(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT CHECK (x <> 'bad'), n INT UNIQUE)")
	w.sink().CheckRefused(t, map[string]builtintest.Refused{
		"check": {Record: plugintest.Row(0, record.OperationCreate, m{"id": 50}, m{"id": 50, "x": "bad"}),
			Want: "CHECK constraint failed"},
		"no number": {Record: plugintest.Row(0, record.OperationCreate, m{"id": "x"}, m{"id": "x"}),
			Want: "datatype mismatch"},
		"column": {Record: plugintest.Row(0, record.OperationCreate, m{"id": 50}, m{"id": 50, "y": 1}),
			Want: `it has no column "y"`},
		"no key": {Record: plugintest.Row(0, record.OperationDelete, nil, nil), Want: "the record has no key"},
		"constraint": {Record: plugintest.Row(0, record.OperationCreate, m{"x": "k"}, m{"id": 50, "x": "k"}),
			Want: "add a primary key or a unique index"},
		"not without": {Record: plugintest.Row(0, record.OperationCreate, nil, m{"id": 1}),
			Want: "UNIQUE constraint failed"},
		"other index": {Record: plugintest.Row(0, record.OperationCreate, m{"id": 50}, m{"id": 50, "n": 1}),
			Want: "UNIQUE constraint failed"},
	})
}

func TestWrittenValues(t *testing.T) {
	w := newWorld(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, b, f, n, ba, j, ts, u, f4)")
	at := time.Date(2026, 1, 2, 3, 4, 5, 678000000, time.FixedZone("", 7200))
	w.write([]record.Record{plugintest.Row(1, record.OperationCreate, m{"id": 1}, m{"id": int64(1), "b": true, "f": 1.5,
		"n": uint64(1 << 63), "ba": []byte{0, 255}, "j": m{"a": []any{1, "x"}}, "ts": at, "u": uint16(7),
		"f4": float32(0.1)})})
	const want = `1|1|1.5|9223372036854775808|00FF|{"a":[1,"x"]}|2026-01-02 01:04:05|7|0.1`
	if got := w.query("SELECT id, b, f, n, hex(ba), j, datetime(ts), u, f4 FROM t"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestOnce writes records again after a restart, as an agent does after a crash.
func TestOnce(t *testing.T) {
	w := newWorld(t, "CREATE TABLE t (n INT)")
	w.sink().CheckOnce(t)
	w.sink().CheckForgets(t, map[string]string{"path": w.path})
}

// TestBeside writes with two instances of a destination.
func TestBeside(t *testing.T) {
	w := newWorld(t, "CREATE TABLE t (n INT)")
	w.sink().CheckBeside(t)
}

// TestSetup creates the database and its table, and can access no other file.
func TestSetup(t *testing.T) {
	dir := t.TempDir()
	w := &world{TB: t, path: filepath.Join(dir, "new.db")}
	w.write([]record.Record{plugintest.Row(1, record.OperationCreate, nil, m{"n": 1})}, "setup",
		"CREATE TABLE IF NOT EXISTS t (n INT)")
	w.connect()
	if got := w.query("SELECT n FROM t") + w.query("PRAGMA journal_mode"); got != "1wal" {
		t.Errorf("got %s", got)
	}
	for _, statement := range []string{"ATTACH '%s' AS other", "VACUUM INTO '%s'"} {
		other := filepath.Join(dir, "other.db")
		d := sdk.Standard(sqlite.Connector()).NewDestination()
		ctx := plugintest.Context(t, sqlite.Connector(), "p:destination")
		if err := d.Configure(ctx, map[string]string{"path": w.path, "setup": fmt.Sprintf(statement, other)}); err !=
			nil {
			t.Fatal(err)
		}
		if err := d.Open(ctx); err == nil || !strings.Contains(err.Error(), "too many attached databases") {
			t.Errorf("%s: %v", statement, err)
		}
		if _, err := os.Stat(other); err == nil {
			t.Errorf("%s made a file", statement)
		}
	}
}

// TestBusy checks that no record is refused while another program writes for longer than the destination waits.
func TestBusy(t *testing.T) {
	w := newWorld(t, "CREATE TABLE t (n INT)")
	d, ctx := w.destination("timeout", "10ms")
	w.exec("BEGIN IMMEDIATE")
	_, err := d.Write(ctx, []record.Record{plugintest.Row(1, record.OperationCreate, nil, m{"n": 1})})
	if !builtintest.Lost(err) || !strings.Contains(err.Error(), "database is locked") {
		t.Errorf("got %v", err)
	}
	w.exec("COMMIT")
	if n, err := d.Write(ctx, []record.Record{plugintest.Row(1, record.OperationCreate, nil, m{"n": 1})}); n != 1 ||
		err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}

// TestRoundTrip copies tables to another database, through changes of every kind.
func TestRoundTrip(t *testing.T) {
	const table = "CREATE TABLE t (a TEXT NOT NULL, b INT NOT NULL, x BLOB, y REAL, PRIMARY KEY (a, b));"
	from, to := newWorld(t, table+"INSERT INTO t VALUES ('a', 1, x'00', 1.5), ('b', 2, NULL, -1e300)"),
		newWorld(t, table)
	s := from.open(from.settings("t"), nil)
	records := s.Next(2)
	from.exec("UPDATE t SET x = 'text' WHERE b = 1; INSERT INTO t VALUES ('c', 3, 4, 5); DELETE FROM t WHERE a = " +
		"'b'; UPDATE t SET b = 9 WHERE a = 'c'")
	to.write(append(records, s.Next(5)...))
	const all = "SELECT a, b, quote(x), y FROM t ORDER BY a"
	if got, want := to.query(all), from.query(all); got != want || want == "" {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestSettings checks that wrong settings are refused.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "forbidden.db"), link); err != nil {
		t.Fatal(err)
	}
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{AllowPath: func(path string) error {
		if strings.Contains(path, "forbidden") {
			return errors.New("the file is out of bounds")
		}
		return nil
	}})
	for want, s := range map[string]map[string]string{
		`"path"`:             {"tables": "t"},
		"out of bounds":      {"path": filepath.Join(dir, "forbidden")},
		"* stands alone":     {"path": "x", "tables": "*,t"},
		"must be table/word": {"path": "x", "snapshot.again": "t"},
		`"changes.table"`:    {"path": "x", "changes.table": "a b"},
		`"changes.max"`:      {"path": "x", "changes.max": "-1"},
		`"snapshotMode"`:     {"path": "x", "snapshotMode": "always"},
	} {
		if err := sdk.Standard(sqlite.Connector()).NewSource().Configure(ctx, s); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", s, err, want)
		}
	}
	d := sdk.Standard(sqlite.Connector()).NewDestination()
	if err := d.Configure(ctx, map[string]string{"path": link}); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(ctx); err == nil || !strings.Contains(err.Error(), "out of bounds") {
		t.Errorf("a link that leads elsewhere: %v", err)
	}
}
