package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// documentOf returns the document of a pipeline with every field set.
func documentOf(id string) *rest.PipelineDocument {
	size := rest.Count(10)
	return &rest.PipelineDocument{ID: id, Status: spec.StatusRunning, Name: "Orders",
		Connectors: []rest.ConnectorDocument{
			{ID: "gen", Type: spec.TypeSource, Plugin: "builtin:generator",
				Settings:   map[string]string{"rate": "1", "format.type": "raw"},
				Processors: []rest.ProcessorDocument{{ID: "m", Plugin: "field.set"}}},
			{ID: "out", Type: spec.TypeDestination, Plugin: "builtin:log",
				Settings: map[string]string{"level": "info"}}},
		Processors:      []rest.ProcessorDocument{{ID: "a", Plugin: "field.set"}, {ID: "b", Plugin: "field.set"}},
		DeadLetterQueue: &rest.DeadLetterQueueDocument{WindowSize: &size, WindowNackThreshold: 2}}
}

func changeLines(diff *rest.DocumentDiff) []string {
	var lines []string
	for _, c := range diff.Changes {
		lines = append(lines, fmt.Sprintf("%s %s: %s %s %v %s", c.ID, c.Action, c.Effect, c.ExactEffect, c.ConfigPaths,
			c.Code))
	}
	return lines
}

// documentChangesCases are the cases of TestDocumentChanges.
var documentChangesCases = []struct {
	what string
	edit func(d *rest.PipelineDocument)
	want []string
}{
	{"nothing", func(*rest.PipelineDocument) {}, nil},
	{"ids in full", func(d *rest.PipelineDocument) {
		d.Connectors[0].ID, d.Connectors[0].Processors[0].ID, d.Processors[0].ID = "p:gen", "p:gen:m", "p:a"
	}, nil},
	{"name and status", func(d *rest.PipelineDocument) { d.Name, d.Status = "", spec.StatusStopped },
		[]string{"p update: in_place in-place [name status] provisioning.pipeline.update"}},
	{"source", func(d *rest.PipelineDocument) {
		d.Connectors[0].Settings = map[string]string{"rate": "2", "format.options.a/b": "int"}
	}, []string{"p:gen update: restart restart [settings.format.options.a/b settings.format.type settings.rate] " +
		"provisioning.connector.update"}},
	{"destination", func(d *rest.PipelineDocument) { d.Connectors[1].Settings["level"] = "warn" },
		[]string{"p:out update: restart restart-destination [settings.level] provisioning.connector.update"}},
	{"dead-letter queue", func(d *rest.PipelineDocument) {
		*d.DeadLetterQueue.WindowSize, d.DeadLetterQueue.WindowNackThreshold = 20, 3
		d.DeadLetterQueue.Settings = map[string]string{"level": "error"}
	}, []string{"p update: in_place in-place [dlq.settings.level dlq.settings.message dlq.windowNackThreshold " +
		"dlq.windowSize] provisioning.pipeline.update"}},
	{"processors", func(d *rest.PipelineDocument) {
		d.Connectors[0].Processors[0].Workers = 2
		d.Processors[0], d.Processors[1] = d.Processors[1], rest.ProcessorDocument{ID: "c", Plugin: "field.set"}
	}, []string{"p:gen:m update: in_place in-place [workers] provisioning.processor.update",
		"p:a delete: in_place in-place [] provisioning.processor.delete",
		"p:c create: in_place in-place [] provisioning.processor.create"}},
	{"their order", func(d *rest.PipelineDocument) {
		d.Processors[0], d.Processors[1] = d.Processors[1], d.Processors[0]
	},
		[]string{"p update: in_place in-place [processors] provisioning.pipeline.update"}},
	{"another source", func(d *rest.PipelineDocument) { d.Connectors[0].ID = "new" },
		[]string{"p:gen delete: restart position-lost [] provisioning.connector.delete",
			"p:gen:m delete: restart position-lost [] provisioning.processor.delete",
			"p:new create: restart restart [] provisioning.connector.create",
			"p:new:m create: restart restart [] provisioning.processor.create"}},
	{"another pipeline", func(d *rest.PipelineDocument) { d.ID, d.Name, d.Processors = "q", "q", nil },
		[]string{"q create: in_place none [] provisioning.pipeline.create",
			"q:gen create: in_place none [] provisioning.connector.create",
			"q:gen:m create: in_place none [] provisioning.processor.create",
			"q:out create: in_place none [] provisioning.connector.create"}},
}

// TestDocumentChanges plans changes of a pipeline one by one, and applies them: then
// there is nothing more to change.
func TestDocumentChanges(t *testing.T) {
	for _, c := range documentChangesCases {
		t.Run(c.what, func(t *testing.T) {
			w := newWorld(t)
			api, _ := serve(t, newServer(w))
			apply := func(d *rest.PipelineDocument) *rest.DocumentDiff {
				t.Helper()
				plan, err := api.PlanDocument(t.Context(), *d)
				if err != nil {
					t.Fatal(err)
				}
				done, err := api.ApplyDocument(t.Context(), *d, plan.Hash)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(plan, done); diff != "" {
					t.Error("what was applied is not what was planned: " + diff)
				}
				return &done
			}
			apply(documentOf("p"))
			d := documentOf("p")
			c.edit(d)
			if diff := cmp.Diff(c.want, changeLines(apply(d))); diff != "" {
				t.Error(diff)
			}
			if again := apply(d); len(again.Changes) != 0 {
				t.Errorf("applied again: %v", changeLines(again))
			}
			if got, want := len(w.history["p"])+len(w.history["q"]), 1+min(1, len(c.want)); got != want {
				t.Errorf("%d revisions, want %d", got, want)
			}
		})
	}
}

// TestDocumentsThatAreRefused checks that plan and apply refuse the same documents, name the faulty field, and change
// nothing.
func TestDocumentsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	w.fromFile("filed.yaml", pipelineOf("filed", spec.StatusRunning))
	h := newServer(w).Handler()
	do(h, "POST", "/v1/pipelines", `{"id":"taken","config":{"name":"taken"}}`)
	const gen, out = `{"id":"gen","type":"source","plugin":"builtin:generator"}`,
		`{"id":"out","type":"destination","plugin":"builtin:log"}`
	for _, c := range []struct {
		document      string
		status        int
		reason, field string
	}{
		{``, 400, spec.CodeRequired, "config.id"},
		{`"id":"a/b"`, 400, spec.CodeInvalid, "config.id"},
		{`"id":"p","status":"on"`, 400, spec.CodeInvalid, "config.status"},
		{`"id":"p"`, 400, spec.CodeRequired, "config.connectors"},
		{`"id":"p","connectors":[` + gen + `,{"id":5}]`, 400, spec.CodeInvalid, "config.connectors[1].id"},
		{`"id":"p","connectors":[{"settings":{"rate":1}}]`, 400, spec.CodeInvalid,
			"config.connectors[0].settings.rate"},
		{`"id":"p","processors":[{"workers":"1"}]`, 400, spec.CodeInvalid, "config.processors[0].workers"},
		{`"id":"p","connectors":{}`, 400, spec.CodeInvalid, "config.connectors"},
		{`"id":"p","dlq":[]`, 400, spec.CodeInvalid, "config.dlq"},
		{`"id":"p","conectors":[]`, 400, spec.CodeUnknown, "config.conectors"},
		{`"id":"p","connectors":[` + gen + `,{"id":"out","type":"sink","plugin":"log"}]`, 400, spec.CodeInvalid,
			"config.connectors[1].type"},
		{`"id":"p","connectors":[` + gen + `,` + out + `,` + gen + `]`, 400, spec.CodeDuplicateID,
			"config.connectors[2].id"},
		{`"id":"p","connectors":[` + gen + `,{"id":"out","type":"destination","plugin":"log","plugn":""}]`, 400,
			spec.CodeUnknown, "config.connectors[1].plugn"},
		{`"id":"p","connectors":[` + out +
			`,{"id":"gen","type":"source","plugin":"generator","settings":{"rate":"x"}}]`, 400, spec.CodeInvalid,
			"config.connectors[1].settings.rate"},
		{`"id":"p","connectors":[` + out + `,{"id":"gen","type":"source","plugin":"nosuch"}]`, 404,
			rest.ReasonPluginNotFound, "config.connectors[1].plugin"},
		{`"id":"p","connectors":[` + out +
			`,{"id":"gen","type":"source","plugin":"generator","settings":{"db.password":"***"}}]`, 400,
			spec.CodeInvalid, `config.connectors[1].settings["db.password"]`},
		{`"id":"p","connectors":[` + gen + `,` + out +
			`],"processors":[{"id":"a","plugin":"x"},{"id":"b","plugin":"x","workers":-1}]`, 400, spec.CodeInvalid,
			"config.processors[1].workers"},
		{`"id":"p","connectors":[` + gen + `,` + out + `],"dlq":{"windowSize":"2","windowNackThreshold":2}`, 400,
			spec.CodeInvalid, "config.dlq.windowNackThreshold"},
		{`"id":"p","connectors":[` + gen + `,` + out + `],"dlq":{"windowSize":"-2"}`, 400, spec.CodeInvalid,
			"config.dlq.windowSize"},
		{`"id":"p","connectors":[` + gen + `,` + out + `],"dlq":{"plugin":"nosuch"}`, 404, rest.ReasonPluginNotFound,
			"config.dlq.plugin"},
		{`"id":"p","name":"taken","status":"stopped"`, 409, rest.ReasonPipelineNameExists, "config.name"},
		{`"id":"filed","status":"stopped"`, 409, rest.ReasonOwnedByFile, ""},
	} {
		got := do(h, "POST", "/v1/pipelines/plan", `{"config":{`+c.document+`}}`)
		e := rest.ParseError(got.status, got.body)
		if got.status != c.status || e.Reason != c.reason || e.Metadata["configPath"] != c.field {
			t.Errorf("plan of %s: %d %s, want %d %s at %s", c.document, got.status, got.body, c.status, c.reason,
				c.field)
		}
		apply := do(h, "POST", "/v1/pipelines/apply", `{"config":{`+c.document+`},"hash":"of no plan"}`)
		if apply.status != 412 && !bytes.Equal(apply.body, got.body) {
			t.Errorf("applying %s: %d %s, planning it: %s", c.document, apply.status, apply.body, got.body)
		}
	}
	if got := do(h, "POST", "/v1/pipelines/apply", `{"config":{"id":"p","status":"stopped"}}`); got.status != 400 ||
		got.reason() != spec.CodeRequired || !strings.Contains(string(got.body), "/v1/pipelines/plan") {
		t.Errorf("without a hash: %d %s", got.status, got.body)
	}
	late := asPlanned(t, h, `{"config":{"id":"p","name":"late","status":"stopped"}}`)
	do(h, "POST", "/v1/pipelines", `{"id":"q","config":{"name":"late"}}`)
	if got := do(h, "POST", "/v1/pipelines/apply", late); got.reason() != rest.ReasonPipelineNameExists {
		t.Errorf("a name that was taken since the plan: %d %s", got.status, got.body)
	}
	if len(w.declared) != 3 || len(w.history["filed"])+len(w.history["taken"]) != 2 {
		t.Errorf("something changed: %v", w.history)
	}
}

// A hash is valid for the planned document and the declaration at the time of the plan.
func TestPlansGoOutOfDate(t *testing.T) {
	for _, c := range []struct {
		what      string
		meanwhile func(h http.Handler, d *rest.PipelineDocument)
	}{
		{"another document", func(_ http.Handler, d *rest.PipelineDocument) { d.Connectors[0].Settings["rate"] = "3" }},
		{"renamed", func(h http.Handler, _ *rest.PipelineDocument) {
			do(h, "PUT", "/v1/pipelines/p", `{"config":{"name":"other"}}`)
		}},
		{"stopped", func(h http.Handler, _ *rest.PipelineDocument) { do(h, "POST", "/v1/pipelines/p/stop", "") }},
		{"changed and changed back", func(h http.Handler, _ *rest.PipelineDocument) {
			do(h, "POST", "/v1/pipelines/p/stop", "")
			do(h, "POST", "/v1/pipelines/p/start", "")
		}},
		{"deleted", func(h http.Handler, _ *rest.PipelineDocument) { deleteAll(h) }},
		{"deleted and made again", func(h http.Handler, d *rest.PipelineDocument) {
			deleteAll(h)
			d.Connectors[0].Settings["rate"] = "1"
			text, _ := json.Marshal(rest.DocumentPlan{Config: *d})
			do(h, "POST", "/v1/pipelines/apply", asPlanned(t, h, string(text)))
			d.Connectors[0].Settings["rate"] = "2"
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := newWorld(t)
			s := newServer(w)
			api, _ := serve(t, s)
			d := documentOf("p")
			d.Processors, d.Connectors[0].Processors = nil, nil
			plan, err := api.PlanDocument(t.Context(), *d)
			if err == nil {
				_, err = api.ApplyDocument(t.Context(), *d, plan.Hash)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := api.ApplyDocument(t.Context(), *d, plan.Hash); client.Reason(err) != rest.ReasonPlanStale {
				t.Errorf("with the hash of the plan to create it: %v", err)
			}
			d.Connectors[0].Settings["rate"] = "2"
			if plan, err = api.PlanDocument(t.Context(), *d); err != nil {
				t.Fatal(err)
			}
			c.meanwhile(s.Handler(), d)
			before := len(w.history["p"])
			_, err = api.ApplyDocument(t.Context(), *d, plan.Hash)
			if e, ok := err.(*client.Error); !ok || e.HTTP != http.StatusPreconditionFailed ||
				e.Reason != rest.ReasonPlanStale {
				t.Errorf("%v", err)
			}
			if len(w.history["p"]) != before {
				t.Error("it changed something")
			}
		})
	}
}

// deleteAll deletes pipeline p and its connectors.
func deleteAll(h http.Handler) {
	do(h, "POST", "/v1/pipelines/p/stop", "")
	do(h, "DELETE", "/v1/connectors/p:gen", "")
	do(h, "DELETE", "/v1/connectors/p:out", "")
	do(h, "DELETE", "/v1/pipelines/p", "")
}

// A change between the plan and the end of its application is not overwritten, and settings that have become invalid
// are not applied.
func TestDocumentsMeetChanges(t *testing.T) {
	w := newWorld(t)
	h := newServer(w).Handler()
	text, _ := json.Marshal(rest.DocumentPlan{Config: *documentOf("p")})
	body := asPlanned(t, h, string(text))

	w.check = func() error { return &api.SettingError{Setting: "rate", Message: "must be less by now"} }
	if got := do(h, "POST", "/v1/pipelines/apply", body); got.status != 400 || got.reason() != spec.CodeInvalid {
		t.Errorf("settings that are wrong by now: %d %s", got.status, got.body)
	}
	w.check = func() error {
		w.check = nil
		do(h, "POST", "/v1/pipelines", `{"id":"p","config":{"name":"faster"}}`)
		return nil
	}
	if got := do(h, "POST", "/v1/pipelines/apply", body); got.status != 412 || got.reason() != rest.ReasonPlanStale {
		t.Errorf("another change was faster: %d %s", got.status, got.body)
	}
	if name := w.declared["p"].Pipeline.Name; name != "faster" {
		t.Errorf("pipeline %q is declared", name)
	}
}

// Secrets that are *** in a document stay as they are, and are never shown.
func TestDocumentsKeepSecrets(t *testing.T) {
	w := newWorld(t)
	h := newServer(w).Handler()
	apply := func(d *rest.PipelineDocument) call {
		t.Helper()
		text, _ := json.Marshal(rest.DocumentPlan{Config: *d})
		got := do(h, "POST", "/v1/pipelines/apply", asPlanned(t, h, string(text)))
		if got.status != 200 || strings.Contains(string(got.body), "canary") {
			t.Errorf("%d %s", got.status, got.body)
		}
		return got
	}
	d := documentOf("p")
	d.Connectors[0].Settings["db.password"], d.DeadLetterQueue.Settings = "canary", map[string]string{
		"api.token": "canary",
	}
	apply(d)
	d.Connectors[0], d.Connectors[1] = d.Connectors[1], d.Connectors[0]
	d.Connectors[1].Settings["db.password"], d.DeadLetterQueue.Settings["api.token"] = spec.Redacted, spec.Redacted
	if got := apply(d); !strings.Contains(string(got.body), `"changes":[]`) {
		t.Errorf("*** changed something: %s", got.body)
	}
	d.Connectors[1].Settings["rate"] = "5"
	apply(d)
	d.Connectors[1].Settings["rate"] = "login://user:canary@host"
	text, _ := json.Marshal(rest.DocumentPlan{Config: *d})
	if got := do(h, "POST", "/v1/pipelines/plan", string(text)); got.status != 400 ||
		strings.Contains(string(got.body), "canary") {
		t.Errorf("a value that is refused: %d %s", got.status, got.body)
	}
	p := w.declared["p"].Pipeline
	if source := p.Connectors[1]; source.Settings["db.password"] != "canary" ||
		p.DeadLetterQueue.Settings["api.token"] != "canary" || source.Settings["rate"] != "5" {
		t.Errorf("declared is %+v", p)
	}
}
