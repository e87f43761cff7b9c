package executables_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
)

// TestBuildWithoutClusters checks that a build without clusters contains no package of package cluster, and rejects
// cluster settings.
func TestBuildWithoutClusters(t *testing.T) {
	load.Parallel(t, load.CPU)
	membership := filepath.FromSlash("../../../cluster/member")
	for _, tag := range []string{"no_cluster", "minimal"} {
		out, err := goIn(t, membership, "list", "-deps", "-tags", tag, "github.com/conduit-agent/conduit/cmd/conduit")
		if err != nil {
			t.Fatalf("cannot list packages: %v\n%s", err, out)
		}
		if !strings.Contains(out, "/agent/cluster/member") || strings.Contains(out, "/agent/cluster/protocol") {
			t.Errorf("a build with -tags %s has:\n%s", tag, out)
		}
	}
	out, err := goIn(t, membership, "test", "-trimpath", "-ldflags=-w", "-tags", "no_cluster", "-run", "^TestNoCluster$",
		"-v", ".")
	if err != nil || !strings.Contains(out, "--- PASS: TestNoCluster") {
		t.Errorf("%v\n%s", err, out)
	}
}

// goIn runs the go command in a directory of the agent's module.
func goIn(t *testing.T, dir string, args ...string) (output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}
