package api_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// A follower gets everything, then the changes, and a reader learns its role.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	w.files = []spec.FileState{{Path: "orders.yaml", Pipelines: []string{}}}
	s := newServer(w)
	s.Tokens = withTokens("reader", "admin")
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	lines := follow(t, server.URL+"/v1/watch", "reader")
	for _, want := range []string{"event: session", `{"role":"read"}`, "event: statuses", `"all":true`, "event: files",
		"orders.yaml", "event: rates"} {
		lines.until(t, want)
	}
	err := w.ApplyIf(t.Context(),
		&spec.Changes{Declare: []spec.Declare{{Pipeline: pipelineOf("late", spec.StatusRunning),
			Owner: spec.Owner{Kind: spec.OwnerAPI}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines.until(t, `"id":"late"`)
}

// follower reads the lines of a stream.
type follower chan string

func follow(t *testing.T, url, token string) follower {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(follower, 100)
	go func() {
		defer close(lines)
		defer answer.Body.Close()
		for in := bufio.NewScanner(answer.Body); in.Scan(); {
			lines <- in.Text()
		}
	}()
	return lines
}

// until reads up to a line that contains want.
func (f follower) until(t *testing.T, want string) {
	t.Helper()
	late := time.After(wait.Limit)
	for {
		select {
		case line, ok := <-f:
			if !ok {
				t.Fatalf("the stream ended before %s", want)
			}
			if strings.Contains(line, want) {
				return
			}
		case <-late:
			t.Fatalf("there is no %s", want)
		}
	}
}

// The editor gets problems of the file and of plugins with their places, documents for plan and apply, and completions.
func TestEditorHelps(t *testing.T) {
	h := newServer(newWorld(t)).Handler()
	ask := func(content string, line, column int) rest.EditorAnswer {
		t.Helper()
		body, err := json.Marshal(rest.EditorRequest{Path: "p.yaml", Content: content, Line: line, Column: column})
		if err != nil {
			t.Fatal(err)
		}
		got := do(h, "POST", "/v1/editor", string(body))
		var a rest.EditorAnswer
		if err := json.Unmarshal(got.body, &a); err != nil || got.status != 200 {
			t.Fatalf("%d %s %v", got.status, got.body, err)
		}
		return a
	}
	const text = "version: \"2.2\"\npipelines:\n  - id: p\n    connectors:\n      - id: in\n        type: source\n   " +
		"     plugin: bad\n        settings: {password: '***'}\n      - {id: out, type: destination, plugin: log}\n"
	a := ask(text, 0, 0)
	if len(a.Problems) != 1 || a.Problems[0].Line != 7 || a.Problems[0].Column != 17 ||
		a.Problems[0].File != "p.yaml" || a.Problems[0].Message != "is bad" {
		t.Errorf("problems are %+v", a.Problems)
	}
	if len(a.Documents) != 1 || a.Documents[0].ID != "p" ||
		a.Documents[0].Connectors[0].Settings["password"] != spec.Redacted || len(a.Completions) != 0 {
		t.Errorf("the answer is %+v", a)
	}
	a = ask(strings.Replace(text, "type: source", "type: sauce", 1), 3, 5)
	if len(a.Problems) != 1 || a.Problems[0].Line != 6 || len(a.Documents) != 0 {
		t.Errorf("the answer is %+v", a)
	}
	if a = ask(text+"    sta", 10, 8); len(a.Completions) == 0 || a.Completions[0].Insert != "status: " {
		t.Errorf("completions are %+v", a.Completions)
	}
}

// A file is shown to administrators, without secrets, and only if the agent follows it.
func TestFileContent(t *testing.T) {
	w := newWorld(t)
	w.files = []spec.FileState{{Path: "orders.yaml"}}
	s := newServer(w)
	s.Tokens = withTokens("reader", "admin")
	h := s.Handler()
	got := do(h, "GET", "/v1/files/content?path=orders.yaml", "", "Authorization", "Bearer admin")
	if got.status != 200 || strings.Contains(string(got.body), "hunter2") ||
		!strings.Contains(string(got.body), "password: ***") {
		t.Errorf("%d %s", got.status, got.body)
	}
	for _, path := range []string{"/etc/passwd", "../conduit.db", "other.yaml", ""} {
		if got := do(h, "GET", "/v1/files/content?path="+path, "", "Authorization", "Bearer admin"); got.status != 404 {
			t.Errorf("%q: %d %s", path, got.status, got.body)
		}
	}
	if got := do(h, "GET", "/v1/files/content?path=orders.yaml", "", "Authorization",
		"Bearer reader"); got.status != 403 {
		t.Errorf("a reader gets %d %s", got.status, got.body)
	}
}

// Processors are checked when they are created: the plugin, and each setting.
func TestProcessorsAreCheckedWhenCreated(t *testing.T) {
	w := newWorld(t)
	err := w.ApplyIf(t.Context(), &spec.Changes{Declare: []spec.Declare{{Pipeline: pipelineOf("p", spec.StatusStopped),
		Owner: spec.Owner{Kind: spec.OwnerAPI}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := newServer(w).Handler()
	create := func(plugin, settings string) call {
		return do(h, "POST", "/v1/processors",
			`{"plugin":"`+plugin+`","parent":{"type":"TYPE_PIPELINE","id":"p"},"config":{"settings":{`+settings+`}}}`)
	}
	if got := create("nonexistent", ""); got.status != 404 || got.reason() != "processor.plugin_not_found" {
		t.Errorf("an unknown plugin: %d %s", got.status, got.body)
	}
	if got := create("field.set", `"bad":"x"`); got.status != 400 ||
		rest.ParseError(got.status, got.body).Metadata["configPath"] != "config.settings.bad" {
		t.Errorf("a bad setting: %d %s", got.status, got.body)
	}
	if got := create("field.set", `"field":".Key"`); got.status != 200 {
		t.Errorf("a good one: %d %s", got.status, got.body)
	}
}
