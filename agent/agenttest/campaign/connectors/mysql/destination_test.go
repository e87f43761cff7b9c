package mysql_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/mysql"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type m = map[string]any

// TestDestination runs against one MariaDB.
func TestDestination(t *testing.T) {
	load.Parallel(t, load.Server)
	s := server.StartMariaDB(t)
	for name, test := range map[string]func(*testing.T, *server.MySQL){
		"Operations": operations, "Refused": refusedRecords, "Indexes": indexes, "Values": writtenValues, "Once": once,
		"Engine": engine, "LostAnswer": lostAnswer, "HalfOpen": halfOpen, "Large": large, "Rights": rights,
		"Creates": creates, "CreatesTogether": createsTogether, "Mapping": mapping, "AddedColumns": addedColumns,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

func operations(t *testing.T, s *server.MySQL) {
	w := in(t, s, "CREATE TABLE t (id int PRIMARY KEY, x text, y varchar(9) DEFAULT 'kept'); CREATE TABLE only (a "+
		"varchar(9) COLLATE utf8mb4_bin, b int, PRIMARY KEY (a, b)); CREATE DATABASE IF NOT EXISTS other; DROP TABLE "+
		"IF EXISTS other.t; CREATE TABLE other.t (id int)")
	raw := plugintest.Row(9, record.OperationCreate, nil, nil)
	raw.Key, raw.After = record.Raw([]byte("9")), record.Raw([]byte(`{"id": 9, "x": 12345678901234567890}`))
	only := plugintest.Row(11, record.OperationCreate, m{"a": "z", "b": 1}, nil)
	only.Metadata.Set(record.KeyCollection, "only")
	other := plugintest.Row(12, record.OperationCreate, nil, m{"id": 7})
	other.Metadata.Set(record.KeyCollection, "other.t")
	w.write([]record.Record{
		plugintest.Row(1, record.OperationSnapshot, m{"id": 1}, m{"id": 1, "x": "a"}),
		plugintest.Row(2, record.OperationCreate, m{"id": 2}, m{"id": 2, "x": "b\t\\\n\"'ü😀"}),
		plugintest.Row(3, record.OperationUpdate, m{"id": 1}, m{"id": 1, "x": "c"}),
		plugintest.Row(4, record.OperationUpdate, m{"id": 1}, m{"id": 1, "x": "d", "y": "e"}),
		plugintest.Row(4, record.OperationUpdate, m{"id": 1}, m{"id": 1, "x": "d"}), // nothing changes
		plugintest.Row(5, record.OperationDelete, m{"id": 2}, nil),
		plugintest.Row(6, record.OperationCreate, m{"id": 3}, nil), // nothing but its key
		plugintest.Row(7, record.OperationCreate, nil, m{"id": 4, "x": nil}),
		plugintest.Row(8, record.OperationUpdate, m{"id": 5}, m{"id": 5, "x": "not there"}),
		plugintest.Row(13, record.OperationCreate, m{"id": 6}, m{"id": 6, "x": "b\t\\\n\"'ü😀"}),
		raw, only, only, other,
	})
	if got, want := w.query("SELECT * FROM t ORDER BY id"), "1|d|e\n3||kept\n4||kept\n5|not "+
		"there|kept\n6|b\t\\\n\"'ü😀|kept\n9|12345678901234567890|kept"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := w.query("SELECT * FROM only") + w.query("SELECT * FROM other.t"); got != "z|17" {
		t.Errorf("got %s", got)
	}
}

// refusedRecords writes many records, including a refused one: the records before it are written, and the error names
// the problem.
func refusedRecords(t *testing.T, s *server.MySQL) {
	w := in(t, s, "CREATE TABLE t (id int PRIMARY KEY, x varchar(3) CHECK (x <> 'bad'), n int NOT NULL DEFAULT 0); "+
		"CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW IF NEW.x = 'sig' THEN SIGNAL SQLSTATE '45000' SET "+
		"MESSAGE_TEXT = 'not this one'; END IF")
	refused := map[string]builtintest.Refused{
		"too long": {Record: plugintest.Row(0, record.OperationCreate, m{"id": 50}, m{"id": 50, "x": "long"}),
			Want: "Data too long"},
		"no number": {Record: plugintest.Row(0, record.OperationCreate, m{"id": "x"}, m{"id": "x"}),
			Want: "Incorrect integer value"},
		"range": {Record: plugintest.Row(0, record.OperationCreate, m{"id": 50}, m{"id": 50, "n": 1 << 40}),
			Want: "Out of range"},
		"null": {Record: plugintest.Row(0, record.OperationCreate, m{"id": 50}, m{"id": 50, "n": nil}),
			Want: "cannot be null"},
		"trigger": {Record: plugintest.Row(0, record.OperationCreate, m{"id": 50}, m{"id": 50, "x": "sig"}),
			Want: "not this one"},
		"column": {Record: plugintest.Row(0, record.OperationCreate, m{"id": 50}, m{"id": 50, "y": 1}),
			Want: `it has no column "y"`},
		"no key": {Record: plugintest.Row(0, record.OperationDelete, nil, nil), Want: "the record has no key"},
		"constraint": {Record: plugintest.Row(0, record.OperationCreate, m{"x": "k"}, m{"id": 50, "x": "k"}),
			Want: "add a primary key or a unique index"},
		"not without": {Record: plugintest.Row(0, record.OperationCreate, nil, m{"id": 1}), Want: "Duplicate entry"},
	}
	if w.isMariaDB() { // the MySQL of tests ignores CHECK
		refused["check"] = builtintest.Refused{Record: plugintest.Row(0, record.OperationCreate, m{"id": 50},
			m{"id": 50, "x": "bad"}), Want: "CONSTRAINT"}
	}
	w.sink().CheckRefused(t, refused)
}

// indexes writes to a table with two unique indexes: a record never changes the row of another key.
func indexes(t *testing.T, s *server.MySQL) {
	w := in(t, s, "CREATE TABLE t (id int PRIMARY KEY, n int UNIQUE, x varchar(20), UNIQUE (x(3))); INSERT INTO t "+
		"VALUES (1, 1, 'a')")
	w.write([]record.Record{
		plugintest.Row(1, record.OperationUpdate, m{"n": 1}, m{"id": 1, "n": 1, "x": "b"}),
		plugintest.Row(2, record.OperationCreate, m{"id": 2}, m{"id": 2, "n": 2, "x": "c"}),
	})
	d, ctx := w.destination()
	if _, err := d.Write(ctx, []record.Record{plugintest.Row(3, record.OperationCreate, m{"id": 3},
		m{"id": 3, "n": 1, "x": "z"})}); err == nil || !strings.Contains(err.Error(), "Duplicate entry") {
		t.Errorf("the row of another key: %v", err)
	}
	if _, err := d.Write(ctx, []record.Record{plugintest.Row(4, record.OperationCreate, m{"x": "b"}, m{"id": 3, "n": 3,
		"x": "b"})}); err == nil || !strings.Contains(err.Error(), "add a primary key or a unique index") {
		t.Errorf("an index on the beginning of a column: %v", err)
	}
	if got := w.query("SELECT * FROM t ORDER BY id"); got != "1|1|b\n2|2|c" {
		t.Errorf("got %s", got)
	}
}

func writtenValues(t *testing.T, s *server.MySQL) {
	w := in(t, s, "DO 1")
	json := "json"
	if !w.isMariaDB() {
		json = "text"
	}
	w.exec("CREATE TABLE t (id bigint unsigned PRIMARY KEY, b bool, f double, n decimal(30,3), ba varbinary(9), j " +
		json + ", ts datetime(6), tz timestamp(3) NULL, d date, u smallint, f4 float, e enum('a','b'))")
	at := time.Date(2026, 1, 2, 3, 4, 5, 678000000, time.FixedZone("", 7200))
	row := m{"id": uint64(1<<64 - 1), "b": true, "f": 1.5, "n": "12345678901234567890.125", "ba": []byte{0, 255},
		"j": m{"a": []any{1, "x"}}, "ts": at, "tz": "2026-01-02T03:04:05.678+02:00", "d": at, "u": int16(-7),
		"f4": float32(0.25), "e": "b"}
	const want = `18446744073709551615|1|1.5|12345678901234567890.125|00FF|{"a":[1,"x"]}|2026-01-02 ` +
		`01:04:05.678000|2026-01-02 01:04:05.678|2026-01-02|-7|0.25|b`
	for _, key := range []m{{"id": uint64(1<<64 - 1)}, nil} {
		w.exec("DELETE FROM t")
		w.write([]record.Record{plugintest.Row(1, record.OperationCreate, key, row)})
		if got := w.query(
			"SET time_zone = '+00:00'; SELECT id, b, f, n, hex(ba), j, ts, tz, d, u, f4, e FROM t"); got != want {
			t.Errorf("with the key %v:\n got %s\nwant %s", key, got, want)
		}
	}
}

// once writes records again after a restart, as an agent does after a kill.
func once(t *testing.T, s *server.MySQL) {
	w := in(t, s, "CREATE TABLE t (n int)")
	w.sink().CheckOnce(t)
	w.sink().CheckForgets(t, w.settings())
	w.exec("DELETE FROM t")
	w.sink().CheckBeside(t)
}

// engine requests exactly-once writes from a table without transactions.
func engine(t *testing.T, s *server.MySQL) {
	w := in(t, s, "CREATE TABLE t (n int) ENGINE=MyISAM")
	d, ctx := w.destination("positionTable", "conduit_positions")
	if _, err := d.Write(ctx, []record.Record{plugintest.Row(1, record.OperationCreate, nil, m{"n": 1})}); err == nil ||
		!strings.Contains(err.Error(), "its engine is MyISAM") || !builtintest.Lost(err) {
		t.Errorf("got %v", err)
	}
}

// lostAnswer loses the connection repeatedly while records are written. With a position table no record is written
// twice, although some were committed without an answer.
func lostAnswer(t *testing.T, s *server.MySQL) {
	w := in(t, s, "CREATE TABLE t (n int)")
	proxy := network.NewProxy(t, s.Addr)
	d, ctx := w.destination("positionTable", "conduit_positions", "address", proxy.Addr())
	cuts := proxy.CutEverywhere(100) // many more parts than a connection needs for its first records
	for n := 0; n < 300; {
		var all []record.Record
		for i := range 5 {
			all = append(all, plugintest.Row(n+i, record.OperationCreate, nil, m{"n": n + i}))
		}
		done, err := d.Write(ctx, all)
		if err != nil && !builtintest.Lost(err) {
			t.Fatalf("a record is refused for a lost connection: %v", err)
		}
		n += done
	}
	if got := w.query("SELECT count(*), count(DISTINCT n) FROM t"); got != "300|300" || cuts() < 20 {
		t.Errorf("got %s rows and distinct ones after %d cuts, want 300|300 after at least 20", got, cuts())
	}
}

// halfOpen loses the connection silently while another session locks a row: the session that the server keeps then gets
// the lock, and must not delay the next one.
func halfOpen(t *testing.T, s *server.MySQL) {
	w := in(t, s, "CREATE TABLE t (id int PRIMARY KEY, x int); INSERT INTO t VALUES (1, 0)")
	proxy := network.NewProxy(t, s.Addr)
	d, ctx := w.destination("address", proxy.Addr(), "timeout", "3s")
	other, err := w.db.BeginTx(ctx, nil)
	if err == nil {
		_, err = other.ExecContext(ctx, "UPDATE t SET x = 1")
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := d.Write(ctx, []record.Record{plugintest.Row(1, record.OperationUpdate, m{"id": 1},
			m{"id": 1, "x": 2})})
		done <- err
	}()
	wait.For(t, "the row is waited for", func() bool {
		return w.query("SELECT count(*) FROM information_schema.processlist WHERE db = database() AND command = "+
			"'Execute' AND info LIKE 'INSERT%'") == "1"
	})
	proxy.Blackhole()
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the row stays locked by the session that was lost: %v", err)
	}
	if got := w.query("SELECT x FROM t"); got != "2" {
		t.Errorf("the row has %s", got)
	}
}

// large writes a record that exceeds the limit of the server: only that record is refused.
func large(t *testing.T, s *server.MySQL) {
	w := in(t, s, "CREATE TABLE t (x longtext)")
	d, ctx := w.destination()
	all := []record.Record{plugintest.Row(1, record.OperationCreate, nil, m{"x": strings.Repeat("x", 10<<20)}),
		plugintest.Row(2, record.OperationCreate, nil, m{"x": strings.Repeat("y", 10<<20)}),
		plugintest.Row(3, record.OperationCreate, nil, m{"x": strings.Repeat("z", 20<<20)})}
	n, err := d.Write(ctx, all)
	if n != 2 || err == nil || builtintest.Lost(err) {
		t.Errorf("wrote %d: %.200v", n, err)
	}
	if n, err := d.Write(ctx, all[:1]); n != 1 || err != nil {
		t.Errorf("afterwards %d: %.200v", n, err)
	}
}

// rights uses a user without one of the privileges: no record is refused for that reason.
func rights(t *testing.T, s *server.MySQL) {
	w := in(t, s, "CREATE TABLE t (n int)")
	w.exec("CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'secret'; GRANT SELECT ON " + w.name +
		".* TO reader@'127.0.0.1'; CREATE USER reader@localhost IDENTIFIED BY 'secret'; GRANT SELECT ON " + w.name +
		".* TO reader@localhost")
	d, ctx := w.destination("user", "reader", "password", "secret")
	if _, err := d.Write(ctx, []record.Record{plugintest.Row(1, record.OperationCreate, nil, m{"n": 1})}); err == nil ||
		!strings.Contains(err.Error(), "INSERT command denied") || !builtintest.Lost(err) {
		t.Errorf("got %v", err)
	}
	wrong := sdk.Standard(mysql.Connector()).NewDestination()
	if err := wrong.Configure(ctx, w.settings("user", "reader", "password", "hidden-word")); err != nil {
		t.Fatal(err)
	}
	if err := wrong.Open(ctx); err == nil || !strings.Contains(err.Error(), "Access denied") ||
		strings.Contains(err.Error(), "hidden-word") {
		t.Errorf("a wrong password: %v", err)
	}
}

// TestTLS writes and reads with TLS and a client certificate, and is refused without either.
func TestTLS(t *testing.T) {
	load.Parallel(t, load.Server)
	dir := server.Dir(t)
	cert, key, _ := network.Certificate(t)
	clientCert, clientKey, _ := network.Certificate(t)
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	var options []string
	for name, text := range map[string]string{"cert": cert, "key": key, "ca": clientCert} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600),
			os.Chown(path, int(info.Sys().(*syscall.Stat_t).Uid), -1)); err != nil {
			t.Fatal(err)
		}
		options = append(options, "--ssl-"+name+"="+path)
	}
	w := in(t, server.StartMariaDB(t, append(options, replicated...)...),
		"CREATE TABLE t (n int); CREATE USER test@'127.0.0.1' REQUIRE X509; CREATE USER test@localhost REQUIRE X509; "+
			"GRANT ALL ON *.* TO test@'127.0.0.1'; GRANT ALL ON *.* TO test@localhost")
	good := []string{"user", "test", "tls.enabled", "true", "tls.ca", cert, "tls.cert", clientCert, "tls.key",
		clientKey}
	w.write([]record.Record{plugintest.Row(1, record.OperationCreate, nil, m{"n": 1})}, good...)
	source := streaming(w.open(w.sourceSettings("t", good...), nil))
	source.Want(`snapshot t null to {"n":1}`)
	w.exec("INSERT INTO t VALUES (2)")
	source.Want(`create t null to {"n":2}`)
	for name, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"another authority": {map[string]string{"tls.ca": clientCert}, "certificate"},
		"no certificate":    {map[string]string{"tls.cert": "", "tls.key": ""}, "Access denied"},
		"another name": {map[string]string{"address": strings.Replace(w.addr, "127.0.0.1", "localhost", 1)},
			"wanted to match localhost"},
		"no TLS": {map[string]string{"tls.enabled": "false", "tls.cert": "", "tls.key": "", "tls.ca": ""},
			"Access denied"},
	} {
		settings := w.settings(good...)
		for k, v := range c.change {
			settings[k] = v
		}
		d, ctx := sdk.Standard(mysql.Connector()).NewDestination(),
			plugintest.Context(t, mysql.Connector(), "p:destination")
		err := d.Configure(ctx, settings)
		if err == nil {
			err = d.Open(ctx)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err := w.fails(settings, nil); !strings.Contains(err.Error(), c.want) {
			t.Errorf("source, %s: %v", name, err)
		}
	}
}
