package mysql_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
)

// TestHistory removes and restarts the log of a separate server.
func TestHistory(t *testing.T) {
	load.Parallel(t, 2*load.Server)
	s := server.StartMariaDB(t, replicated...)
	for _, one := range []struct {
		name string
		test func(*world)
	}{{"Rotation", rotation}, {"Purged", purged}, {"ResetMaster", resetMaster}, {"ResetBehind", resetBehind},
		{"SameLog", sameLog}, {"Requirements", requirements}, {"SourceRights", sourceRights}, {"OldLog", oldLog}} {
		t.Run(one.name, func(t *testing.T) { one.test(in(t, s, "DO 1")) })
	}
}

// lastOf returns the position of a change of a table, and the source's settings.
func (w *world) lastOf() (map[string]string, record.Position) {
	w.Helper()
	w.exec("CREATE TABLE t (id int PRIMARY KEY)")
	settings := w.sourceSettings("t")
	s := streaming(w.open(settings, nil))
	w.exec("INSERT INTO t VALUES (1)")
	last := s.Next(1)[0].Position
	s.Close()
	return settings, last
}

// logs returns the names of the files of the log.
func (w *world) logs() (all []string) {
	w.Helper()
	rows, err := w.db.QueryContext(w.Context(), "SHOW BINARY LOGS")
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name, size string
		if err := rows.Scan(&name, &size); err != nil {
			w.Fatal(err)
		}
		all = append(all, name)
	}
	if err := rows.Err(); err != nil {
		w.Fatal(err)
	}
	return all
}

// purge removes the log files before the given one. The server keeps files that a session reads, and notices the end of
// a session late.
func (w *world) purge(before string) {
	w.Helper()
	wait.For(w, "the files are gone", func() bool {
		w.exec("PURGE BINARY LOGS TO '" + before + "'")
		return w.logs()[0] == before
	})
}

// rotation starts new log files, with and without a running source.
func rotation(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY)")
	settings := w.sourceSettings("t")
	s := streaming(w.open(settings, nil))
	w.exec("INSERT INTO t VALUES (1); FLUSH BINARY LOGS; INSERT INTO t VALUES (2); FLUSH BINARY LOGS; FLUSH BINARY " +
		"LOGS; INSERT INTO t VALUES (3)")
	got := s.Want(`create t {"id":1} to {"id":1}`, `create t {"id":2} to {"id":2}`, `create t {"id":3} to {"id":3}`)
	s.Close()
	w.exec("FLUSH BINARY LOGS")
	w.purge(got[1].Metadata.Get("mysql.binlog.file"))
	s = w.open(settings, got[0].Position) // the later files still exist
	s.Want(`create t {"id":2} to {"id":2}`, `create t {"id":3} to {"id":3}`)
}

// purged removes log files that were not read.
func purged(w *world) {
	settings, last := w.lastOf()
	w.exec("INSERT INTO t VALUES (2); FLUSH BINARY LOGS; FLUSH BINARY LOGS; INSERT INTO t VALUES (3)")
	w.purge(w.logs()[len(w.logs())-1])
	w.refuses(settings, last, "were missed", "new snapshot is needed", "expire_logs_days")
}

// resetMaster resets the log, so that it has the same places and GTIDs again.
func resetMaster(w *world) {
	w.exec("RESET MASTER")
	settings, last := w.lastOf()
	w.exec("RESET MASTER")
	w.refuses(settings, last, "were missed", "RESET MASTER", "new snapshot is needed")
	w.exec("CREATE TABLE u (id int); INSERT INTO t VALUES (2), (3), (4); INSERT INTO t VALUES (5); " +
		"INSERT INTO t VALUES (6)")
	w.refuses(settings, last, "were missed", "new snapshot is needed")
}

// resetBehind resets the log after it had many files, so that it soon has the same GTIDs in other files.
func resetBehind(w *world) {
	w.exec("RESET MASTER; FLUSH BINARY LOGS; FLUSH BINARY LOGS")
	settings, last := w.lastOf()
	w.exec("RESET MASTER; INSERT INTO t VALUES (2); INSERT INTO t VALUES (3); INSERT INTO t VALUES (4)")
	w.refuses(settings, last, "were missed", "RESET MASTER", "new snapshot is needed")
}

// sameLog resets the log and creates the same GTIDs at the same places: the source still detects that it is another
// log.
func sameLog(w *world) {
	w.exec("RESET MASTER")
	began := w.query("SELECT unix_timestamp()")
	settings, last := w.lastOf()
	wait.For(w, "the clock goes on", func() bool { return w.query("SELECT unix_timestamp() > 1 + "+began) == "1" })
	w.exec("SET SESSION sql_log_bin = 0; DROP TABLE t; SET SESSION sql_log_bin = 1; RESET MASTER; CREATE TABLE t (id " +
		"int PRIMARY KEY); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
	w.refuses(settings, last, "were missed", "reset (RESET MASTER): bin.000001 was created at",
		"new snapshot is needed")
}

// requirements removes each requirement of the server in turn.
func requirements(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY)")
	settings := w.sourceSettings("t")
	for variable, words := range map[string]string{"binlog_format = MIXED": "SET GLOBAL binlog_format = 'ROW'",
		"binlog_row_image = NOBLOB": "SET GLOBAL binlog_row_image = 'FULL'"} {
		w.exec("SET GLOBAL " + variable)
		w.refuses(settings, nil, words)
		w.exec("SET GLOBAL binlog_format = ROW; SET GLOBAL binlog_row_image = FULL")
	}
	w.refuses(w.sourceSettings("missing"), nil, "cannot find table missing", "GRANT SELECT")
	s := streaming(w.open(settings, nil))
	w.exec("INSERT INTO t VALUES (1)")
	s.Next(1)
	w.exec("SET SESSION binlog_format = STATEMENT; INSERT INTO t VALUES (2); SET SESSION binlog_format = ROW")
	if err := s.Fails(); !strings.Contains(err.Error(), "statement instead of rows") {
		w.Errorf("a statement in the log: %v", err)
	}
	without := in(w, server.StartMariaDB(w), "CREATE TABLE t (id int)")
	without.refuses(without.sourceSettings("t"), nil, "the server has no binary log", "set log_bin")
}

// sourceRights grants the privileges one by one: each error names the next one.
func sourceRights(w *world) {
	user := w.name + "user"
	w.exec("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1); CREATE USER " + user +
		"@'127.0.0.1' IDENTIFIED BY 'secret word'; GRANT USAGE ON *.* TO " + user + "@'127.0.0.1'; GRANT INSERT ON " +
		w.name + ".* TO " + user + "@'127.0.0.1'")
	settings := w.sourceSettings("t", "user", user, "password", "secret word")
	for _, right := range []struct{ words, grant string }{
		{"GRANT REPLICATION SLAVE ON *.* TO `" + user + "`@`127.0.0.1`", "REPLICATION SLAVE ON *.*"},
		{"GRANT BINLOG MONITOR", "BINLOG MONITOR ON *.*"}, {"GRANT SELECT", "SELECT ON " + w.name + ".*"},
	} {
		err := w.fails(settings, nil)
		if !strings.Contains(err.Error(), right.words) || strings.Contains(err.Error(), "secret word") {
			w.Errorf("without the right the error has no %q: %v", right.words, err)
		}
		w.exec("GRANT " + right.grant + " TO " + user + "@'127.0.0.1'")
	}
	w.open(settings, nil).Want(`snapshot t {"id":1} to {"id":1}`)
	settings["password"] = "wrong"
	if err := w.fails(settings, nil); !strings.Contains(err.Error(), "Access denied") {
		w.Errorf("with the wrong password: %v", err)
	}
}

// oldLog waits until the place of the last record is in the oldest file of the log: a warning reports it.
func oldLog(w *world) {
	w.exec("RESET MASTER; CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY)")
	s := streaming(w.open(w.sourceSettings("t"), nil))
	w.exec("INSERT INTO t VALUES (1)")
	s.Settle(s.Next(1)...)
	wait.For(s, "nothing is behind", func() bool {
		p := s.Progress()
		return p.Bytes != nil && *p.Bytes == 0 && p.Warning == ""
	})
	w.exec("FLUSH BINARY LOGS; INSERT INTO other VALUES (1); FLUSH BINARY LOGS")
	wait.For(s, "a warning", func() bool {
		return strings.Contains(s.Progress().Warning, "the oldest of 3 binary log files")
	})
	w.exec("INSERT INTO t VALUES (2)")
	s.Settle(s.Next(1)...)
	wait.For(s, "no warning", func() bool { return s.Progress().Warning == "" })
}

// TestFailover resumes at a replica, also within a transaction, and not at a server with another history.
func TestFailover(t *testing.T) {
	load.Parallel(t, 2*load.Server)
	failover(t, server.StartMariaDB, replicated, "master_use_gtid = slave_pos", "SELECT @@gtid_slave_pos",
		"changes after GTID")
}

// failover resumes at a replica, which follows a server by its GTIDs with the given option. executed is the query for
// the GTIDs of the replica.
func failover(
	t *testing.T, start func(testing.TB, ...string) *server.MySQL, options []string, follows, executed, missed string,
) {
	w := in(t, start(t, options...), "CREATE TABLE t (id int PRIMARY KEY)")
	standby := start(t, append(options[:len(options):len(options)], "--server-id=2", "--log-slave-updates")...)
	host, port, _ := strings.Cut(w.addr, ":")
	r := &world{TB: t, addr: standby.Addr, name: w.name}
	r.db = r.connect("")
	r.exec("CHANGE MASTER TO master_host = '" + host + "', master_port = " + port + ", master_user = 'root', " +
		follows + ", master_connect_retry = 1; START SLAVE")
	settings := w.sourceSettings("t")
	s := streaming(w.open(settings, nil))
	w.exec("BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); COMMIT; INSERT INTO t VALUES (3)")
	got := s.Next(3)
	s.Close()
	has := gtidSet(t, got[2].Metadata.Get("mysql.gtid"))
	wait.For(t, "the replica has all", func() bool {
		gtids := gtidSet(t, r.query(executed))
		missing := gtids.Missing(has)
		return missing.Empty()
	})
	r.exec("STOP SLAVE; USE " + w.name + "; INSERT INTO t VALUES (4)")
	settings["address"] = standby.Addr
	for i, want := range [][]string{{`{"id":2}`, `{"id":3}`, `{"id":4}`}, {`{"id":3}`, `{"id":4}`}, {`{"id":4}`}} {
		s := w.open(settings, got[i].Position)
		for j, line := range plugintest.Show(s.Next(len(want))) {
			if line != "create t "+want[j]+" to "+want[j] {
				t.Errorf("behind record %d comes %s, want %s", i, line, want[j])
			}
		}
		s.Close()
	}
	w.exec("INSERT INTO t VALUES (5); INSERT INTO t VALUES (6)") // the replica never received these
	settings["address"] = w.addr
	s = streaming(w.open(settings, got[2].Position))
	s.Next(1)
	last := s.Next(1)[0].Position
	s.Close()
	settings["address"] = standby.Addr
	w.refuses(settings, last, missed, "new snapshot is needed")
}

func gtidSet(t testing.TB, text string) binlog.GTIDSet {
	t.Helper()
	set, err := binlog.ParseGTIDSet(text)
	if err != nil {
		t.Fatal(err)
	}
	return set
}
