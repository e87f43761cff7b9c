package kill_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// benchRows is the number of rows in each benchmark.
const benchRows = 300_000

// benchTable has rows of about a hundred bytes.
const benchTable = "CREATE TABLE bench (id int PRIMARY KEY, customer text, total numeric, placed timestamptz, " +
	"note text)"

const benchInsert = `INSERT INTO bench SELECT i, 'customer ' || i %% 1000, i * 1.25, '2026-01-02 ` +
	`03:04:05+00'::timestamptz + i * interval '1 second', repeat('x', 50) FROM generate_series(%d, %d) i`

// BenchmarkPostgres moves the same rows with an agent and with the tools of PostgreSQL.
func BenchmarkPostgres(b *testing.B) {
	for _, one := range []struct {
		name string
		run  func(b *testing.B, s *postgresSystem)
	}{
		{"copy-to-stdout", benchCopyOut}, {"snapshot", benchSnapshot},
		{"pg_recvlogical", benchRecvlogical}, {"changes", benchChanges},
		{"copy-from-stdin", benchCopyIn}, {"file-to-postgres", benchInserts},
	} {
		b.Run(one.name, func(b *testing.B) {
			s := &postgresSystem{Postgres: server.StartPostgres(b, "")}
			s.must(b, benchTable)
			for range b.N {
				one.run(b, s)
			}
			report(b, benchRows)
		})
	}
}

func (p *postgresSystem) must(tb testing.TB, sql string) {
	tb.Helper()
	if err := p.exec(tb.Context(), sql); err != nil {
		tb.Fatal(err)
	}
}

func (p *postgresSystem) query(tb testing.TB, sql string) string {
	tb.Helper()
	c, err := p.connect(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	r := c.ExecParams(tb.Context(), sql, nil, nil, nil, nil).Read()
	if r.Err != nil || len(r.Rows) == 0 {
		tb.Fatal(sql, r.Err)
	}
	return string(r.Rows[0][0])
}

// fill inserts the rows, in transactions of a thousand.
func (p *postgresSystem) fill(b *testing.B) {
	b.Helper()
	p.must(b, "TRUNCATE bench")
	var sql strings.Builder
	for i := 1; i <= benchRows; i += 1000 {
		fmt.Fprintf(&sql, "BEGIN; "+benchInsert+"; COMMIT;", i, i+999)
	}
	p.must(b, sql.String())
	p.must(b, "VACUUM ANALYZE bench")
}

func (p *postgresSystem) copying(b *testing.B, do func(c *pgconn.PgConn) error) {
	b.Helper()
	c, err := p.connect(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if err := do(c); err != nil {
		b.Fatal(err)
	}
}

func benchCopyOut(b *testing.B, s *postgresSystem) {
	b.StopTimer()
	s.fill(b)
	b.StartTimer()
	s.copying(b, func(c *pgconn.PgConn) error {
		_, err := c.CopyTo(b.Context(), io.Discard, "COPY bench TO STDOUT")
		return err
	})
}

func benchCopyIn(b *testing.B, s *postgresSystem) {
	b.StopTimer()
	s.fill(b)
	var rows bytes.Buffer
	s.copying(b, func(c *pgconn.PgConn) error {
		_, err := c.CopyTo(b.Context(), &rows, "COPY bench TO STDOUT")
		return err
	})
	s.must(b, "TRUNCATE bench")
	b.StartTimer()
	s.copying(b, func(c *pgconn.PgConn) error {
		_, err := c.CopyFrom(b.Context(), &rows, "COPY bench FROM STDIN")
		return err
	})
}

// agentMoves runs a pipeline in an agent until done. It measures the total time, from the start of the agent.
func agentMoves(b *testing.B, dir, file string, done func() bool) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(dir, "pipelines", "bench.yaml"), []byte(file), 0o600); err != nil {
		b.Fatal(err)
	}
	b.StartTimer()
	stop, err := kill.StartAgent(dir)
	if err != nil {
		b.Fatal(err)
	}
	wait.For(b, "all records", done)
	b.StopTimer()
	use(stop())
}

func (p *postgresSystem) toFile(dir, more string) string {
	return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:postgres,
         settings: {url: "postgres://postgres@%s/postgres?sslmode=disable", tables: bench%s}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %s/out}}
`, p.Addr, more, dir)
}

// lines returns a function that reports whether a file has the given number of lines. It reads only the new part of the
// file.
func lines(path string, want int) func() bool {
	var f *os.File
	count, buf := 0, make([]byte, 1<<20)
	return func() bool {
		if f == nil {
			var err error
			if f, err = os.Open(path); err != nil {
				return false
			}
		}
		for {
			n, err := f.Read(buf)
			count += bytes.Count(buf[:n], []byte{'\n'})
			if count >= want || errors.Is(err, io.EOF) {
				return count >= want
			}
		}
	}
}

func benchSnapshot(b *testing.B, s *postgresSystem) {
	b.StopTimer()
	s.fill(b)
	dir := agenttest.NewDir(b)
	agentMoves(b, dir, s.toFile(dir, ""), lines(dir+"/out", benchRows))
	s.must(b, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")
}

func (p *postgresSystem) logical(b *testing.B, slot string) {
	b.Helper()
	p.must(b, "DROP PUBLICATION IF EXISTS conduitpub; CREATE PUBLICATION conduitpub FOR TABLE bench WITH (publish = "+
		"'insert, update, delete')")
	p.query(b, fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput')", slot))
	p.fill(b)
}

func benchRecvlogical(b *testing.B, s *postgresSystem) {
	b.StopTimer()
	receiver := server.Need(b, "pg_recvlogical", "postgresql-client-15", s.Bin, "/usr/lib/postgresql/15/bin")
	s.logical(b, "bench")
	end := s.query(b, "SELECT pg_current_wal_lsn()")
	host, port, _ := strings.Cut(s.Addr, ":")
	b.StartTimer()
	cmd := exec.Command(receiver, "-h", host, "-p", port, "-U", "postgres", "-d", "postgres", "-S", "bench", "--start",
		"--endpos", end,
		"-o", "proto_version=1", "-o", "publication_names=conduitpub", "-f", os.DevNull)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	b.StopTimer()
	s.must(b, "SELECT pg_drop_replication_slot('bench')")
}

func benchChanges(b *testing.B, s *postgresSystem) {
	b.StopTimer()
	s.logical(b, "conduitslot")
	dir := agenttest.NewDir(b)
	agentMoves(b, dir, s.toFile(dir, ", snapshotMode: never"), lines(dir+"/out", benchRows))
	s.must(b, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
}

func benchInserts(b *testing.B, s *postgresSystem) {
	b.StopTimer()
	s.must(b, "TRUNCATE bench")
	dir := agenttest.NewDir(b)
	f, err := os.Create(dir + "/in")
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for i := 1; i <= benchRows; i++ {
		fmt.Fprintf(w, `{"id":%d,"customer":"customer %d","total":%.2f,"placed":"2026-01-02T03:04:05Z","note":"%s"}`+
			"\n", i, i%1000, float64(i)*1.25, strings.Repeat("x", 50))
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		b.Fatal(err)
	}
	file := fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: %s/in}}
      - {id: out, type: destination, plugin: builtin:postgres,
         settings: {url: "postgres://postgres@%s/postgres?sslmode=disable", table: bench}}
`, dir, s.Addr)
	last := time.Time{}
	agentMoves(b, dir, file, func() bool {
		if time.Since(last) < 20*time.Millisecond { // a query takes time from the server
			return false
		}
		last = time.Now()
		return s.query(b, "SELECT coalesce(max(id), 0) FROM bench") == fmt.Sprint(benchRows)
	})
	if got := s.query(b, "SELECT count(*) FROM bench"); got != fmt.Sprint(benchRows) {
		b.Fatalf("%s rows arrived", got)
	}
}
