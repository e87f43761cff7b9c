package cluster_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestRelaxedWithoutNATS edits one relaxed pipeline, stops another, and removes the file of a third, while NATS is
// unreachable.
func TestRelaxedWithoutNATS(t *testing.T) {
	load.Parallel(t, load.Server+load.Agent)
	proxy := network.NewProxy(t, server.StartNATS(t, 1)[0].Addr)
	f := joined(t, []string{"nats://" + proxy.Addr()}, 0, 5*time.Second, func(c *config.Config) {
		c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 0, 0
	})
	const edited, stopped, removed = 0, 1, 2
	f.written, f.terms = make([]int, 3), map[int]string{}
	for i := range f.written {
		f.terms[i] = "cluster: relaxed"
		f.declare(i)
	}
	m := f.members[0]
	f.feed(10)
	f.await()
	proxy.Hold(true)
	m.awaitLog("reason=Disconnected")
	f.feed(10)
	f.await()
	file := filepath.Join(f.dir, "pipelines", fmt.Sprintf("p%d.yaml", edited))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), `printf "%s"`, `printf "0%s"`)),
		0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(f.dir, "pipelines", fmt.Sprintf("p%d.yaml", removed))); err != nil {
		t.Fatal(err)
	}
	if status, answer := m.request("POST", fmt.Sprintf("/v1/pipelines/p%d/stop", stopped),
		""); status != http.StatusServiceUnavailable {
		t.Errorf("a stop that the other members cannot learn of is answered with %d %s", status, answer)
	}
	phase := func(i int) spec.Phase {
		return decoded[rest.PipelineStatus](m, "GET", fmt.Sprintf("/v1/pipelines/p%d/status", i)).State.Phase
	}
	wait.For(t, "the other version to wait for NATS", func() bool { return phase(edited) == spec.PhaseStarting })
	wait.For(t, "the pipeline without a file to be gone", func() bool {
		status, _ := m.request("GET", fmt.Sprintf("/v1/pipelines/p%d/status", removed), "")
		return status == http.StatusNotFound
	})
	f.feed(10)
	f.awaitOf(stopped) // it continues
	for _, i := range []int{edited, removed} {
		if n, _ := f.arrived(i); n == f.written[i] {
			t.Errorf("p%d writes without NATS after its file was changed", i)
		}
	}
	proxy.Heal()
	f.awaitOf(edited)
	if text, err := os.ReadFile(f.out(edited)); err != nil || !strings.HasSuffix(string(text), "\n030\n") {
		t.Errorf("the other version does not run: %v\n%s", err, text)
	}
}
