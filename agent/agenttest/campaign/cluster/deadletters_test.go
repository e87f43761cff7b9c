package cluster_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestLargeDeadLetters moves a pipeline away from a member with dead letters that are too large for the store of the
// cluster: the other members list them, and that member replays them.
func TestLargeDeadLetters(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent)
	dir := t.TempDir()
	file, in := filepath.Join(dir, "pipelines.yaml"), filepath.Join(dir, "in")
	var lines strings.Builder
	for range 5 {
		large := make([]byte, 900<<10)
		_, _ = rand.Read(large) // incompressible
		fmt.Fprintln(&lines, base64.StdEncoding.EncodeToString(large))
	}
	if err := os.WriteFile(in, []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	declare := func(site string) {
		yaml := fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    status: running
    placement: {labels: {site: %s}}
    dead-letter-queue: {window-size: 0}
    connectors:
      - {id: in, type: source, plugin: "builtin:file", settings: {path: %q}}
      - {id: out, type: destination, plugin: builtin:log, settings: {level: debug}}
    processors:
      - {id: refuse, plugin: error}
`, site, in)
		if err := os.WriteFile(file, []byte(yaml), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	declare("a")
	a, b := labelled(t, file, server.StartNATS(t, 1)[0].URL())
	b.awaitLog("reason=Declared")
	const path = "/v1/pipelines/p/dead-letters"
	elsewhere := func(m *member) (all []spec.MemberDeadLetters) {
		return decoded[spec.DeadLetterPage](m, "GET", path).Elsewhere
	}
	wait.For(t, "b to know of the dead letters of a", func() bool {
		all := elsewhere(b)
		return len(all) == 1 && all[0].Member == "a" && all[0].Count == 5 && all[0].Address != ""
	})
	declare("b")
	b.awaitLog("reason=Claimed")
	if status, answer := b.request("POST", "/v1/pipelines/p/dead-letter-replay", `{"all":true}`); status == 200 ||
		!strings.Contains(answer, "a at "+elsewhere(b)[0].Address+" has 5") {
		t.Errorf("b replays dead letters that a has, or does not say where they are: %d %s", status, answer)
	}
	if status, answer := b.request("GET", path+"/1", ""); status != 404 ||
		!strings.Contains(answer, "a at "+elsewhere(b)[0].Address+" has 5") {
		t.Errorf("b does not say who has a dead letter: %d %s", status, answer)
	}
	b.awaitCluster("a has five dead letters", func(c *spec.Cluster) bool {
		if len(c.Pipelines) != 1 {
			return false
		}
		p := c.Pipelines[0].DeadLetters
		return len(p) == 1 && p[0].Member == "a" && p[0].Count == 5 && c.Pipelines[0].SharedDeadLetters == 0 &&
			c.Pipelines[0].Member == "b"
	})
	a.awaitCluster("b claimed the pipeline that a released", func(c *spec.Cluster) bool {
		return len(c.Pipelines) == 1 && c.Pipelines[0].Member == "b" && c.Pipelines[0].Reason == "Claimed"
	})
	a.send("POST", "/v1/pipelines/p/dead-letter-replay", `{"all":true}`)
	wait.For(t, "a to replay them", func() bool {
		return strings.Contains(a.call("GET", "/v1/pipelines/p/dead-letter-replay"), `"refused":5`)
	})
	a.call("DELETE", path+"?all=true")
	wait.For(t, "b to know that there are none any more", func() bool { return len(elsewhere(b)) == 0 })
}
