package promises

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/script"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// Without an event the next rescan finds a saved file: rescans run every 15 seconds. A save right after the agent found
// the previous one has to wait for nearly that interval.
const (
	withoutEvent = 12 * time.Second
	saves        = 10
)

// TestSavesAreSeenByEvents checks that a saved file takes effect without a rescan. On a busy machine a save may take as
// long as a rescan, so one fast save of several is enough.
func TestSavesAreSeenByEvents(t *testing.T) {
	bin, dir := script.Binaries(t), t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	agent := exec.Command(filepath.Join(bin, "conduit"), "run")
	agent.Dir, agent.Stdout, agent.Stderr = dir, log, log
	agent.Env = append(os.Environ(), "CONDUIT_API_HTTP_ADDRESS=127.0.0.1:0")
	agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := os.Mkdir(filepath.Join(dir, "pipelines"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = agent.Process.Signal(syscall.SIGTERM)
		_ = agent.Wait()
	}()
	save := func(n int) (took time.Duration) {
		t.Helper()
		text := strings.Replace(bystander, "rate: 200", fmt.Sprintf("rate: %d", 200+n), 1)
		began := time.Now()
		if err := os.WriteFile(filepath.Join(dir, "pipelines/bystander.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		logged := func() []byte { text, _ := os.ReadFile(log.Name()); return text }
		wait.For(t, fmt.Sprintf("version %d", n), func() bool {
			return bytes.Contains(logged(), fmt.Appendf(nil, "pipeline_id=bystander generation=%d", n))
		}, func() string { return string(logged()) })
		return time.Since(began)
	}
	save(1)
	var took []time.Duration
	for n := range saves {
		took = append(took, save(n+2))
		if took[n] < withoutEvent {
			return
		}
	}
	t.Errorf("the saves took %v, as if only rescans found them", took)
}
