package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

type statusBody struct {
	Owner      spec.Owner
	Generation int64
	Override   string
	State      spec.State
	Problems   []spec.Problem
}

func (w *web) status(id string) (s statusBody) {
	w.T.Helper()
	w.Must("GET", "/v1/pipelines/"+id+"/status", "", &s)
	return s
}

// Every write is a revision; a rollback takes effect like any other change.
func TestWritesAreRevisions(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	w.GenerateOverAPI("p")
	w.Must("PUT", "/v1/pipelines/p", `{"config":{"name":"p","description":"second"}}`, nil)
	const twiceTheRate = `{"config":{"settings":{"rate":"2000"}}}`
	if got := w.Do("PUT", "/v1/connectors/p:src", twiceTheRate); got.Status != http.StatusBadRequest {
		t.Errorf("change of a running pipeline: %d", got.Status)
	}
	w.Must("PUT", "/v1/connectors/p:src?live",
		`{"config":{"settings":{"rate":"2000","format.type":"structured","format.options.n":"int"}}}`, nil)
	running := func(generation int64) {
		t.Helper()
		if s := w.status("p"); s.Generation != generation {
			t.Errorf("generation %d is declared, want %d", s.Generation, generation)
		}
		w.WaitPhase("p", spec.PhaseRunning, generation)
		w.More(t, "p")
	}
	running(5)
	var history []spec.Revision
	w.Must("GET", "/v1/pipelines/p/history", "", &history)
	if len(history) != 6 {
		t.Fatalf("%d revisions for 6 writes: %+v", len(history), history)
	}
	for i, r := range history {
		if r.Origin != "api" || r.Spec == nil || i > 0 && r.Number <= history[i-1].Number {
			t.Errorf("revision %d: %+v", i, r)
		}
	}
	w.Must("POST", "/v1/pipelines/p/rollback?live", fmt.Sprintf(`{"revision":%d}`, history[3].Number), nil)
	running(6)
	var source struct {
		Config struct{ Settings map[string]string }
	}
	w.Must("GET", "/v1/connectors/p:src", "", &source)
	if source.Config.Settings["rate"] != "1000" {
		t.Errorf("settings %v after going back", source.Config.Settings)
	}
	w.Stop()
	agenttest.WantConsecutive(t, agenttest.Numbers(t, w.Path("p.jsonl")))
}

func TestFilesWin(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 1000, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	for _, c := range []struct{ method, path, body string }{
		{"PUT", "/v1/pipelines/p", `{"config":{"name":"p"}}`},
		{"DELETE", "/v1/pipelines/p", ""},
		{"PUT", "/v1/pipelines/p/dead-letter-queue", `{"plugin":"builtin:log"}`},
		{"PUT", "/v1/connectors/p:src", `{"config":{}}`},
		{"PUT", "/v1/connectors/p:src?live", `{"config":{}}`},
		{"DELETE", "/v1/connectors/p:src", ""},
		{"POST", "/v1/connectors", `{"type":"TYPE_SOURCE","plugin":"generator","pipelineId":"p"}`},
		{"POST", "/v1/processors", `{"plugin":"field.set","parent":{"type":"TYPE_PIPELINE","id":"p"}}`},
		{"POST", "/v1/pipelines/p/rollback", `{"revision":1}`},
		{"POST", "/v1/pipelines/import", `{"version":"2.2","pipelines":[{"id":"p","status":"stopped"}]}`},
	} {
		got := w.Do(c.method, c.path, c.body)
		if got.Status != http.StatusConflict || !strings.Contains(got.Body, `"file":"p.yaml"`) ||
			!strings.Contains(got.Body, `"line":"3"`) {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.Status, got.Body)
		}
	}
	if s := w.State("p"); s.Phase != spec.PhaseRunning || s.RunningGeneration != 1 {
		t.Errorf("the pipeline is now %+v", s)
	}
}

// A pipeline of a file can be stopped and started over the API until the file changes.
func TestOverridesLastUntilTheFileChanges(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 1000, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	w.Must("POST", "/v1/pipelines/p/stop", "", nil)
	if s := w.status("p"); s.Override != "stopped" || s.State.Phase != spec.PhaseStopped {
		t.Errorf("stopped: %+v", s)
	}
	w.Must("POST", "/v1/pipelines/p/start", "", nil)
	if s := w.status("p"); s.Override != "" || s.State.Phase != spec.PhaseRunning {
		t.Errorf("started again: %+v", s)
	}
	w.Must("POST", "/v1/pipelines/p/stop", "", nil)
	w.Save("p.yaml", "# nothing new\n"+agenttest.Generated(w.Dir, "p", 1000, ""))
	w.Stop()
	v := startWeb(t, w.Dir)
	v.Wait("the override to be known again", func() bool { return v.State("p").Phase == spec.PhaseStopped })
	if s := v.status("p"); s.Override != "stopped" {
		t.Errorf("after a restart: %+v", s)
	}
	v.Save("p.yaml", agenttest.Generated(w.Dir, "p", 2000, ""))
	v.WaitPhase("p", spec.PhaseRunning, 0)
	if s := v.status("p"); s.Override != "" {
		t.Errorf("after the file changed: %+v", s)
	}
	v.Must("POST", "/v1/pipelines/p/stop", "", nil)
	v.Save("p.yaml", agenttest.Generated(w.Dir, "p", 2000, "name: nothing that runs"))
	v.WaitPhase("p", spec.PhaseRunning, 0)
	if s := v.status("p"); s.Override != "" {
		t.Errorf("after the name changed: %+v", s)
	}
	v.Stop()
	agenttest.WantConsecutive(t, agenttest.Numbers(t, v.Path("p.jsonl")))
}

// The ownership of a pipeline changes in both directions while it runs.
func TestOwnershipMovesBothWays(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "", func(c *config.Config) { c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 0, 0 })
	w.GenerateOverAPI("p")
	w.More(t, "p")
	since := w.State("p").Since
	if got := w.Do("POST", "/v1/pipelines/p/adopt", "{}"); got.Status != http.StatusBadRequest ||
		!strings.Contains(got.Body, "export") {
		t.Errorf("adopting without a file: %d %s", got.Status, got.Body)
	}
	file := w.Do("POST", "/v1/pipelines/p/export", "")
	if file.Status != http.StatusOK || file.Header.Get("Content-Type") != "application/yaml" {
		t.Fatalf("export: %d %v", file.Status, file.Header)
	}
	w.Save("p.yaml", file.Body)
	w.Wait("the problem that the API owns it", func() bool { return w.problem("p.yaml") != "" })
	if p := w.problem("p.yaml"); !strings.Contains(p, "adopt") {
		t.Errorf("problem of the file: %s", p)
	}
	if s := w.status("p"); s.Owner.Kind != spec.OwnerAPI || len(s.Problems) != 1 {
		t.Errorf("status with a file that declares it, too: %+v", s)
	}
	w.Must("POST", "/v1/pipelines/p/adopt", "{}", nil)
	w.Wait("the file to own it", func() bool {
		s := w.status("p")
		return s.Owner.Path == "p.yaml" && s.Owner.Line > 0 && len(s.Problems) == 0
	})
	if got := w.Do("PUT", "/v1/pipelines/p", `{"config":{"name":"p"}}`); got.Status != http.StatusConflict {
		t.Errorf("change of what is adopted: %d %s", got.Status, got.Body)
	}
	if s := w.State("p"); !s.Since.Equal(since) || s.Phase != spec.PhaseRunning {
		t.Errorf("adopting restarted it: %+v", s)
	}

	// And back while the file still exists; from then on the file changes nothing.
	w.Must("POST", "/v1/pipelines/p/adopt", `{"owner":"api"}`, nil)
	w.Wait("the problem that the API owns it", func() bool { return w.problem("p.yaml") != "" })
	w.Must("PUT", "/v1/pipelines/p", `{"config":{"name":"p","description":"by the API"}}`, nil)
	w.Must("PUT", "/v1/pipelines/p", `{"config":{"name":"p"}}`, nil)
	if err := os.Remove(w.Path("pipelines/p.yaml")); err != nil {
		t.Fatal(err)
	}
	w.Wait("the file to be forgotten", func() bool {
		files, err := w.Store.FileStates(t.Context())
		return err == nil && len(files) == 0
	})
	if s := w.State("p"); !s.Since.Equal(since) || s.Phase != spec.PhaseRunning {
		t.Errorf("handing it back restarted it: %+v", s)
	}
	if got := w.Do("POST", "/v1/pipelines/p/adopt", `{"owner":"api"}`); got.Status != http.StatusBadRequest {
		t.Errorf("handing over what the API has: %d %s", got.Status, got.Body)
	}
	if got := w.Do("POST", "/v1/pipelines/p/adopt", `{"owner":"unknown"}`); got.Status != http.StatusBadRequest {
		t.Errorf("handing over to an unknown owner: %d %s", got.Status, got.Body)
	}
	back := w.Do("POST", "/v1/pipelines/p/export", "").Body
	if back != file.Body {
		t.Errorf("exported before\n%s\nafter\n%s", file.Body, back)
	}
	w.More(t, "p")
	w.Stop()
	agenttest.WantConsecutive(t, agenttest.Numbers(t, w.Path("p.jsonl")))
}

// A pipeline stopped over the API stays stopped when the API takes it over, and can be started.
func TestOverridesMoveToTheAPI(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 1000, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	w.Must("POST", "/v1/pipelines/p/stop", "", nil)
	w.Must("POST", "/v1/pipelines/p/adopt", `{"owner":"api"}`, nil)
	if s := w.status("p"); s.State.Phase != spec.PhaseStopped || s.Override != "" {
		t.Errorf("taken over: %+v", s)
	}
	w.Must("POST", "/v1/pipelines/p/start", "", nil)
	w.More(t, "p")
}

// problem returns the first problem of a file.
func (w *web) problem(path string) string {
	files, err := w.Store.FileStates(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	for _, f := range files {
		if f.Path == path && len(f.Problems) > 0 {
			return f.Problems[0].Message
		}
	}
	return ""
}

// An exported pipeline can be imported as YAML, by the same agent and by others.
func TestImportOfAnExport(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	w.GenerateOverAPI("p")
	w.More(t, "p")
	since := w.State("p").Since
	file := w.Do("POST", "/v1/pipelines/p/export", "").Body
	got := w.Do("POST", "/v1/pipelines/import", file, "Content-Type", "application/yaml")
	if got.Status != http.StatusOK || !w.State("p").Since.Equal(since) {
		t.Errorf("import of what is there: %d %s, state %+v", got.Status, got.Body, w.State("p"))
	}
	other := startWeb(t, "")
	file = strings.ReplaceAll(file, w.Dir, other.Dir)
	got = other.Do("POST", "/v1/pipelines/import", file, "Content-Type", "application/yaml")
	if got.Status != http.StatusOK {
		t.Fatalf("import: %d %s", got.Status, got.Body)
	}
	other.WaitPhase("p", spec.PhaseRunning, 0)
	other.More(t, "p")
	if again := other.Do("POST", "/v1/pipelines/p/export", "").Body; again != file {
		t.Errorf("exported\n%s\nimported and exported\n%s", file, again)
	}
	if _, err := os.Stat(other.Path("pipelines/p.yaml")); err == nil {
		t.Error("importing wrote a file")
	}
}
