package mysql_test

import (
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
)

// streaming waits until a source with few rows has read them all, and the server has no more.
func streaming(s *plugintest.Opened) *plugintest.Opened {
	s.Helper()
	wait.For(s, "the source has read all there is", func() bool {
		p := s.Progress()
		return p.Seconds != nil && *p.Seconds == 0 && len(p.Snapshots) == 0
	})
	return s
}

// fails opens a source that does not open, or fails soon, and returns the error.
func (w *world) fails(settings map[string]string, pos record.Position) error {
	w.Helper()
	s := plugintest.NewOpened(w, mysql.Connector(), w.name+":source")
	if err := s.TryOpen(settings, pos); err != nil {
		return err
	}
	return s.Fails()
}

// refuses checks that a source fails with an error that contains all words.
func (w *world) refuses(settings map[string]string, pos record.Position, words ...string) {
	w.Helper()
	err := w.fails(settings, pos)
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			w.Errorf("the error has no %q: %v", word, err)
		}
	}
}

// insideTransaction resumes after each record of a transaction, also when records of a later transaction follow.
func insideTransaction(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY)")
	settings := w.sourceSettings("t")
	s := streaming(w.open(settings, nil))
	w.exec("BEGIN; INSERT INTO t VALUES (1), (2); INSERT INTO other VALUES (1); INSERT INTO t VALUES (3); UPDATE t " +
		"SET id = 9 WHERE id = 2; COMMIT; INSERT INTO t VALUES (4)")
	lines := []string{`create t {"id":1} to {"id":1}`, `create t {"id":2} to {"id":2}`, `create t {"id":3} to {"id":3}`,
		`delete t {"id":2} from {"id":2}`, `create t {"id":9} to {"id":9}`, `create t {"id":4} to {"id":4}`}
	got := s.Want(lines...)
	s.Close()
	for i := range got {
		w.exec("FLUSH BINARY LOGS; INSERT INTO t VALUES (" + fmt.Sprint(100+i) + ")")
		s := w.open(settings, got[i].Position)
		want := lines[i+1:]
		for j := range i + 1 {
			want = append(want, fmt.Sprintf(`create t {"id":%d} to {"id":%[1]d}`, 100+j))
		}
		s.Want(want...)
		s.Close()
	}
	again := w.open(w.sourceSettings("t,other"), got[1].Position) // other counts, too: all is read again
	again.Want(`snapshot other {"id":1} to {"id":1}`, lines[0], lines[1], lines[2])
}

// largeTransaction reads a transaction with many rows, and resumes in the middle.
func largeTransaction(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY, x varchar(100))")
	settings := w.sourceSettings("t")
	s := streaming(w.open(settings, nil))
	w.fill(1, 50_000)
	got := s.Next(50_000)
	w.inOrder(ids(got), 1)
	s.Close()
	for _, at := range []int{0, 511, 512, 33_333, 49_998} {
		s := w.open(settings, got[at].Position)
		w.inOrder(ids(s.Next(min(2000, 50_000-at-1))), at+2)
		s.Close()
	}
	proxy := network.NewProxy(w, w.addr)
	cut := w.open(w.sourceSettings("t", "address", proxy.Addr()), got[0].Position)
	for at := 0; at < 40_000; at += 5000 {
		w.inOrder(ids(cut.Next(5000)), at+2)
		proxy.Cut()
	}
	cut.Close()
	w.exec("INSERT INTO t VALUES (0, 'end')")
	w.open(settings, got[49_999].Position).Want(`create t {"id":0} to {"id":0,"x":"end"}`)
}

// interleaved begins a transaction before another one and commits it after that one.
func interleaved(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY)")
	settings := w.sourceSettings("t")
	s := streaming(w.open(settings, nil))
	early, err := w.connect(w.name).Conn(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	if _, err := early.ExecContext(w.Context(), "BEGIN; INSERT INTO t VALUES (1)"); err != nil {
		w.Fatal(err)
	}
	w.exec("INSERT INTO t VALUES (2)")
	second := s.Want(`create t {"id":2} to {"id":2}`)
	s.Settle(second...)
	s.Close()
	if _, err := early.ExecContext(w.Context(), "INSERT INTO t VALUES (3); COMMIT"); err != nil {
		w.Fatal(err)
	}
	s = w.open(settings, second[0].Position)
	s.Want(`create t {"id":1} to {"id":1}`, `create t {"id":3} to {"id":3}`)
}

// tableChanges changes tables between changes of rows: each row is read with the columns that its table had at the
// time.
func tableChanges(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY, a text)")
	s := streaming(w.open(w.sourceSettings("*"), nil))
	w.exec("INSERT INTO t VALUES (1, 'x'); ALTER TABLE t ADD b int unsigned FIRST; INSERT INTO t VALUES (4294967295, " +
		"2, 'y'); ALTER TABLE t DROP a; INSERT INTO t VALUES (5, 3)")
	s.Want(`create t {"id":1} to {"a":"x","id":1}`, `create t {"id":2} to {"a":"y","b":4294967295,"id":2}`,
		`create t {"id":3} to {"b":5,"id":3}`)
	w.exec("RENAME TABLE t TO renamed; INSERT INTO renamed VALUES (6, 4); TRUNCATE TABLE renamed; CREATE TABLE copy " +
		"AS SELECT 7 AS n; INSERT INTO copy VALUES (8); DROP TABLE copy")
	s.Want(`create renamed {"id":4} to {"b":6,"id":4}`, `create copy null to {"n":7}`, `create copy null to {"n":8}`)
}

// unnamed changes a table while the source is not running, with a log that does not name columns: columns that do not
// match are an error.
func unnamed(w *world) {
	w.exec("SET GLOBAL binlog_row_metadata = MINIMAL; CREATE TABLE t (id int PRIMARY KEY, a text)")
	settings := w.sourceSettings("t")
	s := streaming(w.open(settings, nil))
	w.exec("INSERT INTO t VALUES (1, 'x')")
	last := s.Next(1)[0].Position
	s.Close()
	w.exec("INSERT INTO t VALUES (2, 'y'); ALTER TABLE t ADD b int")
	w.refuses(settings, last, "the change has 2 columns and the table has 3", "binlog_row_metadata = 'FULL'")
	w.exec("ALTER TABLE t DROP a; SET GLOBAL binlog_row_metadata = FULL")
	w.refuses(settings, last, "column 2 of the change is not of type int", "binlog_row_metadata = 'FULL'")
}

// minimal reads from a log that does not name columns.
func minimal(w *world) {
	w.exec("SET GLOBAL binlog_row_metadata = MINIMAL; CREATE TABLE t (id int unsigned, e enum('a','b'), x " +
		"varchar(10) CHARACTER SET latin1, b varbinary(3), g bigint AS (id + 1), PRIMARY KEY (id))")
	s := streaming(w.open(w.sourceSettings("t"), nil))
	w.exec("INSERT INTO t (id, e, x, b) VALUES (4294967295, 'b', 'ß', x'00'); SET SESSION binlog_row_image = " +
		"MINIMAL; UPDATE t SET e = 'a'; SET SESSION binlog_row_image = FULL; SET GLOBAL binlog_row_metadata = FULL")
	s.Want(`create t {"id":4294967295} to {"b":"AA==","e":"b","id":4294967295,"x":"ß"}`,
		`update t {"id":4294967295} from {"id":4294967295} to {"e":"a","id":4294967295}`)
}

// compressed reads from a log that is compressed.
func compressed(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY, x text)")
	s := streaming(w.open(w.sourceSettings("t"), nil))
	w.exec("SET GLOBAL log_bin_compress = ON; INSERT INTO t VALUES (1, repeat('a', 1000)); UPDATE t SET x = " +
		"repeat('b', 2000); DELETE FROM t; SET GLOBAL log_bin_compress = OFF")
	got := s.Next(3)
	for i, op := range []record.Operation{record.OperationCreate, record.OperationUpdate, record.OperationDelete} {
		if got[i].Operation != op {
			w.Errorf("record %d is %v, want %v", i, got[i].Operation, op)
		}
	}
	if after, _ := got[1].After.Structured(); after["x"] != strings.Repeat("b", 2000) {
		w.Errorf("the row is %v", after)
	}
}

// keys reads tables with composite keys, keys of text and bytes, and without one, in chunks.
func keys(w *world) {
	w.exec(`CREATE TABLE a (x varchar(10), y int, z varbinary(4), n int, PRIMARY KEY (y, x, z)); CREATE TABLE b (n int);
		CREATE TABLE c (e enum('z','a') PRIMARY KEY);
		INSERT INTO a VALUES ('q''\\', 2, x'00', 3), ('q', 1, x'27', 1), ('q', 1, x'28', 2); INSERT INTO b VALUES (1), (1);
		INSERT INTO c VALUES ('a'), ('z')`)
	s := w.open(w.sourceSettings("a,b,c"), nil)
	lines := []string{
		`snapshot a {"x":"q","y":1,"z":"Jw=="} to {"n":1,"x":"q","y":1,"z":"Jw=="}`,
		`snapshot a {"x":"q","y":1,"z":"KA=="} to {"n":2,"x":"q","y":1,"z":"KA=="}`,
		`snapshot a {"x":"q'\\","y":2,"z":"AA=="} to {"n":3,"x":"q'\\","y":2,"z":"AA=="}`,
		`snapshot b null to {"n":1}`, `snapshot b null to {"n":1}`, `snapshot c {"e":"z"} to {"e":"z"}`,
		`snapshot c {"e":"a"} to {"e":"a"}`,
	}
	got := s.Want(lines...)
	s.Close()
	for i, rest := range [][]string{lines[1:], lines[2:], lines[3:], lines[3:], lines[3:], lines[5:], {}} {
		s := w.open(w.sourceSettings("a,b,c"), got[i].Position)
		w.exec(fmt.Sprintf("INSERT INTO b VALUES (%d)", 10+i))
		n := len(s.Next(len(rest)))
		s.Close()
		if n != len(rest) {
			w.Errorf("behind row %d there are %d", i, n)
		}
	}
}
