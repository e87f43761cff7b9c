package kill_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/plugins/plugintest/server"
	"github.com/conduit-agent/conduit/spec"
)

// example returns the first YAML block of a page of the documentation.
func example(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../..", page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```yaml\n")
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

// TestPostgresExample runs the example of the connector's page, with the URL and the path of the
// test.
func TestPostgresExample(t *testing.T) {
	t.Parallel()
	p := &postgresSystem{Postgres: server.StartPostgres(t, "")}
	if err := p.exec(t.Context(), "CREATE TABLE orders (id int PRIMARY KEY, total numeric); CREATE TABLE customers (id int PRIMARY KEY); INSERT INTO orders VALUES (1, 9.90)"); err != nil {
		t.Fatal(err)
	}
	a := agenttest.Start(t, "")
	file := example(t, "plugins/builtin/postgres/README.md")
	file = replace(t, file, "postgres://conduit:${file:/etc/conduit/shop-password}@db.example.com/shop?sslmode=verify-full", fmt.Sprintf("postgres://postgres@%s/postgres", p.Addr))
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
