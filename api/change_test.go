package api_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// TestNoUpdateIsLost lets 50 clients increment a number in the same description. Each retries when another one was
// faster.
func TestNoUpdateIsLost(t *testing.T) {
	h := newServer(newWorld(t)).Handler()
	do(h, "POST", "/v1/pipelines", `{"id":"p","config":{"name":"n","description":"0"}}`)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for {
				before := do(h, "GET", "/v1/pipelines/p", "")
				config := before.decode(t)["config"].(map[string]any)
				n, _ := strconv.Atoi(config["description"].(string))
				got := do(h, "PUT", "/v1/pipelines/p", fmt.Sprintf(`{"config":{"name":"n","description":"%d"}}`, n+1),
					"If-Match", before.header.Get("ETag"))
				if got.status == 200 {
					return
				}
				if got.status != 412 {
					t.Errorf("%d %s", got.status, got.body)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := do(h, "GET", "/v1/pipelines/p", ""); !strings.Contains(string(got.body), `"description":"50"`) {
		t.Errorf("after 50 updates: %s", got.body)
	}
}

// TestConcurrentAdditions lets many clients add to the same pipeline without knowing of each other.
func TestConcurrentAdditions(t *testing.T) {
	w := newWorld(t)
	h := newServer(w).Handler()
	do(h, "POST", "/v1/pipelines", `{"id":"p","config":{"name":"n"}}`)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got := do(h, "POST", "/v1/connectors", `{"type":"TYPE_SOURCE","plugin":"generator","pipelineId":"p"}`,
				"Idempotency-Key", ""); got.status != 200 {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	wg.Wait()
	if n := len(w.declared["p"].Pipeline.Connectors); n != 20 {
		t.Errorf("%d connectors, want 20", n)
	}
}

func TestIdempotencyKey(t *testing.T) {
	w := newWorld(t)
	h := newServer(w).Handler()
	create := func(name string) call {
		return do(h, "POST", "/v1/pipelines", `{"config":{"name":"`+name+`"}}`, "Idempotency-Key", "k")
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { create("n") })
	}
	wg.Wait()
	if len(w.declared) != 1 {
		t.Errorf("%d pipelines were created with one key", len(w.declared))
	}
	if got := create("n"); got.status != 200 || got.header.Get("ETag") == "" {
		t.Errorf("repeated: %d %s", got.status, got.body)
	}
	if got := create("other"); got.reason() != rest.ReasonKeyReused {
		t.Errorf("another request with the key: %d %s", got.status, got.body)
	}
}

// TestReadersKeepNothing sends requests that change nothing with a key: their answers are not stored, and the key stays
// free for a write.
func TestReadersKeepNothing(t *testing.T) {
	w := newWorld(t)
	w.fromFile("p.yaml", pipelineOf("p", spec.StatusStopped))
	s := newServer(w)
	s.Tokens = withTokens("reader", "admin")
	h := s.Handler()
	for _, token := range []string{"reader", "admin"} {
		for range 2 {
			got := do(h, "POST", "/v1/pipelines/p/export", "", "Idempotency-Key", "k", "Authorization", "Bearer "+token)
			if got.status != 200 || got.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("export with the %s token: %d %s", token, got.status, got.body)
			}
		}
	}
	if got := do(h, "POST", "/v1/pipelines", `{"config":{"name":"n"}}`, "Idempotency-Key", "other", "Authorization",
		"Bearer reader"); got.status != 403 || len(w.answers) != 0 {
		t.Errorf("a write with the read token: %d, %d answers are kept", got.status, len(w.answers))
	}
	if got := do(h, "POST", "/v1/pipelines", `{"config":{"name":"n"}}`, "Idempotency-Key", "k", "Authorization",
		"Bearer admin"); got.status != 200 || len(w.answers) != 1 {
		t.Errorf("a write with the same key: %d %s, %d answers are kept", got.status, got.body, len(w.answers))
	}
}

func TestAdopt(t *testing.T) {
	w := newWorld(t)
	h := newServer(w).Handler()
	do(h, "POST", "/v1/pipelines", `{"id":"p","config":{"name":"n"}}`)
	w.files = []spec.FileState{{Path: "p.yaml", Pipelines: []string{"p"}}, {Path: "q.yaml", Pipelines: []string{"p"}}}
	if got := do(h, "POST", "/v1/pipelines/p/adopt", ""); got.status != 400 {
		t.Errorf("two files: %d %s", got.status, got.body)
	}
	generation := w.declared["p"].Generation
	if got := do(h, "POST", "/v1/pipelines/p/adopt", `{"path":"q.yaml"}`); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if d := w.declared["p"]; d.Owner != (spec.Owner{Kind: spec.OwnerFile, Path: "q.yaml"}) ||
		d.Generation != generation {
		t.Errorf("owned by %+v, generation %d", d.Owner, d.Generation)
	}
}

func TestImportIsAllOrNothing(t *testing.T) {
	w := newWorld(t)
	w.fromFile("filed.yaml", pipelineOf("filed", spec.StatusStopped))
	h := newServer(w).Handler()
	both := string(spec.Marshal(pipelineOf("new", spec.StatusStopped), pipelineOf("filed", spec.StatusStopped)))
	if got := do(h, "POST", "/v1/pipelines/import", both, "Content-Type", "application/yaml"); got.status != 409 ||
		w.declared["new"] != nil {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := do(h, "POST", "/v1/pipelines/import", "version: 2.2\npipelines: [{id: a, nme: b}]", "Content-Type",
		"application/yaml"); got.reason() != spec.CodeUnknown {
		t.Errorf("%d %s", got.status, got.body)
	}
	secret := pipelineOf("s", spec.StatusStopped)
	secret.Connectors[0].Settings["password"] = spec.Redacted
	if got := do(h, "POST", "/v1/pipelines/import", string(spec.Marshal(secret)), "Content-Type",
		"application/yaml"); got.status != 400 {
		t.Errorf("*** without a secret to keep: %d %s", got.status, got.body)
	}
}

// A new pipeline needs a free name; a pipeline that already has a taken name may keep it.
func TestNamesThatAreTaken(t *testing.T) {
	w := newWorld(t)
	h := newServer(w).Handler()
	do(h, "POST", "/v1/pipelines", `{"id":"p","config":{"name":"n"}}`)
	do(h, "POST", "/v1/connectors", `{"id":"gen","type":"TYPE_SOURCE","plugin":"generator","pipelineId":"p"}`)
	do(h, "POST", "/v1/connectors", `{"id":"out","type":"TYPE_DESTINATION","plugin":"log","pipelineId":"p"}`)
	do(h, "POST", "/v1/pipelines/p/start", "")
	filed := pipelineOf("filed", spec.StatusStopped)
	filed.Name = "n"
	w.fromFile("filed.yaml", filed)
	for _, request := range []struct{ method, path, body string }{
		{"POST", "/v1/pipelines/p/stop", ""},
		{"PUT", "/v1/connectors/p:gen", `{"config":{"settings":{"rate":"2"}}}`},
		{"PUT", "/v1/pipelines/p", `{"config":{"name":"n","description":"d"}}`},
		{"POST", "/v1/pipelines/p/start", ""},
		{"PUT", "/v1/pipelines/p", `{"config":{"name":"m"}}`},
	} {
		if got := do(h, request.method, request.path, request.body); got.status != 200 {
			t.Errorf("%s %s: %d %s", request.method, request.path, got.status, got.body)
		}
	}
	two := string(spec.Marshal(named("a", "twice"), named("b", "twice")))
	for _, request := range []struct{ method, path, body, media string }{
		{"PUT", "/v1/pipelines/p", `{"config":{"name":"n"}}`, "application/json"},
		{"POST", "/v1/pipelines", `{"config":{"name":"n"}}`, "application/json"},
		{"POST", "/v1/pipelines/import", two, "application/yaml"},
	} {
		if got := do(h, request.method, request.path, request.body, "Content-Type",
			request.media); got.reason() != rest.ReasonPipelineNameExists {
			t.Errorf("%s %s %s: %d %s", request.method, request.path, request.body, got.status, got.body)
		}
	}
	swapped := string(spec.Marshal(named("p", "filed"), named("q", "m")))
	if got := do(h, "POST", "/v1/pipelines/import?live", swapped, "Content-Type",
		"application/yaml"); got.status != 200 {
		t.Errorf("a name that the same import frees: %d %s", got.status, got.body)
	}
}

func named(id, name string) spec.Pipeline {
	p := pipelineOf(id, spec.StatusStopped)
	p.Name = name
	return p
}

// An export without its secrets says so, and is no pipeline file; a complete export does not say so.
func TestExportsSayWhatTheyLack(t *testing.T) {
	w := newWorld(t)
	p := pipelineOf("p", spec.StatusStopped)
	p.DeadLetterQueue.Settings = map[string]string{"level": "warn", "message": "postgres://u:hunter2@h/db"}
	w.fromFile("p.yaml", p)
	w.fromFile("q.yaml", pipelineOf("q", spec.StatusStopped))
	h := newServer(w).Handler()
	file := do(h, "POST", "/v1/pipelines/p/export", "").body
	if text := string(file); !strings.HasPrefix(text, "# *** stands for a redacted secret") ||
		!strings.Contains(text, "message: '***'") {
		t.Errorf("%s", text)
	}
	if f := spec.ParseFile("p.yaml", file); len(f.Pipelines) != 0 || len(f.Invalid) != 1 ||
		!strings.HasSuffix(f.Problems[0].Path, "/dead-letter-queue/settings/message") {
		t.Errorf("read as a file: %+v", f)
	}
	if f := spec.ParseExport(file); len(f.Pipelines) != 1 || len(f.Problems) != 0 {
		t.Errorf("read as an export: %+v", f)
	}
	if text := string(do(h, "POST", "/v1/pipelines/q/export", "").body); strings.Contains(text, "***") {
		t.Errorf("%s", text)
	}
}

// TestBodies checks that ambiguous JSON is refused, with its place.
func TestBodies(t *testing.T) {
	h := newServer(newWorld(t)).Handler()
	for _, c := range []struct{ body, reason, field string }{
		{`{"config":{"name":"a","name":"b"}}`, spec.CodeDuplicateKey, "config.name"},
		{`{"config":{"name":1}}`, spec.CodeInvalid, "config.name"},
		{`{"confg":{}}`, spec.CodeUnknown, "confg"},
		{`{"createdAt":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, rest.ReasonParse, ""},
		{`{"config":{"name":"a"}} {}`, rest.ReasonParse, ""},
		{"{\"config\":{\"name\":\"\xff\"}}", rest.ReasonParse, ""},
		{`[]`, spec.CodeInvalid, ""},
		{`{`, rest.ReasonParse, ""},
	} {
		got := do(h, "POST", "/v1/pipelines", c.body)
		e := rest.ParseError(got.status, got.body)
		if got.status != 400 || e.Reason != c.reason || e.Metadata["configPath"] != c.field {
			t.Errorf("%.60q: %d %s, want %s at %q", c.body, got.status, got.body, c.reason, c.field)
		}
	}
}

// Errors name the field, the pipeline of an import and the place in the text, and list all problems.
func TestPlacesOfErrors(t *testing.T) {
	w := newWorld(t)
	w.fromAPI(pipelineOf("p", spec.StatusStopped))
	h := newServer(w).Handler()
	bad := pipelineOf("b", spec.StatusStopped)
	bad.Connectors[0].Settings["rate"] = "much"
	bad.Connectors[1].Plugin = "builtin:nothing"
	bad.DeadLetterQueue = spec.DeadLetterQueue{
		Plugin:     "builtin:log",
		Settings:   map[string]string{"rate": "less"},
		WindowSize: 1,
	}
	worse := pipelineOf("c", spec.StatusStopped)
	worse.Connectors[0].Settings["password"] = spec.Redacted
	file, _ := json.Marshal(rest.Import{Version: "2.2",
		Pipelines: []spec.Pipeline{pipelineOf("a", spec.StatusStopped), bad, worse}})
	const b, c = "pipelines[1].", "pipelines[2]."
	for _, test := range []struct{ method, path, body, fields, message string }{
		{"POST", "/v1/connectors", `{"type":"TYPE_SOURCE","plugin":"generator"}`, "pipelineId",
			"pipelineId is missing"},
		{"POST", "/v1/connectors", `{"type":"TYPE_SOURCE","plugin":"generator","pipelineId":"nope"}`, "pipelineId",
			`"nope" not found`},
		{"POST", "/v1/processors", `{"plugin":"x","parent":{"type":"TYPE_CONNECTOR","id":"nope"}}`, "parent.id",
			`"nope" not found`},
		{"POST", "/v1/pipelines", `[]`, "", "the body must be an object, not array"},
		{"POST", "/v1/pipelines", `{oops`, "", "line 1, column 2: invalid character 'o'"},
		{"POST", "/v1/pipelines", "{\n  \"id\": nope}", "", "line 2, column 10: invalid character 'o'"},
		{"POST", "/v1/pipelines", "{\n", "", "too early, in line 2"},
		{"POST", "/v1/pipelines/import", `{"pipelines":[{"id":"x","nme":"y"}]}`, "pipelines[0].nme", "has no field"},
		{"POST", "/v1/pipelines/import", string(file),
			strings.Join([]string{b + "connectors[0].settings.rate", b + "connectors[1].plugin",
				b + "dead-letter-queue.settings.rate", c + "connectors[0].settings.password"}, " "),
			"invalid connector config"},
	} {
		got := do(h, test.method, test.path, test.body)
		e := rest.ParseError(got.status, got.body)
		var fields []string
		for _, v := range e.Violations {
			fields = append(fields, v.Field)
		}
		first, _, _ := strings.Cut(test.fields, " ")
		if e.Metadata["configPath"] != first || len(fields) > 0 && strings.Join(fields, " ") != test.fields ||
			!strings.Contains(e.Message, test.message) {
			t.Errorf("%s %s: %s", test.path, test.body, got.body)
		}
	}
	if w.declared["a"] != nil {
		t.Error("what was right was imported")
	}
}

func FuzzBody(f *testing.F) {
	f.Add(`{"id":"p","config":{"name":"n"}}`)
	f.Add(`{"a":[{"b":{}}],"a":1e999}`)
	f.Add("\"\\ud800")
	f.Fuzz(func(t *testing.T, body string) {
		if body == "" {
			return
		}
		got := do(newServer(newWorld(t)).Handler(), "POST",
			"/v1/pipelines", body)
		if got.status != 200 && (got.status < 400 || got.status > 499) {
			t.Errorf("%q: %d %s", body, got.status, got.body)
		}
		got.decode(t)
	})
}

func TestSecrets(t *testing.T) {
	w := newWorld(t)
	p := pipelineOf("p", spec.StatusStopped)
	shown := map[string]string{"rate": "1", "format.options.key.enabled": "true", "primaryKey": "id",
		"password": "${PASSWORD}", "path": "/tmp/x"}
	hidden := map[string]string{"db.password": "canary", "apiKey": "canary", "AWS_SECRET": "canary",
		"auth.token": "canary",
		"url":        "postgres://user:canary@host/db", "pass.credential": "pre-${X:-canary}",
		"jaas": `login password="canary";`}
	p.Connectors[0].Settings = map[string]string{}
	for _, m := range []map[string]string{shown, hidden} {
		for name, value := range m {
			p.Connectors[0].Settings[name] = value
		}
	}
	w.fromFile("p.yaml", p)
	state := w.states["p"]
	state.LastGood = &spec.LastGood{Pipeline: p}
	w.states["p"] = state
	h := newServer(w).Handler()
	settings := do(h, "GET", "/v1/connectors/p:gen",
		"").decode(t)["config"].(map[string]any)["settings"].(map[string]any)
	for name, value := range shown {
		if settings[name] != value {
			t.Errorf("%s is %v, want it as declared", name, settings[name])
		}
	}
	for name := range hidden {
		if settings[name] != spec.Redacted {
			t.Errorf("%s is %v, want it hidden", name, settings[name])
		}
	}
	for _, path := range []string{"GET /v1/connectors", "GET /v1/pipelines/p/status", "GET /v1/pipelines/p/history",
		"POST /v1/pipelines/p/export"} {
		method, path, _ := strings.Cut(path, " ")
		if got := do(h, method, path, ""); got.status != 200 || strings.Contains(string(got.body), "canary") {
			t.Errorf("%s: %d shows a secret: %s", path, got.status, got.body)
		}
	}
}

// TestRequestsReadWhatTheyNeed counts the reads of desired state by requests: a change reads its pipeline before and
// after, and reads all pipelines only to check that names are unique.
func TestRequestsReadWhatTheyNeed(t *testing.T) {
	w := newWorld(t)
	h := newServer(w).Handler()
	for _, step := range []struct {
		method, path, body string
		reads, gets        int
	}{
		{"POST", "/v1/pipelines", `{"id":"p","config":{"name":"p"}}`, 1, 2},
		{"GET", "/v1/pipelines/p", "", 0, 1},
		{"PUT", "/v1/pipelines/p", `{"config":{"name":"p","description":"d"}}`, 0, 2},
		{"PUT", "/v1/pipelines/p", `{"config":{"name":"q"}}`, 1, 2},
		{"POST", "/v1/connectors", `{"id":"in","type":"TYPE_SOURCE","plugin":"generator","pipelineId":"p"}`, 1, 2},
		{"POST", "/v1/connectors", `{"id":"out","type":"TYPE_DESTINATION","plugin":"log","pipelineId":"p"}`, 1, 2},
		{"GET", "/v1/connectors/p:in", "", 0, 1},
		{"PUT", "/v1/connectors/p:in", `{"config":{"settings":{"rate":"2"}}}`, 0, 2},
		{"POST", "/v1/processors", `{"id":"m","plugin":"field.set","parent":{"type":"TYPE_CONNECTOR","id":"p:in"}}`, 0,
			2},
		{"GET", "/v1/processors/p:in:m", "", 0, 2}, // the pipeline might be p:in
		{"DELETE", "/v1/processors/p:in:m", "", 0, 3},
		{"PUT", "/v1/pipelines/p/dead-letter-queue", `{"plugin":"log"}`, 0, 2},
		{"POST", "/v1/pipelines/p/start", "", 0, 2},
		{"GET", "/v1/pipelines/p/status", "", 0, 1},
		{"GET", "/v1/connectors", "", 1, 0},
		{"POST", "/v1/pipelines/p/stop", "", 0, 2},
		{"DELETE", "/v1/connectors/p:in", "", 0, 2},
	} {
		w.reads, w.gets = 0, 0
		if got := do(h, step.method, step.path, step.body); got.status != 200 || w.reads > step.reads ||
			w.gets > step.gets {
			t.Errorf("%s %s: %d %s; read all %d times, want at most %d, and one %d times, want at most %d",
				step.method, step.path, got.status, got.body, w.reads, step.reads, w.gets, step.gets)
		}
	}
}
