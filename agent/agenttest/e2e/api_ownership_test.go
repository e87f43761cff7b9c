package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// movedOverAPI makes pipeline id of generated records over the API, and starts it.
func (w *web) movedOverAPI(id string) {
	w.t.Helper()
	w.must("POST", "/v1/pipelines", fmt.Sprintf(`{"id":%[1]q,"config":{"name":%[1]q}}`, id), nil)
	w.must("POST", "/v1/connectors", fmt.Sprintf(`{"id":"src","type":"TYPE_SOURCE","plugin":"builtin:generator","pipelineId":%q,
		"config":{"settings":{"rate":"1000","format.type":"structured","format.options.n":"int"}}}`, id), nil)
	w.must("POST", "/v1/connectors", fmt.Sprintf(`{"id":"dst","type":"TYPE_DESTINATION","plugin":"builtin:file","pipelineId":%q,
		"config":{"settings":{"path":"%s/%s.jsonl"}}}`, id, w.Dir, id), nil)
	w.must("POST", "/v1/pipelines/"+id+"/start", "", nil)
}

// more waits for more records of the pipeline.
func (w *web) more(t *testing.T, id string) {
	t.Helper()
	before := len(numbers(t, w.Path(id+".jsonl")))
	w.Wait("more records of "+id, func() bool { return len(numbers(t, w.Path(id+".jsonl"))) > before })
}

type statusBody struct {
	Owner      spec.Owner
	Generation int64
	Override   string
	State      spec.State
	Problems   []spec.Problem
}

func (w *web) status(id string) (s statusBody) {
	w.t.Helper()
	w.must("GET", "/v1/pipelines/"+id+"/status", "", &s)
	return s
}

// Every write is a revision; going back to one takes effect like any other change.
func TestWritesAreRevisions(t *testing.T) {
	w := startWeb(t, "")
	w.movedOverAPI("p")
	w.must("PUT", "/v1/pipelines/p", `{"config":{"name":"p","description":"second"}}`, nil)
	if got := w.do("PUT", "/v1/connectors/p:src", `{"config":{"settings":{"rate":"2000"}}}`); got.status != http.StatusBadRequest {
		t.Errorf("change of a running pipeline: %d", got.status)
	}
	w.must("PUT", "/v1/connectors/p:src?live", `{"config":{"settings":{"rate":"2000","format.type":"structured","format.options.n":"int"}}}`, nil)
	running := func(generation int64) {
		t.Helper()
		if s := w.status("p"); s.Generation != generation {
			t.Errorf("generation %d is declared, want %d", s.Generation, generation)
		}
		w.WaitPhase("p", spec.PhaseRunning, generation)
		w.more(t, "p")
	}
	running(5)
	var history []spec.Revision
	w.must("GET", "/v1/pipelines/p/history", "", &history)
	if len(history) != 6 {
		t.Fatalf("%d revisions for 6 writes: %+v", len(history), history)
	}
	for i, r := range history {
		if r.Origin != "api" || r.Spec == nil || i > 0 && r.Number <= history[i-1].Number {
			t.Errorf("revision %d: %+v", i, r)
		}
	}
	w.must("POST", "/v1/pipelines/p/rollback?live", fmt.Sprintf(`{"revision":%d}`, history[3].Number), nil)
	running(6)
	var source struct {
		Config struct{ Settings map[string]string }
	}
	w.must("GET", "/v1/connectors/p:src", "", &source)
	if source.Config.Settings["rate"] != "1000" {
		t.Errorf("settings %v after going back", source.Config.Settings)
	}
	w.Stop()
	wantConsecutive(t, numbers(t, w.Path("p.jsonl")))
}

// A stop that is forced does not wait for a destination that never answers, be it at once
// or after waiting in vain. Nothing is lost.
func TestForcedStop(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	dir := agenttest.NewDir(t)
	install(t, dir, "chaos")
	w := startWeb(t, dir, func(c *config.Config) { c.Pipelines.DrainTimeout = time.Hour })
	stuck := func() {
		t.Helper()
		w.Wait("records that are not answered", func() bool {
			return scrape(t, w.Agent, `conduit_source_sequence{component_id="p:src",pipeline_id="p",pipeline_name="p",stage="read"}`) > 20
		})
	}
	w.must("POST", "/v1/pipelines", `{"id":"p","config":{"name":"p"}}`, nil)
	w.must("POST", "/v1/connectors", `{"id":"src","type":"TYPE_SOURCE","plugin":"builtin:generator","pipelineId":"p",
		"config":{"settings":{"rate":"1000","format.type":"structured","format.options.n":"int"}}}`, nil)
	w.must("POST", "/v1/connectors", `{"id":"dst","type":"TYPE_DESTINATION","plugin":"chaos","pipelineId":"p","config":{"settings":{"mode":"hang"}}}`, nil)
	w.must("POST", "/v1/pipelines/p/start", "", nil)
	stuck()
	began := time.Now()
	w.must("POST", "/v1/pipelines/p/stop", `{"force":true}`, nil)
	w.must("POST", "/v1/pipelines/p/start", "", nil)
	stuck()
	if got := w.do("POST", "/v1/pipelines/p/stop?wait=100ms", ""); got.status != http.StatusGatewayTimeout {
		t.Errorf("a stop in vain: %d %s", got.status, got.body)
	}
	w.must("POST", "/v1/pipelines/p/stop", `{"force":true}`, nil)
	if took := time.Since(began); took > wait.Limit {
		t.Errorf("it took %v", took)
	}
	w.must("PUT", "/v1/connectors/p:dst", fmt.Sprintf(`{"plugin":"builtin:file","config":{"settings":{"path":%q}}}`, w.Path("p.jsonl")), nil)
	w.must("POST", "/v1/pipelines/p/start", "", nil)
	w.more(t, "p")
	w.Stop()
	wantConsecutive(t, numbers(t, w.Path("p.jsonl")))
}

// clientAt returns a client of the agent that writes its address into the file.
func clientAt(t *testing.T, path string) *client.Client {
	t.Helper()
	var b []byte
	wait.For(t, "an address in "+path, func() bool {
		b, _ = os.ReadFile(path)
		return bytes.HasSuffix(b, []byte("\n"))
	})
	return &client.Client{URL: "http://" + string(bytes.TrimSpace(b))}
}

// What was answered with a success is there after kill -9, and goes on.
func TestWritesSurviveAKill(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	p := startProcess(t, dir, addressFile+"="+filepath.Join(dir, "address"))
	defer p.kill()
	w := &web{Agent: &agenttest.Agent{Dir: dir}, t: t, api: clientAt(t, filepath.Join(dir, "address"))}
	w.movedOverAPI("p")
	p.grows(t, filepath.Join(dir, "p.jsonl"))
	w.must("PUT", "/v1/pipelines/p", `{"config":{"name":"p","description":"the last word"}}`, nil)
	create := func(w *web) *answer {
		return w.do("POST", "/v1/pipelines", `{"config":{"name":"once"}}`, "Idempotency-Key", "k")
	}
	created := create(w)
	p.kill()

	b := startWeb(t, dir)
	if again := create(b); created.status != http.StatusOK || again.body != created.body || again.header.Get("Etag") != created.header.Get("Etag") {
		t.Errorf("repeated with the same key: %d %s, first %d %s", again.status, again.body, created.status, created.body)
	}
	b.WaitPhase("p", spec.PhaseRunning, 0)
	b.more(t, "p")
	var got struct{ Config struct{ Description string } }
	b.must("GET", "/v1/pipelines/p", "", &got)
	if got.Config.Description != "the last word" {
		t.Errorf("description %q", got.Config.Description)
	}
	var history []spec.Revision
	b.must("GET", "/v1/pipelines/p/history", "", &history)
	if len(history) != 5 {
		t.Errorf("%d revisions for 5 writes", len(history))
	}
	b.Stop()
	last := 0
	for _, n := range numbers(t, b.Path("p.jsonl")) {
		if n > last+1 {
			t.Fatalf("%d follows %d", n, last)
		}
		last = n
	}
}

func TestFilesWin(t *testing.T) {
	w := startWeb(t, "")
	w.Save("p.yaml", made(w.Dir, "p", 1000, ""))
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
		got := w.do(c.method, c.path, c.body)
		if got.status != http.StatusConflict || !strings.Contains(got.body, `"file":"p.yaml"`) || !strings.Contains(got.body, `"line":"3"`) {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.status, got.body)
		}
	}
	if s := w.State("p"); s.Phase != spec.PhaseRunning || s.RunningGeneration != 1 {
		t.Errorf("the pipeline is now %+v", s)
	}
}

// A pipeline of a file may be stopped and started until the file says something else.
func TestOverridesLastUntilTheFileChanges(t *testing.T) {
	w := startWeb(t, "")
	w.Save("p.yaml", made(w.Dir, "p", 1000, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	w.must("POST", "/v1/pipelines/p/stop", "", nil)
	if s := w.status("p"); s.Override != "stopped" || s.State.Phase != spec.PhaseStopped {
		t.Errorf("stopped: %+v", s)
	}
	w.must("POST", "/v1/pipelines/p/start", "", nil)
	if s := w.status("p"); s.Override != "" || s.State.Phase != spec.PhaseRunning {
		t.Errorf("started again: %+v", s)
	}
	w.must("POST", "/v1/pipelines/p/stop", "", nil)
	w.Save("p.yaml", "# nothing new\n"+made(w.Dir, "p", 1000, ""))
	w.Stop()
	v := startWeb(t, w.Dir)
	v.Wait("the override to be known again", func() bool { return v.State("p").Phase == spec.PhaseStopped })
	if s := v.status("p"); s.Override != "stopped" {
		t.Errorf("after a restart: %+v", s)
	}
	v.Save("p.yaml", made(w.Dir, "p", 2000, ""))
	v.WaitPhase("p", spec.PhaseRunning, 0)
	if s := v.status("p"); s.Override != "" {
		t.Errorf("after the file changed: %+v", s)
	}
	v.must("POST", "/v1/pipelines/p/stop", "", nil)
	v.Save("p.yaml", made(w.Dir, "p", 2000, "name: nothing that runs"))
	v.WaitPhase("p", spec.PhaseRunning, 0)
	if s := v.status("p"); s.Override != "" {
		t.Errorf("after the name changed: %+v", s)
	}
	v.Stop()
	wantConsecutive(t, numbers(t, v.Path("p.jsonl")))
}

// A pipeline changes hands both ways while it runs.
func TestOwnershipMovesBothWays(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "", func(c *config.Config) { c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 0, 0 })
	w.movedOverAPI("p")
	w.more(t, "p")
	since := w.State("p").Since
	if got := w.do("POST", "/v1/pipelines/p/adopt", "{}"); got.status != http.StatusBadRequest || !strings.Contains(got.body, "export") {
		t.Errorf("adopting without a file: %d %s", got.status, got.body)
	}
	file := w.do("POST", "/v1/pipelines/p/export", "")
	if file.status != http.StatusOK || file.header.Get("Content-Type") != "application/yaml" {
		t.Fatalf("export: %d %v", file.status, file.header)
	}
	w.Save("p.yaml", file.body)
	w.Wait("the problem that the API owns it", func() bool { return w.problem("p.yaml") != "" })
	if p := w.problem("p.yaml"); !strings.Contains(p, "adopt") {
		t.Errorf("problem of the file: %s", p)
	}
	if s := w.status("p"); s.Owner.Kind != spec.OwnerAPI || len(s.Problems) != 1 {
		t.Errorf("status with a file that declares it, too: %+v", s)
	}
	w.must("POST", "/v1/pipelines/p/adopt", "{}", nil)
	w.Wait("the file to own it", func() bool {
		s := w.status("p")
		return s.Owner.Path == "p.yaml" && s.Owner.Line > 0 && len(s.Problems) == 0
	})
	if got := w.do("PUT", "/v1/pipelines/p", `{"config":{"name":"p"}}`); got.status != http.StatusConflict {
		t.Errorf("change of what is adopted: %d %s", got.status, got.body)
	}
	if s := w.State("p"); !s.Since.Equal(since) || s.Phase != spec.PhaseRunning {
		t.Errorf("adopting restarted it: %+v", s)
	}

	// And back, while the file is still there, which changes nothing from then on.
	w.must("POST", "/v1/pipelines/p/adopt", `{"owner":"api"}`, nil)
	w.Wait("the problem that the API owns it", func() bool { return w.problem("p.yaml") != "" })
	w.must("PUT", "/v1/pipelines/p", `{"config":{"name":"p","description":"by the API"}}`, nil)
	w.must("PUT", "/v1/pipelines/p", `{"config":{"name":"p"}}`, nil)
	if err := os.Remove(w.Path("pipelines/p.yaml")); err != nil {
		t.Fatal(err)
	}
	w.Wait("the file to be forgotten", func() bool { files, err := w.Store.FileStates(t.Context()); return err == nil && len(files) == 0 })
	if s := w.State("p"); !s.Since.Equal(since) || s.Phase != spec.PhaseRunning {
		t.Errorf("handing it back restarted it: %+v", s)
	}
	if got := w.do("POST", "/v1/pipelines/p/adopt", `{"owner":"api"}`); got.status != http.StatusBadRequest {
		t.Errorf("handing over what the API has: %d %s", got.status, got.body)
	}
	if got := w.do("POST", "/v1/pipelines/p/adopt", `{"owner":"unknown"}`); got.status != http.StatusBadRequest {
		t.Errorf("handing over to an unknown owner: %d %s", got.status, got.body)
	}
	back := w.do("POST", "/v1/pipelines/p/export", "").body
	if back != file.body {
		t.Errorf("exported before\n%s\nafter\n%s", file.body, back)
	}
	w.more(t, "p")
	w.Stop()
	wantConsecutive(t, numbers(t, w.Path("p.jsonl")))
}

// What was stopped over the API stays so when the API takes it over, and can be started.
func TestOverridesMoveToTheAPI(t *testing.T) {
	w := startWeb(t, "")
	w.Save("p.yaml", made(w.Dir, "p", 1000, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	w.must("POST", "/v1/pipelines/p/stop", "", nil)
	w.must("POST", "/v1/pipelines/p/adopt", `{"owner":"api"}`, nil)
	if s := w.status("p"); s.State.Phase != spec.PhaseStopped || s.Override != "" {
		t.Errorf("taken over: %+v", s)
	}
	w.must("POST", "/v1/pipelines/p/start", "", nil)
	w.more(t, "p")
}

// problem returns the first problem of a file.
func (w *web) problem(path string) string {
	files, err := w.Store.FileStates(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range files {
		if f.Path == path && len(f.Problems) > 0 {
			return f.Problems[0].Message
		}
	}
	return ""
}

// What is exported can be imported, there and elsewhere, as YAML.
func TestImportOfAnExport(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	w.movedOverAPI("p")
	w.more(t, "p")
	since := w.State("p").Since
	file := w.do("POST", "/v1/pipelines/p/export", "").body
	got := w.do("POST", "/v1/pipelines/import", file, "Content-Type", "application/yaml")
	if got.status != http.StatusOK || !w.State("p").Since.Equal(since) {
		t.Errorf("import of what is there: %d %s, state %+v", got.status, got.body, w.State("p"))
	}
	other := startWeb(t, "")
	file = strings.ReplaceAll(file, w.Dir, other.Dir)
	if got := other.do("POST", "/v1/pipelines/import", file, "Content-Type", "application/yaml"); got.status != http.StatusOK {
		t.Fatalf("import: %d %s", got.status, got.body)
	}
	other.WaitPhase("p", spec.PhaseRunning, 0)
	other.more(t, "p")
	if again := other.do("POST", "/v1/pipelines/p/export", "").body; again != file {
		t.Errorf("exported\n%s\nimported and exported\n%s", file, again)
	}
	if _, err := os.Stat(other.Path("pipelines/p.yaml")); err == nil {
		t.Error("importing wrote a file")
	}
}
