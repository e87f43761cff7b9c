package mysql_test

import (
	"io"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/record"
)

// TestWithoutGTIDs reads with file positions and starts the snapshot with a lock, as with a MySQL without GTIDs. The
// server is a MariaDB behind a proxy that makes it look like a MySQL, so that it sends the events that replicas without
// GTIDs get.
func TestWithoutGTIDs(t *testing.T) {
	load.Parallel(t, load.Server)
	s := server.StartMariaDB(t, replicated...)
	withoutGTIDs(t, s, disguise(t, s.Addr))
}

// nameOfMariaDB is in the row of the variable version.
var nameOfMariaDB = regexp.MustCompile(`(?s)(\x07version.[0-9.]+-)MariaDB`)

// disguise returns the address of a proxy to a MariaDB at addr, which looks like a MySQL there.
func disguise(t *testing.T, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go relay(client, addr)
		}
	}()
	return l.Addr().String()
}

// relay forwards data between a client and the MariaDB at addr until one side closes its connection.
func relay(client net.Conn, addr string) {
	defer func() { _ = client.Close() }()
	maria, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = maria.Close() }()
	go func() {
		_, _ = io.Copy(maria, client)
		_ = maria.Close()
	}()
	for b := make([]byte, 64<<10); ; {
		n, err := maria.Read(b)
		if err != nil {
			return
		}
		// The new name has the same length, so the lengths of packets stay right.
		if _, err := client.Write(nameOfMariaDB.ReplaceAll(b[:n], []byte("${1}MySQLDB"))); err != nil {
			return
		}
	}
}

// withoutGTIDs reads from a server through an address at which it seems to have no GTIDs. Where the log names columns,
// it alters the table in between.
func withoutGTIDs(t *testing.T, s *server.MySQL, address string) {
	w := in(t, s, "CREATE TABLE t (id int PRIMARY KEY, x text); INSERT INTO t VALUES (1, 'a')")
	settings := w.sourceSettings("t", "address", address)
	alter, n := "", ""
	if w.isMariaDB() {
		alter, n = "ALTER TABLE t ADD n int; ", `"n":null,`
	}
	source := w.open(settings, nil)
	source.Want(`snapshot t {"id":1} to {"id":1,"x":"a"}`)
	w.exec(
		"BEGIN; INSERT INTO t VALUES (2, 'b'), (3, 'c'); UPDATE t SET id = 4 WHERE id = 3; COMMIT; FLUSH BINARY LOGS; " +
			alter + "INSERT INTO t (id, x) VALUES (5, 'd'); DELETE FROM t WHERE id = 5")
	lines := []string{
		`create t {"id":2} to {"id":2,"x":"b"}`, `create t {"id":3} to {"id":3,"x":"c"}`,
		`delete t {"id":3} from {"id":3,"x":"c"}`, `create t {"id":4} to {"id":4,"x":"c"}`,
		`create t {"id":5} to {"id":5,` + n + `"x":"d"}`, `delete t {"id":5} from {"id":5,` + n + `"x":"d"}`,
	}
	got := source.Want(lines...)
	if got[0].Metadata.Get("mysql.gtid") != "" || strings.Contains(string(got[0].Position), "gtid") {
		t.Errorf("a place has a GTID: %s", got[0].Position)
	}
	source.Close()
	for i := range got[:5] {
		source := w.open(settings, got[i].Position)
		source.Want(lines[i+1:]...)
		source.Close()
	}
	settings = w.sourceSettings("t", "address", address, "snapshot.again", "t/1")
	w.exec("INSERT INTO t (id, x) VALUES (6, 'e')")
	source = w.open(settings, got[5].Position)
	source.Want(`snapshot t {"id":1} to {"id":1,`+n+`"x":"a"}`, `snapshot t {"id":2} to {"id":2,`+n+`"x":"b"}`,
		`snapshot t {"id":4} to {"id":4,`+n+`"x":"c"}`, `snapshot t {"id":6} to {"id":6,`+n+`"x":"e"}`)
	w.exec("INSERT INTO t (id, x) VALUES (7, 'f')")
	source.Want(`create t {"id":7} to {"id":7,` + n + `"x":"f"}`)
	source.Close()
	w.purge(w.logs()[1])
	w.refuses(settings, got[0].Position, "has removed this part of the binary log")
	elsewhere := strings.Replace(string(got[5].Position), `"server":"`, `"server":"x`, 1)
	w.refuses(settings, record.Position(elsewhere), "is not valid on server")
}
