package kill_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

const mysqlRecords = 200_000

// BenchmarkMySQL writes rows with an agent, and with a bare loop of the same driver whose statements have as many rows.
// It reads rows and the log with an agent, and with the programs of MariaDB.
func BenchmarkMySQL(b *testing.B) {
	runBenchmarks(b, mysqlRecords, []benchmark{{"inserts", benchRows500}, {"file-to-mysql", benchToMySQL},
		{"select", benchMySQLSelect}, {"snapshot", benchMySQLSnapshot},
		{"mariadb-binlog", benchBinlog}, {"changes", benchMySQLChanges}})
}

// filled starts a server with a table of rows that are also in its log, in transactions of a thousand rows. It calls
// before after the first transaction.
func filled(b *testing.B, dir string, before func(d *mysqlServer)) *mysqlServer {
	b.Helper()
	d := startReplicated(b, dir, "CREATE TABLE bench (id int PRIMARY KEY, text varchar(200)); INSERT INTO bench "+
		"VALUES (0, 'first')")
	if before != nil {
		before(d)
	}
	for n := 1; n <= mysqlRecords; n += 1000 {
		if _, err := d.db.ExecContext(b.Context(),
			fmt.Sprintf("INSERT INTO shop.bench SELECT seq, repeat('x', 100) FROM seq_%d_to_%d", n,
				n+999)); err != nil {
			b.Fatal(err)
		}
	}
	return d
}

// runs runs a program of MariaDB against the server.
func (d *mysqlServer) runs(b *testing.B, program string, args ...string) {
	b.Helper()
	path := server.Need(b, program, "mariadb-client", "/usr/bin")
	host, port, _ := strings.Cut(d.Addr, ":")
	b.StartTimer()
	if out, err := exec.Command(path, append([]string{"--no-defaults", "--host=" + host, "--port=" + port,
		"--user=root"}, args...)...).CombinedOutput(); err != nil {
		b.Fatalf("%v\n%.500s", err, out)
	}
	b.StopTimer()
}

func benchMySQLSelect(b *testing.B) {
	b.StopTimer()
	filled(b, b.TempDir(), nil).runs(b, "mariadb", "--quick", "--batch", "--execute=SELECT * FROM shop.bench")
}

func benchBinlog(b *testing.B) {
	b.StopTimer()
	filled(b, b.TempDir(), nil).runs(b, "mariadb-binlog", "--read-from-remote-server", "--base64-output=decode-rows",
		"--verbose", "--to-last-log", "bin.000001")
}

func (d *mysqlServer) toFile(dir string) string {
	return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:mysql, settings: {address: "%s", database: shop, user: conduit,
         password: "${file:%s}", tables: bench}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %s/out}}
`, d.Addr, d.password, dir)
}

func benchMySQLSnapshot(b *testing.B) {
	b.StopTimer()
	dir := agenttest.NewDir(b)
	d := filled(b, dir, nil)
	agentMoves(b, dir, d.toFile(dir), lines(dir+"/out", mysqlRecords))
}

// benchMySQLChanges reads the single existing row with an agent and then, after a restart, the following rows in the
// log.
func benchMySQLChanges(b *testing.B) {
	b.StopTimer()
	dir := agenttest.NewDir(b)
	d := filled(b, dir, func(d *mysqlServer) {
		agentMoves(b, dir, d.toFile(dir), lines(dir+"/out", 1))
		b.ResetTimer()
		used = kill.Usage{}
	})
	agentMoves(b, dir, d.toFile(dir), lines(dir+"/out", mysqlRecords+1))
}

const mysqlTable = "CREATE TABLE bench (id int, text varchar(200))"

func benchRows500(b *testing.B) {
	b.StopTimer()
	const rows = 500
	d, text := startMariaDB(b, b.TempDir(), mysqlTable), strings.Repeat("x", 100)
	insert, err := d.db.PrepareContext(b.Context(),
		"INSERT INTO shop.bench (id, text) VALUES "+strings.Repeat("(?, ?), ", rows-1)+"(?, ?)")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = insert.Close() }()
	b.StartTimer()
	for n := 0; n < mysqlRecords; n += rows {
		args := make([]any, 0, 2*rows)
		for i := range rows {
			args = append(args, n+i, text)
		}
		if _, err := insert.ExecContext(b.Context(), args...); err != nil {
			b.Fatal(err)
		}
	}
}

func benchToMySQL(b *testing.B) {
	b.StopTimer()
	dir := agenttest.NewDir(b)
	d := startMariaDB(b, dir, mysqlTable)
	writeLines(b, dir, mysqlRecords)
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: %s/in}}
      - {id: out, type: destination, plugin: builtin:mysql, settings: {address: "%s", database: shop, user: conduit,
         password: "${file:%s}", table: bench}}
`, dir, d.Addr, d.password), sometimes(func() bool {
		all, err := numbersOf(b.Context(), d.db, "SELECT count(*) FROM shop.bench")
		return err == nil && all[0] >= mysqlRecords
	}))
}
