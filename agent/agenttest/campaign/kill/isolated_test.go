package kill_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/spec"
)

// TestIsolatedDestination writes to an isolated destination that is slower than its source, and to a fast sibling. Most
// records wait in the log when the agent is killed. Both get every record in order.
func TestIsolatedDestination(t *testing.T) {
	load.Parallel(t, load.Agent)
	settings := func(path string) map[string]string {
		return map[string]string{"path": path, "sdk.record.format": "template", "sdk.record.format.options": asJSON}
	}
	var sibling string
	kill.RunDestination(t, kill.Destination{
		Plugin:  "builtin:file",
		Isolate: &spec.Isolation{Bytes: spec.DefaultIsolationBytes},
		Sibling: func(dir string) map[string]string {
			sibling = filepath.Join(dir, "sibling.jsonl")
			return settings(sibling)
		},
		Times: 5,
		System: func(_ *testing.T, dir string) *kill.System {
			path := filepath.Join(dir, "out.jsonl")
			return &kill.System{
				Settings: func(string) map[string]string {
					slow := settings(path)
					slow["sdk.rate.perSecond"] = "400"
					return slow
				},
				Stored: func(ctx context.Context) ([]int, error) { return rotatedNumbers(ctx, path) },
			}
		},
	})
	got, err := rotatedNumbers(t.Context(), sibling)
	if err != nil {
		t.Fatal(err)
	}
	seen, most := map[int]bool{}, 0
	for _, n := range got {
		if !seen[n] && n != most+1 {
			t.Errorf("the sibling got %d after %d", n, most)
		}
		seen[n] = true
		most = max(most, n)
	}
	if len(got) == 0 || len(seen) != most {
		t.Errorf("the sibling got %d of %d records", len(seen), most)
	}
}
