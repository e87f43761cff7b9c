package crash_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
)

// However an agent ends, it and its plugins leave nothing in the directory for temporary files. Leftovers next to the
// store are removed when the next agent starts, and when it ends.
func TestKilledAgentsLeaveNoTemporaryFiles(t *testing.T) {
	load.Parallel(t, load.Agent)
	for name, long := range map[string]bool{"next to the store": false, "with a path too long for sockets": true} {
		t.Run(name, func(t *testing.T) {
			root, err := os.MkdirTemp("/dev/shm", "left") // short enough for sockets, and outside $TMPDIR
			if err != nil {
				t.Fatalf("no directory with a short name: %v", err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(root) })
			dir, tmp := filepath.Join(root, "agent"), filepath.Join(root, "tmp")
			if long {
				dir = filepath.Join(root, strings.Repeat("long", 20))
			}
			for _, d := range []string{dir, tmp, filepath.Join(dir, "pipelines")} {
				if err := os.MkdirAll(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			agenttest.InstallExecutables(t, dir, "xgenerator", "xfile")
			content := agenttest.Moving(dir, "p", "xgenerator", "xfile", 2000)
			if err := os.WriteFile(filepath.Join(dir, "pipelines", "p.yaml"), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, signal := range []os.Signal{syscall.SIGKILL, syscall.SIGQUIT} {
				p := process.Start(t, dir, "TMPDIR="+tmp)
				p.WaitGrowth(t, filepath.Join(dir, "p.jsonl"))
				if _, err := os.Stat(filepath.Join(dir, "conduit.db.run")); (err == nil) == long {
					t.Errorf("the directory next to the store: %v", err)
				}
				_ = p.Cmd.Process.Signal(signal)
				_ = p.Cmd.Wait()
				wantEmpty(t, tmp, signal.String())
			}
			a := agenttest.Start(t, dir)
			a.Stop()
			if _, err := os.Stat(filepath.Join(dir, "conduit.db.run")); err == nil {
				t.Error("the directory next to the store outlives the agent")
			}
		})
	}
}

func wantEmpty(t *testing.T, dir, after string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		t.Errorf("after %s %s is left", after, entry.Name())
	}
}
