package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// document is that of pipeline id, which writes generated records to a file of this name.
func (w *web) document(id, file string, rate int) rest.PipelineDocument {
	return rest.PipelineDocument{ID: id, Connectors: []rest.ConnectorDocument{
		{ID: "src", Type: spec.TypeSource, Plugin: "builtin:generator",
			Settings: map[string]string{"rate": fmt.Sprint(rate), "format.type": "structured", "format.options.n": "int"}},
		{ID: "dst", Type: spec.TypeDestination, Plugin: "builtin:file", Settings: map[string]string{"path": w.Path(file)}}}}
}

// apply plans a document and applies it as planned.
func (w *web) apply(doc rest.PipelineDocument) rest.DocumentDiff {
	w.t.Helper()
	plan, err := w.api.PlanDocument(w.t.Context(), doc)
	if err != nil {
		w.t.Fatal(err)
	}
	done, err := w.api.ApplyDocument(w.t.Context(), doc, plan.Hash)
	if err != nil || done.Hash != plan.Hash {
		w.t.Fatalf("planned %+v, applied %+v: %v", plan, done, err)
	}
	return done
}

// A pipeline is made by a document and changed by others: each is one revision of the
// API and does to what runs no more than was planned.
func TestDocumentsTakeEffect(t *testing.T) {
	w := startWeb(t, "")
	doc := w.document("p", "one.jsonl", 2000)
	w.wantPlanOnly(doc, 3)
	w.apply(doc)
	w.documentRuns("p", 1, "one.jsonl")
	sources, destinations := w.pluginStarts("builtin:generator"), w.pluginStarts("builtin:file")

	diff := w.apply(w.document("p", "two.jsonl", 2000))
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
	if n := (&desk{w.Agent, t}).starts("p"); n != 1 {
		t.Errorf("the pipeline was started %d times", n)
	}

	diff = w.apply(w.document("p", "two.jsonl", 4000))
	if len(diff.Changes) != 1 || diff.Changes[0].ExactEffect != spec.EffectRestart {
		t.Errorf("another source: %+v", diff)
	}
	w.documentRuns("p", 3, "two.jsonl")

	doc = w.document("p", "two.jsonl", 4000)
	doc.Status = spec.StatusStopped
	w.apply(doc)
	w.Wait("the pipeline to stop", func() bool { return w.State("p").Phase == spec.PhaseStopped })
	doc.Status = spec.StatusRunning
	w.apply(doc)
	w.documentRuns("p", 5, "two.jsonl")
	w.apply(doc) // which changes nothing
	w.wantApplied("p", 5)
	w.Stop()
	wantAll(t, numbers(t, w.Path("one.jsonl")), numbers(t, w.Path("two.jsonl")))
}

// wantPlanOnly checks that a document is planned with so many changes, and that planning makes none.
func (w *web) wantPlanOnly(doc rest.PipelineDocument, changes int) {
	w.t.Helper()
	if plan, err := w.api.PlanDocument(w.t.Context(), doc); err != nil || len(plan.Changes) != changes {
		w.t.Errorf("%+v, %v", plan, err)
	}
	if all, err := w.api.Pipelines(w.t.Context()); err != nil || len(all) != 0 {
		w.t.Errorf("planning made %+v, %v", all, err)
	}
}

// documentRuns waits until a generation of pipeline id runs and writes to a file.
func (w *web) documentRuns(id string, generation int64, file string) {
	w.t.Helper()
	w.WaitPhase(id, spec.PhaseRunning, generation)
	before := len(numbers(w.t, w.Path(file)))
	w.Wait("more records in "+file, func() bool { return len(numbers(w.t, w.Path(file))) > before })
}

func (w *web) pluginStarts(plugin string) float64 {
	return scrape(w.t, w.Agent, fmt.Sprintf("conduit_plugin_starts_total{plugin=%q}", plugin))
}

// wantApplied checks that a pipeline belongs to the API and has so many revisions, all by apply.
func (w *web) wantApplied(id string, revisions int) {
	w.t.Helper()
	var history []spec.Revision
	w.must("GET", "/v1/pipelines/"+id+"/history", "", &history)
	if len(history) != revisions {
		w.t.Errorf("%d revisions, want %d", len(history), revisions)
	}
	for _, r := range history {
		if r.Origin != "api: apply" {
			w.t.Errorf("revision %d is by %q", r.Number, r.Origin)
		}
	}
	if s := w.status(id); s.Owner != (spec.Owner{Kind: spec.OwnerAPI}) {
		w.t.Errorf("owned by %+v", s.Owner)
	}
}

// What a file declares is the file's: documents about it are refused with its place, and
// nothing becomes the file's by a document.
func TestDocumentsLeaveFilesAlone(t *testing.T) {
	w := startWeb(t, "")
	w.Save("p.yaml", made(w.Dir, "p", 1000, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	for path, hash := range map[string]string{"/v1/pipelines/plan": "", "/v1/pipelines/apply": `,"hash":"0"`} {
		got := w.do("POST", path, `{"config":{"id":"p","status":"stopped"}`+hash+`}`)
		if got.status != http.StatusConflict || !strings.Contains(got.body, `"file":"p.yaml"`) || !strings.Contains(got.body, `"line":"3"`) || !strings.Contains(got.body, "change the file instead") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	doc := w.document("q", "q.jsonl", 1000)
	w.apply(doc)
	w.more(t, "q")
	if err := os.Remove(w.Path("pipelines/p.yaml")); err != nil {
		t.Fatal(err)
	}
	w.must("POST", "/v1/files/reload", `{"prune":true}`, nil)
	w.Stop()
	again := startWeb(t, w.Dir)
	again.WaitPhase("q", spec.PhaseRunning, 0)
	again.more(t, "q")
	if diff := again.apply(doc); len(diff.Changes) != 0 {
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
		got := w.do("POST", "/v1/pipelines/plan", `{"config":{"id":"p","connectors":[
			{"id":"src","type":"source","plugin":"builtin:generator","settings":`+c.settings+`},
			{"id":"dst","type":"destination","plugin":"builtin:log"}]}}`)
		if reason, field := got.reason(); got.status != http.StatusBadRequest || reason != c.reason || field != c.field {
			t.Errorf("%s: %d %s", c.settings, got.status, got.body)
		}
		if strings.Contains(got.body, "hunter2") {
			t.Errorf("%s shows a secret: %s", c.settings, got.body)
		}
	}
}
