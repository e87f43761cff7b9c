package kill_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
)

func list(t *testing.T, args ...string) string {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestExecSource runs a command that prints the same lines each time.
func TestExecSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:exec",
		System: func(t *testing.T, dir string) *kill.System {
			path := filepath.Join(dir, "ledger")
			return &kill.System{
				Settings: func(string) map[string]string {
					return map[string]string{"command": list(t, "tail", "-n", "+1", "-s", "0.01", "-F", path),
						"resume": "skip", "format": "json"}
				},
				Produce: func(_ context.Context, first, n int) error { return appendNumbers(path, first, n) },
			}
		},
	})
}

// TestExecDestination runs a command that confirms each line once it is in a file.
func TestExecDestination(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:exec",
		System: func(t *testing.T, dir string) *kill.System {
			path := filepath.Join(dir, "out")
			return &kill.System{
				Settings: func(string) map[string]string {
					return map[string]string{"command": list(t, "sh", "-c",
						`while read -r n; do echo "$$n" >>"$$1"; echo ok; done`, "sh", path), "confirm": "true",
						"sdk.record.format": "template", "sdk.record.format.options": "{{ .Payload.After.n }}"}
				},
				Stored: func(context.Context) ([]int, error) { return numbersIn(path) },
			}
		},
	})
}
