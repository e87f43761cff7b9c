package api_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

// sessionStep is a request and its expected answer.
type sessionStep struct {
	what         string
	method, path string
	body         string
	status       int
	reason       string // of an error
	want         string // part of the body
}

const sessionSettings = `{"format.type":"structured","rate":"1"}`

// sessionSteps are the life of a pipeline over the API, including all refused requests.
var sessionSteps = []sessionStep{
	{"create", "POST", "/v1/pipelines", `{"id":"p","config":{"name":"n","description":"d"}}`, 200, "",
		`"status":"STATUS_STOPPED","error":"","stoppedReason":"STOPPED_REASON_USER"`},
	{"same name", "POST", "/v1/pipelines", `{"config":{"name":"n"}}`, 409, "pipeline.name_already_exists", `"code":6`},
	{"same id", "POST", "/v1/pipelines", `{"id":"p","config":{"name":"other"}}`, 409, "pipeline.already_exists",
		`"code":6`},
	{"no name", "POST", "/v1/pipelines", `{"config":{"name":""}}`, 400, "pipeline.name_missing", `"code":3`},
	{"bad id", "POST", "/v1/pipelines", `{"id":"a/b","config":{"name":"bad"}}`, 400, "config.field_invalid",
		`"configPath":"id"`},
	{"broken JSON", "POST", "/v1/pipelines", `{oops`, 400, "config.parse_error", `"code":3`},
	{"unknown field", "POST", "/v1/pipelines", `{"config":{"nme":"x"}}`, 400, "config.field_unknown",
		`did you mean \"name\"`},
	{"source", "POST", "/v1/connectors",
		`{"id":"g","type":"TYPE_SOURCE","plugin":"builtin:generator","pipelineId":"p","config":{"name":"g","settings":` +
			sessionSettings + `}}`, 200, "", `"id":"p:g"`},
	{"bad setting", "POST", "/v1/connectors",
		`{"type":"TYPE_SOURCE","plugin":"builtin:generator","pipelineId":"p","config":{"settings":{"rate":"x"}}}`, 400,
		"config.field_invalid", `"configPath":"config.settings.rate"`},
	{"no plugin", "POST", "/v1/connectors", `{"type":"TYPE_SOURCE","plugin":"nosuch","pipelineId":"p","config":{}}`,
		404, "connector.plugin_not_found", `"configPath":"plugin"`},
	{"no pipeline", "POST", "/v1/connectors",
		`{"type":"TYPE_SOURCE","plugin":"builtin:generator","pipelineId":"nope","config":{}}`, 404,
		"pipeline.instance_not_found", `"code":5`},
	{"wrong type", "POST", "/v1/connectors", `{"type":"TYPE_SORCE","plugin":"builtin:generator","pipelineId":"p"}`, 400,
		"connector.invalid_type", "TYPE_SOURCE"},
	{"validate bad", "POST", "/v1/connectors/validate",
		`{"type":"TYPE_SOURCE","plugin":"builtin:generator","config":{"settings":{"rate":"x"}}}`, 400,
		"config.field_invalid", ""},
	{"validate", "POST", "/v1/connectors/validate",
		`{"type":"TYPE_SOURCE","plugin":"builtin:generator","config":{"settings":` + sessionSettings + `}}`, 200, "",
		"{}"},
	{"no destination", "POST", "/v1/pipelines/p/start", "", 400, "config.field_required", "destination"},
	{"destination", "POST", "/v1/connectors",
		`{"id":"p:f","type":"TYPE_DESTINATION","plugin":"builtin:file","pipelineId":"p","config":{"name":"f",` +
			`"settings":{"path":"out.txt"}}}`, 200, "", `"id":"p:f"`},
	{"processor", "POST", "/v1/processors",
		`{"id":"m","plugin":"field.set","parent":{"type":"TYPE_PIPELINE","id":"p"},"config":{"settings":{"field":"a"},` +
			`"workers":1}}`, 200, "", `"id":"p:m"`},
	{"wrong parent", "POST", "/v1/processors", `{"plugin":"field.set","parent":{"type":"TYPE_X","id":"p"}}`, 400,
		"orchestrator.invalid_processor_parent_type", ""},
	{"start", "POST", "/v1/pipelines/p/start", "", 200, "", "{}"},
	{"start again", "POST", "/v1/pipelines/p/start", "", 400, "pipeline.running", `"code":9`},
	{"running", "GET", "/v1/pipelines/p", "", 200, "",
		`"status":"STATUS_RUNNING","error":"","stoppedReason":"STOPPED_REASON_UNSPECIFIED"`},
	{"update while running", "PUT", "/v1/connectors/p:g", `{"config":{"settings":{"rate":"2"}}}`, 400,
		"pipeline.running", ""},
	{"delete while running", "DELETE", "/v1/connectors/p:g", "", 400, "pipeline.running", ""},
	{"update live", "PUT", "/v1/connectors/p:g?live", `{"config":{"settings":{"rate":"2"}}}`, 200, "", `"rate":"2"`},
	{"stop", "POST", "/v1/pipelines/p/stop", `{"force":false}`, 200, "", "{}"},
	{"stop again", "POST", "/v1/pipelines/p/stop", "", 400, "pipeline.not_running", `"code":9`},
	{"rename", "PUT", "/v1/pipelines/p", `{"config":{"name":"n2","description":"changed"}}`, 200, "", `"name":"n2"`},
	{"dlq", "PUT", "/v1/pipelines/p/dead-letter-queue",
		`{"plugin":"builtin:log","settings":{"level":"warn"},"windowSize":"10","windowNackThreshold":2}`, 200, "",
		`"windowSize":"10","windowNackThreshold":"2"`},
	{"bad dlq", "PUT", "/v1/pipelines/p/dead-letter-queue",
		`{"plugin":"builtin:log","windowSize":"1","windowNackThreshold":"2"}`, 400, "config.field_invalid",
		`"configPath":"windowNackThreshold"`},
	{"no plugin keeps it", "PUT", "/v1/connectors/p:g", `{"config":{"name":"g2","settings":` + sessionSettings + `}}`,
		200, "", `"plugin":"builtin:generator"`},
	{"file's pipeline", "PUT", "/v1/pipelines/filed", `{"config":{"name":"no"}}`, 409,
		"orchestrator.immutable_provisioned_by_config", `"file":"filed.yaml","line":"3"`},
	{"file's connector", "DELETE", "/v1/connectors/filed:gen", "", 409, "orchestrator.immutable_provisioned_by_config",
		""},
	{"stop the file's", "POST", "/v1/pipelines/filed/stop", "", 200, "", "{}"},
	{"its status", "GET", "/v1/pipelines/filed/status", "", 200, "", `"override":"stopped"`},
	{"delete with connectors", "DELETE", "/v1/pipelines/p", "", 400, "orchestrator.pipeline_has_connectors_attached",
		`"code":9`},
	{"no such pipeline", "GET", "/v1/pipelines/nope", "", 404, "pipeline.instance_not_found", `"code":5`},
	{"no such connector", "GET", "/v1/connectors/nope", "", 404, "connector.instance_not_found", ""},
	{"start nothing", "POST", "/v1/pipelines/nope/start", "", 404, "pipeline.instance_not_found", ""},
	{"inspect nothing", "GET", "/v1/connectors/nope/inspect", "", 404, "connector.instance_not_found", ""},
	{"health", "GET", "/healthz", "", 200, "", `{"status":"SERVING"}`},
	{"health of a service", "GET", "/healthz?service=ConnectorPluginService", "", 200, "", "SERVING"},
	{"health of nothing", "GET", "/healthz?service=Nope", "", 404, "common.not_found", ""},
	{"ready", "GET", "/readyz", "", 200, "", `{"status":"ready","pipelines":{"total":2,"running":0,"degraded":0}}`},
	{"info", "GET", "/info", "", 200, "", `{"version":"v1.2.3","os":`},
	{"wrong method", "PATCH", "/v1/pipelines", "{}", 405, "request.method_not_allowed", `"code":12`},
	{"wrong path", "GET", "/v1/nothing", "", 404, "common.not_found", `"code":5`},
	{"traversal", "GET", "/v1/pipelines/..%2f..%2fetc%2fpasswd", "", 404, "common.not_found", ""},
	{"bad regular expression", "GET", "/v1/pipelines?name=(", "", 400, "config.field_invalid", ""},
	{"delete processor", "DELETE", "/v1/processors/p:m", "", 200, "", "{}"},
	{"delete source", "DELETE", "/v1/connectors/p:g", "", 200, "", "{}"},
	{"delete destination", "DELETE", "/v1/connectors/p:f", "", 200, "", "{}"},
	{"delete pipeline", "DELETE", "/v1/pipelines/p", "", 200, "", "{}"},
	{"gone", "GET", "/v1/pipelines/p", "", 404, "pipeline.instance_not_found", ""},
}

// TestSession replays the requests of a client from creating a pipeline to deleting it.
func TestSession(t *testing.T) {
	w := newWorld(t)
	w.fromFile("filed.yaml", pipelineOf("filed", spec.StatusRunning))
	h := newServer(w).Handler()
	for _, step := range sessionSteps {
		got := do(h, step.method, step.path, step.body)
		if got.status != step.status || !strings.Contains(string(got.body), step.want) || step.reason != "" &&
			got.reason() != step.reason {
			t.Errorf("%s: %s %s: %d %s, want %d %s %s", step.what, step.method, step.path, got.status, got.body,
				step.status, step.reason, step.want)
		}
	}
	if got := strings.Join(w.cleaned, " "); got != "p:g p:f" {
		t.Errorf("cleaned up %q, want both connectors", got)
	}
}
