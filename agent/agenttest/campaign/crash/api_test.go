package crash_test

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
	"github.com/conduit-agent/conduit/spec"
)

// TestWritesSurviveAKill checks that writes that the API confirmed survive kill -9, and that their pipelines resume.
func TestWritesSurviveAKill(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	p := process.Start(t, dir, process.AddressFile+"="+filepath.Join(dir, "address"))
	defer p.Kill()
	w := &agenttest.Web{Agent: &agenttest.Agent{Dir: dir}, T: t, API: process.Client(t, filepath.Join(dir, "address"))}
	w.GenerateOverAPI("p")
	p.WaitGrowth(t, filepath.Join(dir, "p.jsonl"))
	w.Must("PUT", "/v1/pipelines/p", `{"config":{"name":"p","description":"the last word"}}`, nil)
	create := func(w *agenttest.Web) *agenttest.Answer {
		return w.Do("POST", "/v1/pipelines", `{"config":{"name":"once"}}`, "Idempotency-Key", "k")
	}
	created := create(w)
	p.Kill()

	b := agenttest.StartWeb(t, dir)
	if again := create(b); created.Status != http.StatusOK || again.Body != created.Body ||
		again.Header.Get("Etag") != created.Header.Get("Etag") {
		t.Errorf("repeated with the same key: %d %s, first %d %s", again.Status, again.Body, created.Status,
			created.Body)
	}
	b.WaitPhase("p", spec.PhaseRunning, 0)
	b.More(t, "p")
	var got struct{ Config struct{ Description string } }
	b.Must("GET", "/v1/pipelines/p", "", &got)
	if got.Config.Description != "the last word" {
		t.Errorf("description %q", got.Config.Description)
	}
	var history []spec.Revision
	b.Must("GET", "/v1/pipelines/p/history", "", &history)
	if len(history) != 5 {
		t.Errorf("%d revisions for 5 writes", len(history))
	}
	b.Stop()
	last := 0
	for _, n := range agenttest.Numbers(t, b.Path("p.jsonl")) {
		if n > last+1 {
			t.Fatalf("%d follows %d", n, last)
		}
		last = n
	}
}
