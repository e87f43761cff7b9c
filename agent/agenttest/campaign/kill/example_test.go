package kill_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/spec"
)

// example returns the first YAML block of a page of the documentation, or of the section below a heading.
func example(t *testing.T, page string, heading ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../..", page))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), strings.Join(heading, ""))
	_, rest, ok := strings.Cut(section, "```yaml\n")
	block, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatalf("%s has no example", page)
	}
	return block
}

// replace replaces text that must be there.
func replace(t *testing.T, text, old, by string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("the example has no %q", old)
	}
	return strings.ReplaceAll(text, old, by)
}

// TestFileExample runs the example of the file destination.
func TestFileExample(t *testing.T) {
	load.Parallel(t, load.Agent)
	a := agenttest.Start(t, "")
	file := example(t, "plugins/builtin/README.md", "\n## file (destination)")
	file = replace(t, file, "path: logs/*.log", "path: "+a.Path("*.log"))
	file = replace(t, file, "path: archive.jsonl", "path: "+a.Path("archive.jsonl"))
	if err := os.WriteFile(a.Path("x.log"), []byte("2026-11-22 it failed\n  at x\n2026-11-22 more\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	a.Save("archive.yaml", file)
	a.Wait("both records", func() bool {
		content, _ := os.ReadFile(a.Path("archive.jsonl"))
		return strings.Count(string(content), "\n") == 2
	})
}

// TestRedisExample runs the example of the connector's page, with the URL and the paths of the test.
func TestRedisExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	a := agenttest.Start(t, "")
	r := startRedis(t, t.TempDir())
	file := example(t, "plugins/builtin/redis/README.md")
	file = replace(t, file, "redis://cache.example.com:6379", "redis://"+r.Addr)
	file = replace(t, file, "/etc/conduit/redis-password", r.path)
	file = replace(t, file, "path: orders.jsonl", "path: "+a.Path("orders.jsonl"))
	a.Save("orders.yaml", file)
	if _, err := r.do(t.Context(), []any{"XADD", "orders", "*", "id", 7, "total", "9.90"}); err != nil {
		t.Fatal(err)
	}
	a.Wait("the entry", func() bool {
		content, _ := os.ReadFile(a.Path("orders.jsonl"))
		return strings.Contains(string(content), `"after":{"id":"7","total":"9.90"}`)
	})
}

// copies is an agent that runs an example with rows of a SQLite database.
type copies struct {
	*agenttest.Agent
	t         *testing.T
	shop, out *sqliteFile
}

// newCopies runs the example below a heading, which copies the table orders of shop.db to another database.
func newCopies(t *testing.T, heading, name string) *copies {
	t.Helper()
	c := &copies{Agent: agenttest.Start(t, ""), t: t}
	c.shop = newSQLite(t, t.TempDir(), "CREATE TABLE orders (id INTEGER PRIMARY KEY, x TEXT); INSERT INTO orders VALUES "+
		"(1, 'a'), (2, 'b')")
	c.out = newSQLite(t, t.TempDir(), "SELECT 1")
	file := replace(t, example(t, "plugins/builtin/README.md", heading), "path: shop.db", "path: "+c.shop.path)
	c.Save("orders.yaml", replace(t, file, "path: "+name, "path: "+c.out.path))
	return c
}

// change runs a statement in the database of the source.
func (c *copies) change(statement string) {
	c.t.Helper()
	if _, err := c.shop.db.ExecContext(c.t.Context(), statement); err != nil {
		c.t.Fatal(err)
	}
}

// wait waits for the numbers in the result of a query.
func (c *copies) wait(query string, want ...int) {
	c.t.Helper()
	c.Wait(query, func() bool {
		all, err := numbersOf(c.t.Context(), c.out.db, query)
		return err == nil && slices.Equal(all, want)
	})
}

// TestSQLiteModesExample runs the examples of a history, and of rows that are marked instead of deleted.
func TestSQLiteModesExample(t *testing.T) {
	load.Parallel(t, load.Agent)
	history := newCopies(t, "\n### Modes", "history.db")
	history.wait("SELECT id FROM orders WHERE operation = 'snapshot' AND seen > '2020' ORDER BY id", 1, 2)
	history.change("UPDATE orders SET x = 'c' WHERE id = 1; DELETE FROM orders WHERE id = 2")
	history.wait("SELECT id FROM orders WHERE operation = 'update' AND x = 'c'", 1)
	history.wait("SELECT id FROM orders WHERE operation = 'delete' AND x = 'b'", 2)
	history.wait("SELECT count(*) FROM orders", 4)

	marked := newCopies(t, "\nThe current rows, with a mark", "marked.db")
	marked.wait("SELECT id FROM orders WHERE NOT deleted AND deleted_at IS NULL ORDER BY id", 1, 2)
	marked.change("DELETE FROM orders WHERE id = 2")
	marked.wait("SELECT id FROM orders WHERE deleted AND deleted_at > '2020' AND x = 'b'", 2)
	marked.change("INSERT INTO orders VALUES (2, 'd')")
	marked.wait("SELECT id FROM orders WHERE NOT deleted AND deleted_at IS NULL ORDER BY id", 1, 2)
}

// TestSQLiteColumnsExample runs the example of columns.
func TestSQLiteColumnsExample(t *testing.T) {
	load.Parallel(t, load.Agent)
	a, out := agenttest.Start(t, ""), newSQLite(t, t.TempDir(), "SELECT 1")
	file := replace(t, example(t, "plugins/builtin/README.md", "\n### Columns"), "path: shop.db", "path: "+out.path)
	file = replace(t, file, "path: orders.jsonl", "path: "+a.Path("orders.jsonl"))
	if err := os.WriteFile(a.Path("orders.jsonl"), []byte(`{"id": 1, "price": 2.5, "count": 3, "note": "n"}`+"\n"+
		`{"id": 1, "price": 2.5, "count": 4, "internal": true}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Save("orders.yaml", file)
	a.Wait("the row", func() bool {
		all, err := numbersOf(t.Context(), out.db, "SELECT order_id FROM orders WHERE shop = 'berlin' AND total = 10 AND "+
			"count = 4")
		return err == nil && slices.Equal(all, []int{1})
	})
}

// TestPostgresDestinationExample runs the example of the destination, with the servers of the test.
func TestPostgresDestinationExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	from, to := &postgresSystem{Postgres: server.StartPostgres(t, "")}, &postgresSystem{Postgres: server.StartPostgres(t,
		"")}
	if err := from.exec(t.Context(), "CREATE TABLE orders (id int PRIMARY KEY, price numeric(10,2), count int, note "+
		"text); INSERT INTO orders VALUES (1, 2.50, 3, 'n'), (2, 1, 1, NULL)"); err != nil {
		t.Fatal(err)
	}
	a := agenttest.Start(t, "")
	file := example(t, "plugins/builtin/postgres/README.md", "\n## Destination")
	file = replace(t, file, "postgres://conduit@db.example.com/shop", fmt.Sprintf("postgres://postgres@%s/postgres",
		from.Addr))
	file = replace(t, file, "postgres://conduit:${file:/etc/conduit/warehouse-password}@warehouse.example.com/warehouse",
		fmt.Sprintf("postgres://postgres@%s/postgres", to.Addr))
	a.Save("warehouse.yaml", file)
	wait := func(query string, want ...int) {
		t.Helper()
		a.Wait(query, func() bool {
			all, err := to.numbers(t.Context(), query)
			return err == nil && slices.Equal(all, want)
		})
	}
	wait("SELECT order_id FROM orders WHERE shop = 'berlin' AND total IN (7.5, 1) ORDER BY order_id", 1, 2)
	if err := from.exec(t.Context(), "UPDATE orders SET count = 4 WHERE id = 1; DELETE FROM orders WHERE id = 2"); err !=
		nil {
		t.Fatal(err)
	}
	wait("SELECT order_id FROM orders WHERE total = 10 AND shop = 'berlin'", 1)
	wait("SELECT count(*) FROM orders", 1)
	wait("SELECT numeric_scale FROM information_schema.columns WHERE column_name = 'price' AND numeric_precision = 10",
		2)
}

// TestSyslogExample runs the example of the connector's page, with the address and the path of the test.
func TestSyslogExample(t *testing.T) {
	load.Parallel(t, load.Agent)
	a, addr := agenttest.Start(t, ""), fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	file := replace(t, example(t, "plugins/builtin/syslog/README.md"), "127.0.0.1:5514", addr)
	file = replace(t, file, "path: devices.jsonl", "path: "+a.Path("devices.jsonl"))
	a.Save("devices.yaml", file)
	a.WaitPhase("devices", spec.PhaseRunning, 1)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("<34>Oct 11 22:14:15 router su: failed\n")); err != nil {
		t.Fatal(err)
	}
	a.Wait("the message", func() bool {
		content, _ := os.ReadFile(a.Path("devices.jsonl"))
		return strings.Contains(string(content), `"hostname":"router"`)
	})
}

// TestExecExample runs the example of the connector's page, with a file and a command of the test.
func TestExecExample(t *testing.T) {
	load.Parallel(t, load.Agent)
	enable := func(c *config.Config) { c.Connectors.Exec.Enabled = true }
	a := agenttest.Start(t, "", enable)
	file := replace(t, example(t, "plugins/builtin/exec/README.md"), `"-n", "0", "-F", "/var/log/syslog"`,
		`"-n", "+1", "-F", "`+a.Path("log")+`"`)
	file = replace(t, file, `["/usr/local/bin/upload"]`, `["sh", "-c", "while read -r l; do echo \"$$l\" >>`+
		a.Path("out")+`; echo ok; done"]`)
	if err := os.WriteFile(a.Path("log"), []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Save("syslog.yaml", file)
	a.Wait("the line", func() bool {
		content, _ := os.ReadFile(a.Path("out"))
		return strings.Contains(string(content), `"operation":"create"`)
	})
}

// TestPostgresExample runs the example of the connector's page, with the URL and the path of the
// test.
func TestPostgresExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	p := &postgresSystem{Postgres: server.StartPostgres(t, "")}
	if err := p.exec(t.Context(), "CREATE TABLE orders (id int PRIMARY KEY, total numeric); CREATE TABLE customers "+
		"(id int PRIMARY KEY); INSERT INTO orders VALUES (1, 9.90)"); err != nil {
		t.Fatal(err)
	}
	a := agenttest.Start(t, "")
	file := example(t, "plugins/builtin/postgres/README.md")
	file = replace(t, file,
		"postgres://conduit:${file:/etc/conduit/shop-password}@db.example.com/shop?sslmode=verify-full",
		fmt.Sprintf("postgres://postgres@%s/postgres", p.Addr))
	file = replace(t, file, "path: orders.jsonl", "path: "+a.Path("orders.jsonl"))
	a.Save("orders.yaml", file)
	a.WaitPhase("orders", spec.PhaseRunning, 1)
	has := func(parts ...string) func() bool {
		return func() bool {
			content, _ := os.ReadFile(a.Path("orders.jsonl"))
			for _, part := range parts {
				if !strings.Contains(string(content), part) {
					return false
				}
			}
			return true
		}
	}
	a.Wait("the row that was there", has(`"operation":"snapshot"`, `"after":{"id":1,"total":"9.90"}`))
	if err := p.exec(t.Context(), "UPDATE orders SET total = 8"); err != nil {
		t.Fatal(err)
	}
	a.Wait("the change", has(`"operation":"update"`, `"after":{"id":1,"total":"8"}`))
}

// TestHTTPExample runs the example of the connector's page, with the addresses of the test: a request is answered when
// the collector has its records.
func TestHTTPExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	dir := t.TempDir()
	collector, own := startAPI(t, dir), fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	a := agenttest.Start(t, "")
	file := example(t, "plugins/builtin/http/README.md")
	file = replace(t, file, "127.0.0.1:8090", own)
	file = replace(t, file, "/etc/conduit/hooks-token", collector.token)
	file = replace(t, file, "url: https://collector.example.com/events",
		"url: http://"+collector.addr+"/\n          auth.token: ${file:"+collector.token+"}")
	a.Save("hooks.yaml", file)
	a.WaitPhase("hooks", spec.PhaseRunning, 1)
	if _, err := call(t.Context(), "POST", own+"/events", collector.token, numbered(1, 2)); err != nil {
		t.Fatal(err)
	}
	stored, err := os.ReadFile(filepath.Join(collector.dir, "stored"))
	if err != nil || strings.Count(string(stored), `"operation":"create"`) != 2 {
		t.Errorf("the collector has %q: %v", stored, err)
	}
	if _, err := call(t.Context(), "POST", own+"/other", collector.token, numbered(3, 1)); err == nil ||
		!strings.Contains(err.Error(), "404") {
		t.Errorf("another path is answered %v", err)
	}
}

// TestSQLiteExample runs the example of the connector's page, with the URL and the paths of the test: messages become
// rows, which another pipeline reads.
func TestSQLiteExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	a := agenttest.Start(t, "")
	m := startMosquitto(t, t.TempDir(), "")
	page := "plugins/builtin/sqlite/README.md"
	file := replace(t, example(t, page), "mqtt://broker.example.com:1883",
		"mqtt://"+m.Addr+"\n          clientID: hall")
	file = replace(t, file, "/etc/conduit/mqtt-password", m.password)
	file = replace(t, file, "path: readings.db", "path: "+a.Path("readings.db"))
	m.subscribe("hall", "hall/+/temperature")
	a.Save("readings.yaml", file)
	a.WaitPhase("readings", spec.PhaseRunning, 1)
	if err := m.publish(t.Context(), "hall/3/temperature", `{"celsius": 21.5, "at": "2026-01-02T03:04:05Z"}`); err !=
		nil {
		t.Fatal(err)
	}
	forward := replace(t, example(t, page, "Another pipeline reads the table:"), "path: readings.db",
		"path: "+a.Path("readings.db"))
	a.Save("forward.yaml", replace(t, forward, "path: readings.jsonl", "path: "+a.Path("readings.jsonl")))
	a.Wait("the row", func() bool {
		content, _ := os.ReadFile(a.Path("readings.jsonl"))
		return strings.Contains(string(content),
			`"after":{"at":"2026-01-02T03:04:05Z","celsius":21.5,"topic":"hall/3/temperature"}`)
	})
}

// TestMQTTExample runs the example of the connector's page, with the URL and the paths of the test.
func TestMQTTExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	a := agenttest.Start(t, "")
	m := startMosquitto(t, t.TempDir(), "")
	file := example(t, "plugins/builtin/mqtt/README.md")
	file = replace(t, file, "mqtt://broker.example.com:1883", "mqtt://"+m.Addr+"\n          clientID: hall")
	file = replace(t, file, "/etc/conduit/mqtt-password", m.password)
	file = replace(t, file, "path: temperatures.jsonl", "path: "+a.Path("temperatures.jsonl"))
	m.subscribe("hall", "hall/+/temperature")
	a.Save("sensors.yaml", file)
	a.WaitPhase("sensors", spec.PhaseRunning, 1)
	if err := m.publish(t.Context(), "hall/3/temperature", "21.5"); err != nil {
		t.Fatal(err)
	}
	a.Wait("the message", func() bool {
		content, _ := os.ReadFile(a.Path("temperatures.jsonl"))
		return strings.Contains(string(content), `"opencdc.collection":"hall/3/temperature"`)
	})
}
