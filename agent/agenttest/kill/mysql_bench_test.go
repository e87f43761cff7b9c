package kill_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
)

const mysqlRecords = 200_000

// BenchmarkMySQL writes rows with an agent, and with a bare loop of the same driver: statements of as many rows.
func BenchmarkMySQL(b *testing.B) {
	runBenchmarks(b, mysqlRecords, []benchmark{{"inserts", benchRows500}, {"file-to-mysql", benchToMySQL}})
}

const mysqlTable = "CREATE TABLE bench (id int, text varchar(200))"

func benchRows500(b *testing.B) {
	b.StopTimer()
	const rows = 500
	d, text := startMariaDB(b, b.TempDir(), mysqlTable), strings.Repeat("x", 100)
	insert, err := d.db.PrepareContext(b.Context(), "INSERT INTO shop.bench (id, text) VALUES "+strings.Repeat("(?, ?), ", rows-1)+"(?, ?)")
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
      - {id: out, type: destination, plugin: builtin:mysql, settings: {address: "%s", database: shop, user: conduit, password: "${file:%s}", table: bench}}
`, dir, d.Addr, d.password), sometimes(func() bool {
		all, err := numbersOf(b.Context(), d.db, "SELECT count(*) FROM shop.bench")
		return err == nil && all[0] >= mysqlRecords
	}))
}
