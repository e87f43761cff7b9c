package reload_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/spec"
)

// The destination of a busy pipeline repeatedly changes its output: the source stays open, and nothing is lost,
// repeated or out of order.
func TestDestinationChangesUnderLoad(t *testing.T) {
	load.Parallel(t, load.Agent)
	d := agenttest.DeskIn(t, "")
	names := []string{"one.jsonl", "two.jsonl"}
	version := func(i int) agenttest.Variant {
		return agenttest.Variant{Settings: fmt.Sprintf("path: %q, sdk.record.format: opencdc/json", d.Path(names[i%2]))}
	}
	d.Become(version(0), 20000)
	for i := 1; i <= *changes; i++ {
		d.Become(version(i), 20000)
		if i%20 == 0 {
			d.WaitGrowth(names[i%2])
		}
	}
	for plugin, want := range map[string]float64{"builtin:generator": 1, "builtin:file": float64(1 + *changes)} {
		if n := agenttest.Scrape(t, d.Agent, fmt.Sprintf("conduit_plugin_starts_total{plugin=%q}", plugin)); n != want {
			t.Errorf("%s was started %v times, want %v", plugin, n, want)
		}
	}
	d.WantStarts("p", 1)
	d.Stop()
	one, two := agenttest.Numbers(t, d.Path("one.jsonl")), agenttest.Numbers(t, d.Path("two.jsonl"))
	agenttest.WantAll(t, one, two)
	t.Logf("%d records", len(one)+len(two))
}

// However often a pipeline changes under load, with its source or without: no record is lost, and none is repeated.
func TestReloadsUnderLoad(t *testing.T) {
	load.Parallel(t, load.Agent)
	for name, batches := range map[string]string{"record by record": "",
		"in batches": ", sdk.batch.size: 1000, sdk.batch.delay: 20ms"} {
		t.Run(name, func(t *testing.T) {
			a := agenttest.Start(t, "")
			version := func(n int) string {
				rate := 20_000 + n/2%2                       // the source changes, which restarts the pipeline,
				out := a.Path([]string{"a", "b"}[(n+1)/2%2]) // and so does, in between, the destination
				return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    connectors:
      - id: src
        type: source
        plugin: builtin:generator
        settings: {rate: %d, format.type: structured, format.options.n: int}
      - {id: dst, type: destination, plugin: "builtin:file", settings: {path: %q%s}}
`, rate, out, batches)
			}
			var took []time.Duration
			for n := range *reloads {
				began := time.Now()
				a.Save("p.yaml", version(n))
				a.WaitPhase("p", spec.PhaseRunning, int64(n+1))
				took = append(took, time.Since(began))
			}
			a.Stop()
			one, other := agenttest.Numbers(t, a.Path("a")), agenttest.Numbers(t, a.Path("b"))
			if !slices.IsSorted(one) || !slices.IsSorted(other) {
				t.Error("records came out of order")
			}
			all := slices.Concat(one, other)
			slices.Sort(all)
			agenttest.WantConsecutive(t, all)
			slices.Sort(took)
			t.Logf("%d reloads, %d records, none lost, none twice; a reload took %v in the median, %v at most",
				*reloads,
				len(all), took[len(took)/2], took[len(took)-1])
		})
	}
}
