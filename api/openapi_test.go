package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

type operation struct {
	OperationID string `json:"operationId"`
	Streaming   bool   `json:"x-streaming"`
	RequestBody struct {
		Content map[string]struct{ Example json.RawMessage }
	}
	Responses map[string]struct {
		Content map[string]struct{ Schema, Example json.RawMessage }
	}
}

// TestEveryOperation calls every operation of the document with its own example, and validates the answer against the
// document's schema.
func TestEveryOperation(t *testing.T) {
	h := newServer(newWorld(t)).Handler()
	text := do(h, "GET", "/openapi/openapi.json", "").body
	var document struct {
		Paths map[string]map[string]operation
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft2020
	if err := compiler.AddResource("openapi.json", strings.NewReader(strict(t, text))); err != nil {
		t.Fatal(err)
	}
	n := 0
	for path, methods := range document.Paths {
		for method, op := range methods {
			n++
			t.Run(op.OperationID, func(t *testing.T) {
				if op.Responses["200"].Content == nil {
					refused(t, strings.ToUpper(method), path, op)
				}
				for media, content := range op.Responses["200"].Content {
					pointer := "openapi.json#/paths/" + url.PathEscape(strings.ReplaceAll(path, "/", "~1")) + "/" +
						method +
						"/responses/200/content/" + url.PathEscape(strings.ReplaceAll(media, "/", "~1")) + "/schema"
					schema, err := compiler.Compile(pointer)
					if err != nil {
						t.Fatal(err)
					}
					got := exampleCall(t, strings.ToUpper(method), path, op)
					check(t, schema, media, content.Example)
					check(t, schema, media, got)
				}
			})
		}
	}
	if n < 35 {
		t.Errorf("the document has %d operations only", n)
	}
}

// TestDescriptions checks that the document has the comments of fields, including those of embedded structs.
func TestDescriptions(t *testing.T) {
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Description string }
			}
		}
	}
	text := do(newServer(newWorld(t)).Handler(), "GET", "/openapi/openapi.json", "").body
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][3]string{
		{"ClusterPipeline", "held", "The position of a strict pipeline has waited for too long: the pipeline writes no " +
			"records until the claim contains the position."},
		{"ClusterPipeline", "member", "Owner; left out while there is none."}, // of an embedded struct
		{"ClusterMember", "name", ""},                                         // no comment
		{"Report", "at", "Time of the last query of the system."},             // of the plugins
		{"DLQ", "keepOriginal", "Dead letters also keep the record as it was read, for replays from the first " +
			"processor."},
	} {
		if got := document.Components.Schemas[want[0]].Properties[want[1]].Description; got != want[2] {
			t.Errorf("%s of %s: got %q, want %q", want[1], want[0], got, want[2])
		}
	}
}

// strict changes the schemas of objects to refuse unknown fields.
func strict(t *testing.T, document []byte) string {
	var v map[string]any
	if err := json.Unmarshal(document, &v); err != nil {
		t.Fatal(err)
	}
	for _, s := range v["components"].(map[string]any)["schemas"].(map[string]any) {
		s.(map[string]any)["additionalProperties"] = false
	}
	text, _ := json.Marshal(v)
	return string(text)
}

func check(t *testing.T, schema *jsonschema.Schema, media string, body []byte) {
	t.Helper()
	var v any = string(body)
	if strings.HasSuffix(media, "json") {
		if err := json.Unmarshal(body, &v); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
	} else if strings.HasPrefix(string(body), `"`) {
		v = strings.Trim(string(body), `"`)
	}
	if err := schema.Validate(v); err != nil {
		t.Errorf("%s: %v", body, err)
	}
}

// refused checks that an operation without a success fails as documented.
func refused(t *testing.T, method, path string, op operation) {
	w, path := exampleWorld(t, path, op)
	got := do(newServer(w).Handler(), method, path, "")
	if _, documented := op.Responses[strconv.Itoa(got.status)]; !documented || got.status == 404 || got.reason() == "" {
		t.Errorf("%s %s: %d %s", method, path, got.status, got.body)
	}
}

// exampleWorld returns a world in which an operation is possible, and the path of the resource there.
func exampleWorld(t *testing.T, path string, op operation) (*world, string) {
	w := newWorld(t)
	orders := pipelineOf("orders", spec.StatusStopped)
	orders.Connectors[0].ID = "shop"
	orders.Processors = []spec.Processor{{ID: "mark", Plugin: "field.set", Workers: 1}}
	declare := func(p spec.Pipeline) {
		err := w.ApplyIf(t.Context(),
			&spec.Changes{Declare: []spec.Declare{{Pipeline: p, Owner: spec.Owner{Kind: spec.OwnerAPI}}},
				Events: []spec.Event{{Type: "normal", Reason: "Declared"}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	id := "orders"
	switch {
	case strings.HasPrefix(path, "/v1/connectors/"):
		id = "orders:shop"
	case strings.HasPrefix(path, "/v1/processors/"):
		id = "orders:mark"
	}
	switch op.OperationID {
	case "inspectDestinationIn", "inspectDestinationOut":
		orders.Connectors[0].Type = spec.TypeDestination
		declare(orders)
	case "getFileContent":
		path += "?path=orders.yaml"
		declare(orders)
	case "dropDeadLetters":
		path += "?all=true"
		declare(orders)
	case "createPipeline":
	case "createConnector", "createProcessor", "deletePipeline":
		declare(
			spec.Pipeline{
				ID:              "orders",
				Name:            "orders",
				Status:          spec.StatusStopped,
				DeadLetterQueue: orders.DeadLetterQueue,
			},
		)
	case "stopPipeline", "restartPipeline":
		orders.Status = spec.StatusRunning
		declare(orders)
	case "purgePipelineHistory":
		declare(orders)
		delete(w.declared, "orders")
	default:
		declare(orders)
	}
	w.files = []spec.FileState{{Path: "orders.yaml", Pipelines: []string{"orders"}}}
	w.positions["orders:shop"] = record.Position("1")
	return w, strings.NewReplacer("{id}", id, "{letter}", "17").Replace(path)
}

// exampleCall performs an operation on a server that supports it.
func exampleCall(t *testing.T, method, path string, op operation) []byte {
	w, path := exampleWorld(t, path, op)
	s := newServer(w)
	store := &fakeDeadLetters{}
	s.DeadLetters, s.Replays, s.Positions, s.Logs = store, store, checkpoints{w}, &fakeLines{}
	s.Trend = func(id, last string) *spec.Trend {
		values := []*float64{nil}
		return &spec.Trend{ID: id, Last: last, Records: values, Bytes: values, Refused: values, Latency: values,
			Lag: values, Destinations: map[string][]*float64{id + ":out": values}}
	}
	s.Cluster = &member{state: spec.MembershipJoined}
	s.Notify = func(context.Context) []spec.NotificationResult { return exampleResults }
	s.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("# metrics\n")) })
	s.Reload = func(context.Context, bool) error { return nil }
	s.Plan = func(context.Context, spec.PlanRequest) (*spec.Plan, error) {
		return &spec.Plan{Pipelines: []spec.PlannedPipeline{}, Problems: []spec.Problem{}}, nil
	}
	s.DryRun = func(context.Context, spec.DryRunRequest) (*spec.DryRun, error) {
		return &spec.DryRun{Records: []spec.DryRunRecord{}, Destinations: map[string][]json.RawMessage{},
			DeadLetters: []spec.DryRunDeadLetter{}}, nil
	}
	if op.Streaming {
		observed := "orders:shop"
		if side, ok := strings.CutPrefix(path, "/v1/processors/orders:mark/inspect-"); ok {
			observed = "orders:mark/" + side
		}
		if strings.HasSuffix(path, "orders:shop/inspect-in") {
			observed += "/in"
		}
		return firstLine(t, w, s, path, observed)
	}
	body := string(op.RequestBody.Content["application/json"].Example)
	if op.OperationID == "applyPipeline" {
		body = asPlanned(t, s.Handler(), body)
	}
	got := do(s.Handler(), method, path, body)
	if got.status != 200 {
		t.Fatalf("%s %s: %d %s", method, path, got.status, got.body)
	}
	return got.body
}

// asPlanned returns the body of a request to apply a document, with the hash of the plan.
func asPlanned(t *testing.T, h http.Handler, body string) string {
	t.Helper()
	var request map[string]any
	if err := json.Unmarshal([]byte(body), &request); err != nil {
		t.Fatal(err)
	}
	delete(request, "hash")
	text, _ := json.Marshal(request)
	got := do(h, "POST", "/v1/pipelines/plan", string(text))
	request["hash"] = got.decode(t)["hash"]
	text, _ = json.Marshal(request)
	return string(text)
}

// firstLine returns the first line of a stream.
func firstLine(t *testing.T, w *world, s *api.Server, path, id string) []byte {
	c, _ := serve(t, s)
	response, err := http.Get(c.URL + path)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v, error %v", response, err)
	}
	defer response.Body.Close()
	w.pass(id, rec(1))
	line, err := bufio.NewReader(response.Body).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// TestErrorsOfTheDocument checks that every status has an example of its own, and that each operation names the
// statuses possible for its kind.
func TestErrorsOfTheDocument(t *testing.T) {
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string
			RequestBody struct{ Content map[string]json.RawMessage }
			Responses   map[string]struct {
				Ref     string `json:"$ref"`
				Headers map[string]any
			}
		}
		Components struct {
			Responses map[string]struct {
				Content map[string]struct{ Example rest.Status }
			}
		}
	}
	if err := json.Unmarshal(do(newServer(newWorld(t)).Handler(), "GET", "/openapi/openapi.json", "").body,
		&document); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for status, response := range document.Components.Responses {
		example := response.Content["application/json"].Example
		if other, again := seen[example.Message]; again || example.Message == "" {
			t.Errorf("%s has the example of %q: %s", status, other, example.Message)
		}
		seen[example.Message] = status
	}
	for path, methods := range document.Paths {
		for method, op := range methods {
			want := []string{"403", "421", "500", "503"}
			if op.RequestBody.Content != nil {
				want = append(want, "400", "413", "415", "401")
			}
			for _, status := range want {
				if _, ok := op.Responses[status]; !ok {
					t.Errorf("%s %s does not name %s", method, path, status)
				}
			}
			for status, response := range op.Responses {
				if _, ok := document.Components.Responses[status]; status != "200" &&
					(!ok || response.Ref != "#/components/responses/"+status) {
					t.Errorf("%s %s: %s is %q", method, path, status, response.Ref)
				}
			}
		}
	}
	if document.Paths["/v1/pipelines/import"]["post"].RequestBody.Content["application/yaml"] == nil {
		t.Error("import does not take YAML")
	}
	if document.Paths["/v1/pipelines/{id}/start"]["post"].Responses["200"].Headers[rest.HeaderGeneration] == nil {
		t.Error("starting has no generation")
	}
}

func TestExplorerLoadsOnlyOwnFiles(t *testing.T) {
	h := newServer(newWorld(t)).Handler()
	for _, path := range []string{"/openapi/", "/openapi/explorer.js", "/openapi/explorer.css"} {
		got := do(h, "GET", path, "")
		if got.status != 200 || strings.Contains(string(got.body), "http://") ||
			strings.Contains(string(got.body), "https://") {
			t.Errorf("%s: %d, or it names another host", path, got.status)
		}
		if csp := got.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") ||
			!strings.Contains(csp, "require-trusted-types-for 'script'") {
			t.Errorf("%s: Content-Security-Policy: %s", path, csp)
		}
	}
	if got := do(h, "GET", "/openapi", ""); got.status != 302 || got.header.Get("Location") != "/openapi/" {
		t.Errorf("/openapi: %d", got.status)
	}
	if got := do(h, "GET", "/openapi/nothing.js", ""); got.status != 404 {
		t.Errorf("a file that is not there: %d", got.status)
	}
}

// TestOtherSpellings sends names in snake case and enums as numbers, as Protocol Buffers allow,
// and parameters that an operation does not have.
func TestOtherSpellings(t *testing.T) {
	w := newWorld(t)
	h := newServer(w).Handler()
	for _, step := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/v1/pipelines",
			`{"id":"p","config":{"name":"n"},"connector_ids":[],"created_at":"2026-01-02T03:04:05Z"}`, 200, `"id":"p"`},
		{"POST", "/v1/connectors",
			`{"id":"a","type":1,"plugin":"generator","pipeline_id":"p","config":{"settings":{"rate":"1","some_unit":"x"}}}`,
			200, `"some_unit":"x"`},
		{"POST", "/v1/connectors", `{"id":"b","type":2,"plugin":"log","pipeline_id":"p"}`, 200,
			`"type":"TYPE_DESTINATION"`},
		{"POST", "/v1/connectors", `{"type":3,"plugin":"log","pipelineId":"p"}`, 400, `"configPath":"type"`},
		{"POST", "/v1/connectors", `{"type":0,"plugin":"log","pipelineId":"p"}`, 400, "connector.invalid_type"},
		{"POST", "/v1/connectors", `{"type":true,"plugin":"log","pipelineId":"p"}`, 400, `"configPath":"type"`},
		{"POST", "/v1/connectors", `{"type":1,"plugin":"log","pipelineId":"p","pipeline_id":"q"}`, 400,
			"config.key_duplicate"},
		{"POST", "/v1/connectors", `{"type":1,"plugin":"log","pipeline_Id":"p"}`, 400, "config.field_unknown"},
		{"POST", "/v1/processors", `{"plugin":"field.set","parent":{"type":2,"id":"p"}}`, 200,
			`"type":"TYPE_PIPELINE"`},
		{"POST", "/v1/processors", `{"plugin":"field.set","parent":{"type":1,"id":"p:a"}}`, 200,
			`"type":"TYPE_CONNECTOR"`},
		{"PUT", "/v1/pipelines/p/dead-letter-queue", `{"plugin":"log","window_size":"7","window_nack_threshold":3}`,
			200, `"windowSize":"7","windowNackThreshold":"3"`},
		{"GET", "/v1/connectors?pipeline_id=p", "", 200, `"id":"p:a"`},
		{"GET", "/v1/connectors?pipeline_id=q", "", 200, "[]"},
		{"GET", "/v1/connectors?pipeline=q", "", 400, `did you mean \"pipelineId\"`},
		{"GET", "/v1/processors?parent_ids=q", "", 200, "[]"},
		{"GET", "/v1/pipelines?foo=bar", "", 400, "config.field_unknown"},
		{"GET", "/v1/pipelines/p?pretty", "", 200, `"id": "p"`},
		{"POST", "/v1/pipelines/p/start?waiting=0", "", 400, "config.field_unknown"},
	} {
		if got := do(h, step.method, step.path, step.body); got.status != step.status ||
			!strings.Contains(string(got.body), step.want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", step.method, step.path, step.body, got.status, got.body,
				step.status, step.want)
		}
	}
}

// exampleResults are results of notifications.
var exampleResults = []spec.NotificationResult{{Target: "command page", Error: "exit status 1"}}
