package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/spec"
)

// However often a pipeline changes under load, with its source or without: no record is
// lost, and none comes twice. CONDUIT_RELOADS sets how often.
func TestReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	reloads := 20
	if effort.Brief() {
		reloads = 8
	}
	reloads = setting(t, "CONDUIT_RELOADS", reloads)
	for name, batches := range map[string]string{"record by record": "", "in batches": ", sdk.batch.size: 1000, sdk.batch.delay: 20ms"} {
		t.Run(name, func(t *testing.T) {
			a := agenttest.Start(t, "")
			version := func(n int) string {
				rate := 20_000 + n/2%2                       // the source changes, which restarts the pipeline,
				out := a.Path([]string{"a", "b"}[(n+1)/2%2]) // and so does, in between, the destination
				return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: src, type: source, plugin: "builtin:generator", settings: {rate: %d, format.type: structured, format.options.n: int}}
      - {id: dst, type: destination, plugin: "builtin:file", settings: {path: %q%s}}
`, rate, out, batches)
			}
			var took []time.Duration
			for n := range reloads {
				began := time.Now()
				a.Save("p.yaml", version(n))
				a.WaitPhase("p", spec.PhaseRunning, int64(n+1))
				took = append(took, time.Since(began))
			}
			a.Stop()
			one, other := numbers(t, a.Path("a")), numbers(t, a.Path("b"))
			if !slices.IsSorted(one) || !slices.IsSorted(other) {
				t.Error("records came out of order")
			}
			all := slices.Concat(one, other)
			slices.Sort(all)
			wantConsecutive(t, all)
			slices.Sort(took)
			t.Logf("%d reloads, %d records, none lost, none twice; a reload took %v in the median, %v at most", reloads, len(all), took[len(took)/2], took[len(took)-1])
		})
	}
}
