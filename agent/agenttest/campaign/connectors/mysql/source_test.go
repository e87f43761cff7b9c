package mysql_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/mysql"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// replicated are the options of a server whose log has complete rows.
var replicated = []string{"--log-bin=bin", "--binlog-format=ROW", "--binlog-row-image=FULL",
	"--binlog-row-metadata=FULL", "--server-id=1"}

// TestSource runs against one server.
func TestSource(t *testing.T) {
	load.Parallel(t, load.Server)
	s := server.StartMariaDB(t, replicated...)
	for name, test := range map[string]func(*world){
		"SnapshotAndChanges": snapshotAndChanges, "Types": types, "InsideTransaction": insideTransaction,
		"Interleaved": interleaved, "LargeTransaction": largeTransaction,
		"TableChanges": tableChanges, "Minimal": minimal, "Unnamed": unnamed, "Compressed": compressed, "Keys": keys,
		"Sequences": sequences, "Unlogged": unlogged, "Kinds": kinds,
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

// unlogged changes rows without writing to the log: the source warns each time.
func unlogged(w *world) {
	user := w.name + "user"
	w.exec(`CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (id int PRIMARY KEY, p int,
		CONSTRAINT c_p FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE);
		CREATE TABLE kept (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES p (id));
		CREATE TABLE other (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE);
		CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10),
		PARTITION p1 VALUES LESS THAN (20));
		CREATE TABLE beside (id int PRIMARY KEY); INSERT INTO p VALUES (1); INSERT INTO c VALUES (1, 1);
		CREATE USER ` + user + `@'127.0.0.1'; GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO ` + user + `@'127.0.0.1';
			GRANT SELECT ON ` + w.name + `.* TO ` + user + `@'127.0.0.1'`)
	s := plugintest.NewOpened(w, mysql.Connector(), w.name+":source")
	var log wait.Buffer
	s.Ctx = sdk.WithEnv(s.Ctx, &sdk.Env{ConnectorID: w.name + ":source",
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := s.TryOpen(w.sourceSettings("c,kept,parts", "user", user), nil); err != nil {
		w.Fatal(err)
	}
	s.Next(1)
	streaming(s)
	if got := log.String(); strings.Count(got, "foreign key") != 1 || !strings.Contains(got, w.name+".c "+
		"constraint=c_p") || !strings.Contains(got, "onDelete=CASCADE") {
		w.Errorf("at the start the log has\n%s", got)
	}
	for _, c := range []struct{ sql, words string }{
		{"TRUNCATE c", ".c was truncated"},
		{"ALTER TABLE parts TRUNCATE PARTITION p0", ".parts had a partition truncated"},
		{"ALTER TABLE parts EXCHANGE PARTITION p0 WITH TABLE beside", ".parts had a partition exchanged"},
		{"ALTER TABLE parts DROP PARTITION p1", ".parts had a partition dropped"},
		{"CREATE OR REPLACE TABLE parts (id int PRIMARY KEY)", ".parts was replaced"},
		{"ALTER TABLE kept ADD CONSTRAINT late FOREIGN KEY (p) REFERENCES p (id) ON DELETE SET NULL",
			"constraint=late"},
		{"TRUNCATE other", ""},
		{"DROP TABLE c", ".c was dropped"},
	} {
		before := log.String()
		w.exec(c.sql)
		if table, what, ok := strings.Cut(c.words, " "); ok {
			wait.For(w, c.words, func() bool {
				news := log.String()[len(before):]
				return strings.Contains(news, "a table "+what) && strings.Contains(news, w.name+table)
			})
		} else if c.words != "" {
			wait.For(w, c.words, func() bool { return strings.Contains(log.String()[len(before):], c.words) })
		}
	}
	if strings.Contains(log.String(), ".other") {
		w.Errorf("the log has a table that is not read:\n%s", log.String())
	}
}

// sequences reads all tables; a sequence is not a table.
func sequences(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY); CREATE SEQUENCE ids; INSERT INTO t VALUES (NEXTVAL(ids))")
	s := w.open(w.sourceSettings("*"), nil)
	s.Want(`snapshot t {"id":1} to {"id":1}`)
	streaming(s)
	w.exec("ALTER SEQUENCE ids RESTART 5000; INSERT INTO t VALUES (NEXTVAL(ids))")
	s.Want(`create t {"id":5000} to {"id":5000}`)
}

// programsWrite writes with a program during a long query and the start of a snapshot.
func programsWrite(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
	long := w.connect(w.name)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = long.ExecContext(w.Context(), "SELECT id, sleep(600) FROM t")
	}()
	const running = "SELECT id FROM information_schema.processlist WHERE info LIKE '%sleep(600)%' AND info " +
		"NOT LIKE '%processlist%'"
	wait.For(w, "the query to run for long", func() bool { return w.query(running+" AND time > 3") != "" })
	s := w.open(w.sourceSettings("*"), nil)
	s.Want(`snapshot t {"id":1} to {"id":1}`)
	streaming(s)
	w.exec("INSERT INTO t VALUES (2); UPDATE t SET id = 3 WHERE id = 2; INSERT INTO other VALUES (1)")
	s.Want(`create t {"id":2} to {"id":2}`, `delete t {"id":2} from {"id":2}`, `create t {"id":3} to {"id":3}`,
		`create other {"id":1} to {"id":1}`)
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
	rows := s.Want(`snapshot t {"id":-1} to {"id":-1,"x":"a"}`, `snapshot t {"id":0} to {"id":0,"x":"tab\there"}`,
		`snapshot t {"id":7} to {"id":7,"x":null}`)
	w.exec("INSERT INTO t VALUES (8, 'b'); UPDATE t SET x = 'c' WHERE id = 8; DELETE FROM t WHERE id = 7")
	changes := s.Want(`create t {"id":8} to {"id":8,"x":"b"}`,
		`update t {"id":8} from {"id":8,"x":"b"} to {"id":8,"x":"c"}`, `delete t {"id":7} from {"id":7,"x":null}`)
	for _, r := range changes {
		if r.Metadata.Get("mysql.database") != w.name || r.Metadata.Get("mysql.gtid") == "" ||
			r.Metadata.Get(record.KeyCreatedAt) == "" || r.Metadata.Get("mysql.binlog.file") == "" {
			w.Errorf("metadata is %v", r.Metadata)
		}
	}
	w.Log(string(rows[1].Position), string(rows[2].Position), string(changes[1].Position))
	s.Settle(append(rows, changes[:2]...)...)
	s.Close()
	s = w.open(w.sourceSettings("t"), changes[1].Position)
	s.Want(`delete t {"id":7} from {"id":7,"x":null}`)
}
