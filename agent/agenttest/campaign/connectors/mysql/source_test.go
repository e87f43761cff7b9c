package mysql_test

import (
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/mysql"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
)

// replicated are the options of a server whose log has all of each row.
var replicated = []string{"--log-bin=bin", "--binlog-format=ROW", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL", "--server-id=1"}

// TestSource runs against one server.
func TestSource(t *testing.T) {
	load.Parallel(t, load.Server)
	s := server.StartMariaDB(t, replicated...)
	for name, test := range map[string]func(*world){
		"SnapshotAndChanges": snapshotAndChanges, "Types": types, "InsideTransaction": insideTransaction, "Interleaved": interleaved, "LargeTransaction": largeTransaction,
		"TableChanges": tableChanges, "Minimal": minimal, "Unnamed": unnamed, "Compressed": compressed, "Keys": keys,
		"Sequences": sequences,
	} {
		t.Run(name, func(t *testing.T) { test(in(t, s, "DO 1")) })
	}
}

// sourceSettings returns the usual settings of a source.
func (w *world) sourceSettings(tables string, more ...string) map[string]string {
	return w.settings(append([]string{"tables", tables, "heartbeat", "200ms", "timeout", "5s"}, more...)...)
}

// open opens a source and fails the test if it does not open.
func (w *world) open(settings map[string]string, pos record.Position) *plugintest.Opened {
	w.Helper()
	s := plugintest.NewOpened(w, mysql.Connector(), w.name+":source")
	if err := s.TryOpen(settings, pos); err != nil {
		w.Fatal(err)
	}
	return s
}

// sequences reads all tables, of which a sequence is none.
func sequences(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY); CREATE SEQUENCE ids; INSERT INTO t VALUES (NEXTVAL(ids))")
	s := w.open(w.sourceSettings("*"), nil)
	s.Want(`snapshot t {"id":1} to {"id":1}`)
	streaming(s)
	w.exec("ALTER SEQUENCE ids RESTART 5000; INSERT INTO t VALUES (NEXTVAL(ids))")
	s.Want(`create t {"id":5000} to {"id":5000}`)
}

// programsWrite has a program write while a query runs for long and a snapshot begins.
func programsWrite(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
	long := w.connect(w.name)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = long.ExecContext(w.Context(), "SELECT id, sleep(600) FROM t")
	}()
	const running = "SELECT id FROM information_schema.processlist WHERE info LIKE '%sleep(600)%' AND info NOT LIKE '%processlist%'"
	wait.For(w, "the query to run for long", func() bool { return w.query(running+" AND time > 3") != "" })
	s := w.open(w.sourceSettings("*"), nil)
	s.Want(`snapshot t {"id":1} to {"id":1}`)
	streaming(s)
	w.exec("INSERT INTO t VALUES (2); UPDATE t SET id = 3 WHERE id = 2; INSERT INTO other VALUES (1)")
	s.Want(`create t {"id":2} to {"id":2}`, `delete t {"id":2} from {"id":2}`, `create t {"id":3} to {"id":3}`, `create other {"id":1} to {"id":1}`)
	if id := w.query(running); id == "" {
		w.Error("the query did not outlast the writes")
	} else {
		w.exec("KILL " + id)
	}
	<-done
}

func snapshotAndChanges(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY, x text); INSERT INTO t VALUES (-1, 'a'), (0, 'tab\there'), (7, NULL)")
	s := w.open(w.sourceSettings("t"), nil)
	rows := s.Want(`snapshot t {"id":-1} to {"id":-1,"x":"a"}`, `snapshot t {"id":0} to {"id":0,"x":"tab\there"}`, `snapshot t {"id":7} to {"id":7,"x":null}`)
	w.exec("INSERT INTO t VALUES (8, 'b'); UPDATE t SET x = 'c' WHERE id = 8; DELETE FROM t WHERE id = 7")
	changes := s.Want(`create t {"id":8} to {"id":8,"x":"b"}`, `update t {"id":8} from {"id":8,"x":"b"} to {"id":8,"x":"c"}`, `delete t {"id":7} from {"id":7,"x":null}`)
	for _, r := range changes {
		if r.Metadata.Get("mysql.database") != w.name || r.Metadata.Get("mysql.gtid") == "" || r.Metadata.Get(record.KeyCreatedAt) == "" || r.Metadata.Get("mysql.binlog.file") == "" {
			w.Errorf("metadata is %v", r.Metadata)
		}
	}
	w.Log(string(rows[1].Position), string(rows[2].Position), string(changes[1].Position))
	s.Settle(append(rows, changes[:2]...)...)
	s.Close()
	s = w.open(w.sourceSettings("t"), changes[1].Position)
	s.Want(`delete t {"id":7} from {"id":7,"x":null}`)
}
