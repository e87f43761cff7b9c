package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// A document creates a pipeline and others change it. Each is one revision of the API, and changes no more of the
// running pipeline than its plan says.
func TestDocumentsTakeEffect(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	doc := w.Document("p", "one.jsonl", 2000)
	w.wantPlanOnly(doc, 3)
	w.Apply(doc)
	w.documentRuns("p", 1, "one.jsonl")
	sources, destinations := w.pluginStarts("builtin:generator"), w.pluginStarts("builtin:file")

	diff := w.Apply(w.Document("p", "two.jsonl", 2000))
	if len(diff.Changes) != 1 || diff.Changes[0].ExactEffect != spec.EffectRestartDestination {
		t.Errorf("another destination: %+v", diff)
	}
	w.documentRuns("p", 2, "two.jsonl")
	if n := w.pluginStarts("builtin:generator"); n != sources {
		t.Errorf("the source was started %v times, before %v", n, sources)
	}
	if n := w.pluginStarts("builtin:file"); n <= destinations {
		t.Errorf("the destination was started %v times, before %v", n, destinations)
	}
	if n := (&desk{&agenttest.Desk{Agent: w.Agent, T: t}}).Starts("p"); n != 1 {
		t.Errorf("the pipeline was started %d times", n)
	}

	diff = w.Apply(w.Document("p", "two.jsonl", 4000))
	if len(diff.Changes) != 1 || diff.Changes[0].ExactEffect != spec.EffectRestart {
		t.Errorf("another source: %+v", diff)
	}
	w.documentRuns("p", 3, "two.jsonl")

	doc = w.Document("p", "two.jsonl", 4000)
	doc.Status = spec.StatusStopped
	w.Apply(doc)
	w.Wait("the pipeline to stop", func() bool { return w.State("p").Phase == spec.PhaseStopped })
	doc.Status = spec.StatusRunning
	w.Apply(doc)
	w.documentRuns("p", 5, "two.jsonl")
	w.Apply(doc) // changes nothing
	w.wantApplied("p", 5)
	w.Stop()
	agenttest.WantAll(t, agenttest.Numbers(t, w.Path("one.jsonl")), agenttest.Numbers(t, w.Path("two.jsonl")))
}

// wantPlanOnly checks that the plan of a document has the given number of changes, and that planning changes nothing.
func (w *web) wantPlanOnly(doc rest.PipelineDocument, changes int) {
	w.T.Helper()
	if plan, err := w.API.PlanDocument(w.T.Context(), doc); err != nil || len(plan.Changes) != changes {
		w.T.Errorf("%+v, %v", plan, err)
	}
	if all, err := w.API.Pipelines(w.T.Context()); err != nil || len(all) != 0 {
		w.T.Errorf("planning made %+v, %v", all, err)
	}
}

// documentRuns waits until a generation of pipeline id runs and writes to a file.
func (w *web) documentRuns(id string, generation int64, file string) {
	w.T.Helper()
	w.WaitPhase(id, spec.PhaseRunning, generation)
	before := agenttest.LinesIn(w.T, w.Path(file))
	w.Wait("more records in "+file, func() bool { return agenttest.LinesIn(w.T, w.Path(file)) > before })
}

func (w *web) pluginStarts(plugin string) float64 {
	return agenttest.Scrape(w.T, w.Agent, fmt.Sprintf("conduit_plugin_starts_total{plugin=%q}", plugin))
}

// wantApplied checks that the API owns a pipeline, and that it has the given number of revisions, all from apply.
func (w *web) wantApplied(id string, revisions int) {
	w.T.Helper()
	var history []spec.Revision
	w.Must("GET", "/v1/pipelines/"+id+"/history", "", &history)
	if len(history) != revisions {
		w.T.Errorf("%d revisions, want %d", len(history), revisions)
	}
	for _, r := range history {
		if r.Origin != "api: apply" {
			w.T.Errorf("revision %d is by %q", r.Number, r.Origin)
		}
	}
	if s := w.status(id); s.Owner != (spec.Owner{Kind: spec.OwnerAPI}) {
		w.T.Errorf("owned by %+v", s.Owner)
	}
}

// A file owns the pipelines that it declares: documents that change them are refused with the place in the file, and no
// document makes the file the owner of a pipeline.
func TestDocumentsLeaveFilesAlone(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 1000, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	for path, hash := range map[string]string{"/v1/pipelines/plan": "", "/v1/pipelines/apply": `,"hash":"0"`} {
		got := w.Do("POST", path, `{"config":{"id":"p","status":"stopped"}`+hash+`}`)
		if got.Status != http.StatusConflict || !strings.Contains(got.Body, `"file":"p.yaml"`) ||
			!strings.Contains(got.Body, `"line":"3"`) || !strings.Contains(got.Body, "change the file instead") {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	doc := w.Document("q", "q.jsonl", 1000)
	w.Apply(doc)
	w.More(t, "q")
	if err := os.Remove(w.Path("pipelines/p.yaml")); err != nil {
		t.Fatal(err)
	}
	w.Must("POST", "/v1/files/reload", `{"prune":true}`, nil)
	w.Stop()
	again := startWeb(t, w.Dir)
	again.WaitPhase("q", spec.PhaseRunning, 0)
	again.More(t, "q")
	if diff := again.Apply(doc); len(diff.Changes) != 0 {
		t.Errorf("after a restart: %+v", diff)
	}
}

// A plan starts no pipeline, shows no secret and no value, and names the fields that
// keep a pipeline from running.
func TestPlansOfDocumentsNameFields(t *testing.T) {
	t.Setenv("DOCUMENT_SECRET", "hunter2")
	w := startWeb(t, "")
	for _, c := range []struct{ settings, reason, field string }{
		{`{"rate":"much"}`, spec.CodeInvalid, "config.connectors[0].settings.rate"},
		{`{"rate":"${DOCUMENT_SECRET}"}`, spec.CodeInvalid, "config.connectors[0].settings.rate"},
		{`{"rate":"${NOT_SET}"}`, spec.CodeInvalid, "config.connectors[0].settings.rate"},
		{`{"rate":"${"}`, spec.CodeReference, "config.connectors[0].settings.rate"},
	} {
		got := w.Do("POST", "/v1/pipelines/plan", `{"config":{"id":"p","connectors":[
			{"id":"src","type":"source","plugin":"builtin:generator","settings":`+c.settings+`},
			{"id":"dst","type":"destination","plugin":"builtin:log"}]}}`)
		if reason, field := got.Reason(); got.Status != http.StatusBadRequest || reason != c.reason ||
			field != c.field {
			t.Errorf("%s: %d %s", c.settings, got.Status, got.Body)
		}
		if strings.Contains(got.Body, "hunter2") {
			t.Errorf("%s shows a secret: %s", c.settings, got.Body)
		}
	}
}
