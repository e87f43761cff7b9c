package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

// TestClusterStatusCountsDeadLetters shows dead letters in the store of the cluster as a number, and dead letters on
// disks with their members.
func TestClusterStatusCountsDeadLetters(t *testing.T) {
	c := spec.Cluster{Name: "edge", Member: "m1", State: spec.MembershipJoined, Pipelines: []spec.ClusterPipeline{
		{ID: "both", SharedDeadLetters: 12, DeadLetters: []spec.MemberDeadLetters{{Member: "m2", Count: 3}}},
		{ID: "disks", DeadLetters: []spec.MemberDeadLetters{{Member: "m1", Count: 1}, {Member: "m2", Count: 2}}},
		{ID: "none"},
		{ID: "store", SharedDeadLetters: 4},
	}}
	shown := clusterStatus(t, &c)
	var last []string
	for line := range strings.Lines(shown) {
		fields := strings.Fields(line)
		last = append(last, fields[len(fields)-1])
	}
	if got, want := strings.Join(last, " "), "LETTERS 12,m2=3 m1=1,m2=2 - 4"; got != want {
		t.Errorf("the last column is %s, want %s; of\n%s", got, want, shown)
	}
}

// TestClusterStatusSaysHeld shows that a pipeline writes nothing until its position is in the claim.
func TestClusterStatusSaysHeld(t *testing.T) {
	shown := clusterStatus(t, &spec.Cluster{Name: "edge", Member: "m1", State: spec.MembershipJoined,
		Pipelines: []spec.ClusterPipeline{
			{ID: "held", LagSeconds: 1.5, Held: true}, {ID: "late", LagSeconds: 1.5},
		}})
	if n := strings.Count(shown, "1.5s"); n != 2 || strings.Count(shown, "1.5s, held") != 1 {
		t.Errorf("one of two pipelines is held, not as in\n%s", shown)
	}
}

// clusterStatus returns the output of the command.
func clusterStatus(t *testing.T, c *spec.Cluster) string {
	t.Helper()
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(c)
	}))
	defer agent.Close()
	var stdout, stderr bytes.Buffer
	p := &Program{Stdout: &stdout, Stderr: &stderr}
	if code := Run(t.Context(), p, []string{"cluster", "status", "--api.address", agent.URL}); code != ExitOK {
		t.Fatalf("ended with %d: %s", code, &stderr)
	}
	return stdout.String()
}
