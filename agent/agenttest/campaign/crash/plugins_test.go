package crash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

func TestKillOfTheAgentEndsItsPlugins(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "xgenerator", "xfile")
	content := agenttest.Moving(dir, "p", "xgenerator", "xfile", 2000)
	if err := os.WriteFile(filepath.Join(dir, "pipelines", "p.yaml"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	p := process.Start(t, dir)
	defer p.Kill()
	p.WaitGrowth(t, filepath.Join(dir, "p.jsonl"))
	plugins := agenttest.Children(p.Cmd.Process.Pid)
	if len(plugins) != 2 {
		t.Fatalf("the agent has processes %v, want two", plugins)
	}
	p.Kill()
	began := time.Now()
	wait.For(t, fmt.Sprintf("the end of the plugins %v", plugins), func() bool {
		return !slices.ContainsFunc(plugins, agenttest.Alive)
	})
	t.Logf("the plugins were gone after %v", time.Since(began))
}
