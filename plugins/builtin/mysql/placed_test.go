package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/server"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestWithoutGTIDs reads by places in files, and begins a snapshot with a lock, as with a MySQL that has no GTIDs.
func TestWithoutGTIDs(t *testing.T) {
	t.Parallel()
	withoutGTIDs(t, server.StartMariaDB(t, replicated...), mysql.WithoutGTIDs())
}

// withoutGTIDs changes a table in between where the log names columns.
func withoutGTIDs(t *testing.T, server *server.MySQL, connector sdk.Connector) {
	w := in(t, server, "CREATE TABLE t (id int PRIMARY KEY, x text); INSERT INTO t VALUES (1, 'a')")
	settings := w.sourceSettings("t")
	alter, n := "", ""
	if w.isMariaDB() {
		alter, n = "ALTER TABLE t ADD n int; ", `"n":null,`
	}
	open := func(pos record.Position) *plugintest.Opened {
		s := plugintest.NewOpened(w, connector, w.name+":source")
		if err := s.TryOpen(settings, pos); err != nil {
			w.Fatal(err)
		}
		return s
	}
	s := open(nil)
	s.Want(`snapshot t {"id":1} to {"id":1,"x":"a"}`)
	w.exec("BEGIN; INSERT INTO t VALUES (2, 'b'), (3, 'c'); UPDATE t SET id = 4 WHERE id = 3; COMMIT; FLUSH BINARY LOGS; " + alter + "INSERT INTO t (id, x) VALUES (5, 'd'); DELETE FROM t WHERE id = 5")
	lines := []string{
		`create t {"id":2} to {"id":2,"x":"b"}`, `create t {"id":3} to {"id":3,"x":"c"}`, `delete t {"id":3} from {"id":3,"x":"c"}`, `create t {"id":4} to {"id":4,"x":"c"}`,
		`create t {"id":5} to {"id":5,` + n + `"x":"d"}`, `delete t {"id":5} from {"id":5,` + n + `"x":"d"}`,
	}
	got := s.Want(lines...)
	if got[0].Metadata.Get("mysql.gtid") != "" || strings.Contains(string(got[0].Position), "gtid") {
		t.Errorf("a place has a GTID: %s", got[0].Position)
	}
	s.Close()
	for i := range got[:5] {
		s := open(got[i].Position)
		s.Want(lines[i+1:]...)
		s.Close()
	}
	settings = w.sourceSettings("t", "snapshot.again", "t/1")
	w.exec("INSERT INTO t (id, x) VALUES (6, 'e')")
	s = open(got[5].Position)
	s.Want(`snapshot t {"id":1} to {"id":1,`+n+`"x":"a"}`, `snapshot t {"id":2} to {"id":2,`+n+`"x":"b"}`, `snapshot t {"id":4} to {"id":4,`+n+`"x":"c"}`, `snapshot t {"id":6} to {"id":6,`+n+`"x":"e"}`)
	w.exec("INSERT INTO t (id, x) VALUES (7, 'f')")
	s.Want(`create t {"id":7} to {"id":7,` + n + `"x":"f"}`)
	s.Close()
	w.purge(w.logs()[1])
	s = plugintest.NewOpened(w, connector, w.name+":source")
	if err := s.TryOpen(settings, got[0].Position); err == nil || !strings.Contains(err.Error(), "does not have that part of the log any more") {
		t.Errorf("a place in a file that is gone: %v", err)
	}
	elsewhere := strings.Replace(string(got[5].Position), `"server":"`, `"server":"x`, 1)
	s = plugintest.NewOpened(w, connector, w.name+":source")
	if err := s.TryOpen(settings, record.Position(elsewhere)); err == nil || !strings.Contains(err.Error(), "means nothing on another server") {
		t.Errorf("a place on another server: %v", err)
	}
}

// TestMySQLHistory compares positions with what a MySQL has.
func TestMySQLHistory(t *testing.T) {
	t.Parallel()
	const a, b = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
	for _, c := range []struct{ set, in, executed, purged, want string }{
		{a + ":1-5", a + ":6", a + ":1-9", a + ":1-5", ""},
		{a + ":1-5", "", a + ":1-9", a + ":1-6", "the server has purged the transactions " + a + ":6,"},
		{a + ":1-5", "", a + ":1-4", "", "the server does not have the transactions " + a + ":5"},
		{a + ":1-5", a + ":6", a + ":1-5," + b + ":1", "", "the server does not have the transactions " + a + ":6"},
		{a + ":1-5", "", a + ":1-5," + b + ":1-7", b + ":1-3", "the server has purged the transactions " + b + ":1-3"},
		{"", "", a + ":1-3", "", ""},
	} {
		err := mysql.Compare(c.set, c.in, c.executed, c.purged)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "new snapshot is needed")) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestMySQLVariables names what must be set.
func TestMySQLVariables(t *testing.T) {
	t.Parallel()
	good := func() map[string]string {
		return map[string]string{"version": "8.4.0", "log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_value_options": "", "gtid_mode": "ON"}
	}
	if err := mysql.Check(good()); err != nil {
		t.Error(err)
	}
	for name, value := range map[string]string{"log_bin": "OFF", "binlog_format": "STATEMENT", "binlog_row_image": "MINIMAL", "binlog_row_value_options": "PARTIAL_JSON"} {
		v := good()
		v[name] = value
		if err := mysql.Check(v); err == nil || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s = %s: %v", name, value, err)
		}
	}
}
