package postgres_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/page"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/record"
)

const readme = "../../../../../plugins/builtin/postgres/README.md"

// TestPage runs the statements of the page. The statements of Privileges are sufficient for a source, the query for the
// server's monitoring shows its slot, and the statement that deletes the positions of a destination finds them.
func TestPage(t *testing.T) {
	load.Parallel(t, load.Server)
	w := &world{T: t, server: server.StartPostgres(t, ""), db: "shop"}
	run(t, w.server, "postgres", "CREATE DATABASE shop")
	w.exec("CREATE ROLE shop_owner; CREATE ROLE reader LOGIN REPLICATION; CREATE TABLE orders (id int PRIMARY KEY); " +
		"CREATE TABLE customers (id int PRIMARY KEY); ALTER TABLE orders OWNER TO shop_owner; ALTER TABLE customers " +
		"OWNER TO shop_owner; INSERT INTO orders VALUES (1)")
	blocks := page.Blocks(t, readme, "sql")
	if len(blocks) != 3 {
		t.Fatalf("the page has %d blocks of SQL, and three are known here", len(blocks))
	}
	// The third block publishes some columns, and some rows.
	w.exec("CREATE SCHEMA parts; CREATE TABLE parts.orders (id int, region text, PRIMARY KEY (id, region)); " +
		"CREATE TABLE parts.customers (id int PRIMARY KEY, country text, name text)")
	w.exec("SET search_path = parts; " + blocks[2])
	w.exec("DROP PUBLICATION conduitpub; DROP SCHEMA parts CASCADE")
	for i, role := range []string{"conduit", "reader"} {
		w.exec(blocks[i])
		if role == "reader" {
			w.exec("GRANT SELECT ON orders, customers TO reader")
		}
		s := w.open(w.settings("orders,customers", "url", strings.Replace(w.url(), "postgres@", role+"@", 1),
			"logrepl.slotName", role, "logrepl.publicationName", "conduitpub"), nil)
		s.Want(`snapshot orders {"id":1} to {"id":1}`)
		s.streaming()
		w.exec("INSERT INTO customers VALUES (7)")
		s.Want(`create customers {"id":7} to {"id":7}`)
		if got := w.query(pageQuery(t, `SELECT slot_name[^\x60]*`)); !regexp.MustCompile(`(?m)^` + role +
			`\|t\|\d+$`).MatchString(got) {
			t.Errorf("the query of slots shows %q", got)
		}
		s.Close()
		w.exec("DELETE FROM customers; DROP PUBLICATION conduitpub")
	}
	d, ctx := plugintest.OpenDestination(t, postgres.Connector(), "PIPELINE:CONNECTOR",
		map[string]string{"url": w.url(), "table": "orders", "positionTable": "conduit_positions"})
	if n, err := d.Write(ctx, []record.Record{plugintest.Row(1, record.OperationCreate, map[string]any{"id": 11},
		map[string]any{"id": 11})}); n != 1 || err != nil {
		t.Fatalf("wrote %d records: %v", n, err)
	}
	const kept = "SELECT count(*) > 0 FROM conduit_positions"
	if got := w.query(kept); got != "t" {
		t.Fatalf("there are positions: %s", got)
	}
	w.exec(pageQuery(t, `DELETE FROM conduit_positions[^\x60]*`))
	if got := w.query(kept); got != "f" {
		t.Errorf("there are positions still: %s", got)
	}
}

// pageQuery returns the statement on the page that matches the pattern.
func pageQuery(t *testing.T, pattern string) string {
	t.Helper()
	page, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).Find(page)
	if found == nil {
		t.Fatalf("the page has no %s", pattern)
	}
	return string(found)
}
