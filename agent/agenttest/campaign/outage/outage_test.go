// Package outage_test measures how often connectors try to reach systems that do not answer.
package outage_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/config"
)

var outage = flag.Duration("outage", 20*time.Second, "duration of the outage")

// perSecond is the maximum number of connections per second of a source whose system ends each at once, while the
// agent restarts failed pipelines after at most 200 ms. Some clients connect several times per attempt.
const perSecond = 100

// TestSourcesWithoutANetwork counts the connections of every source that talks to a server.
func TestSourcesWithoutANetwork(t *testing.T) {
	load.Parallel(t, load.Agent)
	a := agenttest.Start(t, "", func(c *config.Config) { c.Pipelines.ErrorRecovery.MaxDelay = 200 * time.Millisecond })
	attempts := map[string]func() int{}
	began := time.Now()
	for plugin, settings := range agenttest.UnreachableSources {
		address, count := agenttest.EndingAll(t)
		attempts[plugin] = count
		a.Save(plugin+".yaml", fmt.Sprintf(`version: "2.2"
pipelines:
  - id: %[1]s
    connectors:
      - {id: in, type: source, plugin: %[1]s, settings: {%[2]s}}
      - {id: out, type: destination, plugin: log}
`, plugin, fmt.Sprintf(settings, address)))
	}
	<-time.After(*outage)
	for plugin, count := range attempts {
		a.Wait(plugin+" to try again and again", func() bool { return count() >= 4 })
	}
	for plugin, count := range attempts {
		n, took := count(), time.Since(began)
		if most := perSecond * (1 + took.Seconds()); float64(n) > most {
			t.Errorf("%s connected %d times within %v, want at most %.0f", plugin, n, took, most)
		}
		t.Logf("%s connected %d times within %v", plugin, n, took)
	}
}
