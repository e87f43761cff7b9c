package cluster_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestDeletedPipeline removes the file of a pipeline from the directory that the members share: the cluster and each
// member delete its state. When the file returns, the pipeline starts from the beginning.
func TestDeletedPipeline(t *testing.T) {
	t.Parallel()
	eachStore(t, 2, testDeletedPipeline)
}

func testDeletedPipeline(t *testing.T, urls string) {
	f := joined(t, []string{urls, urls}, 2, 5*time.Second, func(c *config.Config) {
		c.Cluster.Keep, c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = time.Second, 0, 0
	})
	f.feed(10)
	f.await()
	file := filepath.Join(f.dir, "pipelines", "p0.yaml")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for _, m := range f.members {
		m.awaitCluster("only the other pipeline is left", func(c *spec.Cluster) bool {
			return len(c.Pipelines) == 1 && c.Pipelines[0].ID == "p1"
		})
		wait.For(t, m.name+" to forget the pipeline", func() bool {
			status, _ := m.request("GET", "/v1/pipelines/p0/status", "")
			return status == http.StatusNotFound
		})
	}
	if err := os.Remove(f.out(0)); err != nil {
		t.Fatal(err)
	}
	f.written[0] = 0
	f.declare(0)
	f.feed(5) // fewer than before: the old position would be behind them
	f.await()
}

// TestDeletedSource removes the file of a pipeline whose source has a replication slot, while the owner of the pipeline
// is dead: another member drops the slot, once.
func TestDeletedSource(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent)
	p := server.StartPostgres(t, "", "fsync=on")
	url := postgresURL(p.Addr)
	f := joined(t, []string{url, url}, 1, 5*time.Second, func(c *config.Config) {
		c.Cluster.Keep, c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = time.Second, 0, 0
	})
	withPostgres(t, url, "CREATE TABLE shop (id int PRIMARY KEY); INSERT INTO shop VALUES (1)", "")
	file := filepath.Join(f.dir, "pipelines", "shop.yaml")
	yaml := fmt.Sprintf(`version: "2.2"
pipelines:
  - id: shop
    status: running
    connectors:
      - {id: in, type: source, plugin: "builtin:postgres", settings: {url: %q, tables: shop}}
      - {id: out, type: destination, plugin: "builtin:file", settings: {path: %q}}
`, url, f.out(0))
	if err := os.WriteFile(file, []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the row to arrive", func() bool { text, _ := os.ReadFile(f.out(0)); return len(text) > 0 })
	const slots = "SELECT count(*) FROM pg_replication_slots"
	query := func(sql string) string { return withPostgres(t, url, "", sql) }
	if n := query(slots); n != "1" {
		t.Fatalf("there are %s slots", n)
	}
	at := slices.IndexFunc(f.members, func(m *member) bool {
		return strings.Contains(m.log.String(), "reason=Claimed pipeline_id=shop")
	})
	dead, other := f.members[at], f.members[1-at]
	dead.kill()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	other.awaitLog("reason=Deleted")
	if n := query(slots); n != "0" {
		t.Errorf("the pipeline is deleted from the cluster, and there are %s slots", n)
	}
	dead.start()
	dead.awaitLog("reason=Joined")
	for _, m := range f.members {
		wait.For(t, m.name+" to forget the pipeline", func() bool {
			status, _ := m.request("GET", "/v1/pipelines/shop/status", "")
			return status == http.StatusNotFound
		})
	}
	if n := strings.Count(dead.log.String()+other.log.String(), "reason=Retiring"); n != 1 {
		t.Errorf("%d members cleaned up", n)
	}
}
