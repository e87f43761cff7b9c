package cluster_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

var seeds = flag.Int("seeds", 10, "simulated histories of which the writes of claims are checked")

// TestSimulatedClaimsAreLinearizable runs simulated histories with all faults. It checks that the answers to the writes
// of claims are linearizable.
func TestSimulatedClaimsAreLinearizable(t *testing.T) {
	load.Parallel(t, load.CPU)
	path := filepath.Join(t.TempDir(), "history")
	cmd := exec.Command("go", "test", "-run", "^TestSimulation$", ".", "-args", "-seeds", fmt.Sprint(*seeds),
		"-history", path)
	cmd.Dir = filepath.FromSlash("../../../cluster/protocol")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the simulation: %v\n%s", err, out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	history, operations := &server.History{}, 0
	for line := range strings.Lines(string(text)) {
		var o server.Operation
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		history.Add(o)
		operations++
	}
	if operations < 100**seeds {
		t.Fatalf("there are only %d writes of claims in %d histories", operations, *seeds)
	}
	ok, verdict := history.Linearizable(t)
	if t.Log(verdict); !ok {
		t.Error("no order of the writes of the claims explains their answers")
	}
}
