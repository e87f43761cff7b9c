package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/mysql"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
)

// TestSnapshot reads tables whole.
func TestSnapshot(t *testing.T) {
	load.Parallel(t, load.Server)
	s := server.StartMariaDB(t, replicated...)
	for name, test := range map[string]func(*world){
		"Chunks": chunks, "Killed": killedSnapshot, "Again": readAgain, "Added": tablesAdded, "Never": never,
		"Written": writtenMeanwhile, "Cut": cutSnapshot, "HeldUp": heldUp, "HalfOpen": halfOpenSnapshot,
		"HalfOpenRows": halfOpenRows,
	} {
		t.Run(name, func(t *testing.T) { test(in(t, s, "CREATE TABLE t (id int PRIMARY KEY, x varchar(100))")) })
	}
}

// numbers returns a query for the numbers n from first to last, in their order.
func numbers(first, last int) string {
	from, sum := []string{}, fmt.Sprint(first)
	for unit := 1; unit <= last-first; unit *= 10 {
		name := fmt.Sprintf("d%d", len(from))
		from = append(from, "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 "+
			"UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9) "+name)
		sum += fmt.Sprintf(" + %d * %s.d", unit, name)
	}
	if len(from) == 0 {
		return "SELECT " + sum + " n"
	}
	return fmt.Sprintf("SELECT %s n FROM %s HAVING n <= %d ORDER BY n", sum, strings.Join(from, ", "), last)
}

// fill inserts rows with the ids from first to last.
func (w *world) fill(first, last int) {
	w.Helper()
	w.exec(fmt.Sprintf("INSERT INTO t SELECT n, repeat('x', n %% 100) FROM (%s) numbers", numbers(first, last)))
}

// ids returns those in the keys of records.
func ids(records []record.Record) (all []int) {
	for _, r := range records {
		key, _ := r.Key.Structured()
		id, _ := key["id"].(int32)
		all = append(all, int(id))
	}
	return all
}

// inOrder checks that the ids count up from first.
func (w *world) inOrder(got []int, first int) {
	w.Helper()
	for i, id := range got {
		if id != first+i {
			w.Fatalf("record %d has id %d, want %d", i, id, first+i)
		}
	}
}

// chunks reads more rows than one statement does, and checks the reported progress.
func chunks(w *world) {
	w.fill(1, 25_000)
	s := w.open(w.sourceSettings("t"), nil)
	wait.For(s, "progress", func() bool {
		p := s.Progress().Snapshots
		return len(p) == 1 && p[0].Of == w.name+".t" && p[0].Total > 10_000
	})
	w.inOrder(ids(s.Next(25_000)), 1)
	w.exec("INSERT INTO t VALUES (0, '')")
	s.Want(`create t {"id":0} to {"id":0,"x":""}`)
}

// killedSnapshot resumes after different records of a snapshot, while rows before and after them are written.
func killedSnapshot(w *world) {
	w.fill(1, 3000)
	settings := w.sourceSettings("t")
	s := w.open(settings, nil)
	got := s.Next(1500)
	s.Close()
	w.exec("UPDATE t SET x = 'early' WHERE id = 5; UPDATE t SET x = 'late' WHERE id = 2900; DELETE FROM t WHERE id = " +
		"2950; INSERT INTO t VALUES (4000, 'more')")
	for _, at := range []int{0, 700, 1499} {
		s := w.open(settings, got[at].Position)
		n := 3000 - (at + 1) - 1 + 1 // one row was deleted and one inserted
		rows := s.Next(n)
		if first, last := ids(rows)[0], ids(rows)[n-1]; first != at+2 || last != 4000 {
			w.Errorf("behind row %d come rows %d to %d", at+1, first, last)
		}
		// Every change since the beginning of the snapshot follows, including the changes that the rows already
		// contain.
		changes := s.Next(4)
		if got := strings.Join(plugintest.Show(changes), "\n"); !strings.Contains(got, `"x":"early"`) ||
			!strings.Contains(got, "delete t") || !strings.Contains(got, `create t {"id":4000}`) {
			w.Errorf("the changes are\n%s", got)
		}
		s.Close()
		w.exec("INSERT INTO t VALUES (5000, 'behind')")
		s = w.open(settings, rows[n-1].Position) // the position of the last row marks the snapshot as complete
		if op := s.Next(1)[0].Operation; op != record.OperationUpdate {
			w.Errorf("behind the last row comes a %v", op)
		}
		s.Close()
		w.exec("DELETE FROM t WHERE id = 5000")
	}
}

// cutSnapshot loses the connection during a snapshot: it resumes after the last row.
func cutSnapshot(w *world) {
	w.fill(1, 20_000)
	proxy := network.NewProxy(w, w.addr)
	settings := w.sourceSettings("t", "address", proxy.Addr())
	s := w.open(settings, nil)
	var got []int
	for range 4 {
		got = append(got, ids(s.Next(3000))...)
		proxy.Cut()
	}
	got = append(got, ids(s.Next(8000))...)
	w.inOrder(got, 1)
	w.exec("INSERT INTO t VALUES (30000, '')")
	s.Want(`create t {"id":30000} to {"id":30000,"x":""}`)
}

// holdUp opens a source whose snapshot waits for table u, which is locked until free is called, and returns its
// session. The source has then read the ids 1 to 24,576.
func holdUp(w *world, timeout, address string) (s *plugintest.Opened, session string, free func()) {
	w.exec("CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1), (2)")
	w.fill(1, 25_000)
	s = w.open(w.sourceSettings("t,u", "timeout", timeout, "address", address), nil)
	s.Next(10)
	other, err := w.db.Conn(w.Context())
	if err == nil {
		_, err = other.ExecContext(w.Context(), "LOCK TABLES u WRITE") // before the snapshot reaches it
	}
	if err != nil {
		w.Fatal(err)
	}
	w.inOrder(ids(s.Next(24_566)), 11) // the rest of the batch waits for rows of the next table
	wait.For(w, "the table is waited for", func() bool {
		session = w.query("SELECT id FROM information_schema.processlist WHERE " + waitsForLock)
		return session != ""
	})
	return s, session, func() {
		if _, err := other.ExecContext(w.Context(), "UNLOCK TABLES"); err != nil {
			w.Fatal(err)
		}
		_ = other.Close()
	}
}

const waitsForLock = "db = database() AND state LIKE 'Waiting for table%lock'"

// heldUp makes the server work on an answer for several times the timeout: the source waits for it.
func heldUp(w *world) {
	s, session, free := holdUp(w, "2s", w.addr)
	const sessions = "SELECT id FROM information_schema.processlist WHERE " + waitsForLock
	var got string
	wait.For(w, "three times the timeout to pass, or another session to wait", func() bool {
		got = w.query(sessions)
		return got != session || w.query(sessions+" AND time > 6") != ""
	})
	if got != session {
		w.Errorf("the sessions that wait are %q, want %s alone", got, session)
	}
	free()
	w.inOrder(ids(s.Next(424)), 24_577)
	w.inOrder(ids(s.Next(2)), 1)
	w.exec("INSERT INTO u VALUES (3)")
	s.Want(`create u {"id":3} to {"id":3}`)
}

// halfOpenSnapshot loses the connection silently while the server works on an answer: once the answer cannot be
// delivered, the session ends and the source resumes.
func halfOpenSnapshot(w *world) {
	proxy := network.NewProxy(w, w.addr)
	s, session, free := holdUp(w, "4s", proxy.Addr())
	proxy.Blackhole()
	free()
	w.inOrder(ids(s.Next(424)), 24_577)
	w.inOrder(ids(s.Next(2)), 1)
	if got := w.query("SELECT count(*) FROM information_schema.processlist WHERE id = " + session); got != "0" {
		w.Error("the session that was lost is still there")
	}
}

// halfOpenRows loses the connection silently while the server sends rows: it waits for a client that no longer
// receives.
func halfOpenRows(w *world) {
	const rows = 300
	w.exec(fmt.Sprintf("CREATE TABLE v (id int PRIMARY KEY, x longtext); INSERT INTO v SELECT n, repeat('x', 100000) "+
		"FROM (%s) numbers", numbers(1, rows)))
	proxy := network.NewProxy(w, w.addr)
	s := w.open(w.sourceSettings("v", "timeout", "4s", "address", proxy.Addr()), nil)
	got, session := ids(s.Next(2)), ""
	wait.For(w, "the server to wait until rows are taken", func() bool {
		session = w.query("SELECT id FROM information_schema.processlist WHERE db = database() AND state = 'Writing " +
			"to net'")
		return session != ""
	})
	proxy.Unplug(w)
	w.inOrder(append(got, ids(s.Next(rows-len(got)))...), 1)
	if got := w.query("SELECT count(*) FROM information_schema.processlist WHERE id = " + session); got != "0" {
		w.Error("the session that was lost is still there")
	}
}

// writtenMeanwhile writes rows during the snapshot: each change arrives once, after its unchanged row.
func writtenMeanwhile(w *world) {
	w.fill(1, 5000)
	s := w.open(w.sourceSettings("t"), nil)
	first := s.Next(10)
	w.exec("UPDATE t SET x = 'changed' WHERE id > 4990; DELETE FROM t WHERE id = 4980; INSERT INTO t VALUES " +
		"(6000, 'new')")
	rows := append(first, s.Next(4990)...)
	w.inOrder(ids(rows), 1)
	for _, r := range rows {
		if after, _ := r.After.Structured(); after["x"] == "changed" {
			w.Fatalf("a row has a change of after the snapshot: %v", plugintest.Show([]record.Record{r}))
		}
	}
	changes := s.Next(12)
	if changes[0].Operation != record.OperationUpdate || changes[10].Operation != record.OperationDelete ||
		changes[11].Operation != record.OperationCreate {
		w.Errorf("the changes are %v", plugintest.Show(changes))
	}
}

// readAgain reads one table again, and does not read the other one.
func readAgain(w *world) {
	w.exec("INSERT INTO t VALUES (1, 'a'); CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1)")
	s := w.open(w.sourceSettings("t,u"), nil)
	s.Next(2)
	w.exec("INSERT INTO t VALUES (2, 'b')")
	last := s.Next(1)
	s.Close()
	w.exec("INSERT INTO t VALUES (3, 'c'); INSERT INTO u VALUES (2)") // the first is in the rows that are read again
	settings := w.sourceSettings("t,u", "snapshot.again", "t/1")
	s = w.open(settings, last[0].Position)
	rows := s.Want(`snapshot t {"id":1} to {"id":1,"x":"a"}`, `snapshot t {"id":2} to {"id":2,"x":"b"}`,
		`snapshot t {"id":3} to {"id":3,"x":"c"}`)
	s.Close()
	for _, from := range rows[1:] {
		s = w.open(settings, from.Position)
		if string(from.Position) == string(rows[1].Position) {
			s.Want(`snapshot t {"id":3} to {"id":3,"x":"c"}`)
		}
		change := s.Want(`create u {"id":2} to {"id":2}`)
		s.Close()
		s = w.open(settings, change[0].Position)
		w.exec("INSERT INTO t VALUES (4, 'd')")
		s.Want(`create t {"id":4} to {"id":4,"x":"d"}`)
		s.Close()
		w.exec("DELETE FROM t WHERE id = 4")
	}
	w.refuses(w.sourceSettings("u", "snapshot.again", "t/1"), nil, "snapshot.again", "tables does not select this table")
}

// tablesAdded adds tables to the settings: the source reads their rows, and does not read the other tables again.
func tablesAdded(w *world) {
	w.exec("INSERT INTO t VALUES (1, 'a'); CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1), (2)")
	s := w.open(w.sourceSettings("t"), nil)
	last := s.Next(1)
	s.Close()
	w.exec("INSERT INTO t VALUES (2, 'b')")
	s = w.open(w.sourceSettings("t,u"), last[0].Position) // nothing is read
	s.Close()
	s = w.open(w.sourceSettings("t,u"), last[0].Position)
	rows := s.Want(`snapshot u {"id":1} to {"id":1}`, `snapshot u {"id":2} to {"id":2}`)
	s.Close()
	s = w.open(w.sourceSettings("t,u"), rows[0].Position)
	s.Want(`snapshot u {"id":2} to {"id":2}`)
	change := s.Want(`create t {"id":2} to {"id":2,"x":"b"}`)
	s.Close()
	s = streaming(w.open(w.sourceSettings("*"), change[0].Position)) // all tables were read
	w.exec("CREATE TABLE late (id int PRIMARY KEY); INSERT INTO late VALUES (1); INSERT INTO u VALUES (3)")
	s.Want(`create late {"id":1} to {"id":1}`, `create u {"id":3} to {"id":3}`)
}

// never reads changes only.
func never(w *world) {
	w.fill(1, 10)
	s := streaming(w.open(w.sourceSettings("t", "snapshotMode", "never"), nil))
	w.exec("INSERT INTO t VALUES (11, 'k')")
	s.Want(`create t {"id":11} to {"id":11,"x":"k"}`)
}

// TestContract runs the conformance tests of sources.
func TestContract(t *testing.T) {
	load.Parallel(t, load.Server)
	contract(t, server.StartMariaDB(t, replicated...))
}

func contract(t *testing.T, s *server.MySQL) {
	plugintest.Run(t, plugintest.Target{
		Connector: mysql.Connector(),
		Source: func(tb testing.TB, n int) map[string]string {
			w := in(tb, s, "CREATE TABLE t (id int PRIMARY KEY)")
			if n > 0 {
				w.exec("INSERT INTO t " + numbers(1, n))
			}
			return w.sourceSettings("t")
		},
	})
}
