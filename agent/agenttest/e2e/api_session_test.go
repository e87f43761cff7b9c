package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/spec"
)

// inspected is a record as the inspector shows it.
type inspected struct {
	Position  []byte
	Operation string
	Metadata  map[string]string
	Key       map[string]json.RawMessage
	Payload   struct {
		After struct{ StructuredData map[string]any }
	}
}

// check reports errors in a record of the connector.
func (r *inspected) check(t *testing.T, connector string) {
	t.Helper()
	if len(r.Position) == 0 || r.Operation != "OPERATION_CREATE" || len(r.Key) == 0 ||
		r.Payload.After.StructuredData["name"] == nil {
		t.Errorf("record %+v", r)
	}
	for key, want := range map[string]string{
		"conduit.source.connector.id":    connector,
		"opencdc.payload.schema.subject": connector + ":payload",
		"opencdc.payload.schema.version": "1",
	} {
		if r.Metadata[key] != want {
			t.Errorf("metadata %s is %q, want %q", key, r.Metadata[key], want)
		}
	}
	if r.Metadata["opencdc.readAt"] == "" {
		t.Errorf("metadata %v", r.Metadata)
	}
}

// The agent assigns the ids here. The inspector is queried over WebSocket and over plain HTTP.
func TestSessionWithIdsOfTheAgent(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	var p, source, destination struct{ ID string }
	w.Must("POST", "/v1/pipelines", `{"config":{"name":"demo","description":"d"}}`, &p)
	create := func(typ, plugin, settings string, out any) {
		t.Helper()
		w.Must("POST", "/v1/connectors", fmt.Sprintf(
			`{"type":%q,"plugin":%q,"pipelineId":%q,"config":{"name":"c","settings":%s}}`, typ, plugin, p.ID, settings),
			out)
	}
	create("TYPE_SOURCE", "generator",
		`{"format.type":"structured","format.options.name":"string","format.options.at":"time","rate":"200"}`, &source)
	create("TYPE_DESTINATION", "log", `{}`, &destination)
	if !strings.HasPrefix(source.ID, p.ID+":") || !strings.HasPrefix(destination.ID, p.ID+":") {
		t.Fatalf("ids %s, %s and %s", p.ID, source.ID, destination.ID)
	}
	w.Must("POST", "/v1/pipelines/"+p.ID+"/start", "", nil)
	for _, id := range []string{source.ID, destination.ID} {
		for _, text := range append(w.Records(id, 3), plainly(t, w, id)) {
			var r inspected
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			r.check(t, source.ID)
		}
	}
	for _, path := range []string{"/v1/connectors/" + source.ID, "/v1/pipelines/" + p.ID} {
		if got := w.Do("DELETE", path, ""); got.Status != http.StatusBadRequest ||
			!strings.Contains(got.Body, "pipeline.running") && !strings.Contains(got.Body, "attached") {
			t.Errorf("DELETE %s of a running pipeline: %d %s", path, got.Status, got.Body)
		}
	}
	w.Must("POST", "/v1/pipelines/"+p.ID+"/stop", "", nil)
	if s := w.State(p.ID); s.Phase != spec.PhaseStopped {
		t.Errorf("stop answered when the pipeline is %s", s.Phase)
	}
	for _, path := range []string{"/v1/connectors/" + source.ID, "/v1/connectors/" + destination.ID,
		"/v1/pipelines/" + p.ID} {
		w.Must("DELETE", path, "", nil)
		if got := w.Do("GET", path, ""); got.Status != http.StatusNotFound {
			t.Errorf("GET %s after its deletion: %d", path, got.Status)
		}
	}
}

// plainly returns the first record of an inspection without WebSocket.
func plainly(t *testing.T, w *web, connector string) json.RawMessage {
	t.Helper()
	response, err := http.Get(w.API.URL + "/v1/connectors/" + connector + "/inspect")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var message struct{ Result json.RawMessage }
	if err := json.NewDecoder(response.Body).Decode(&message); err != nil {
		t.Fatal(err)
	}
	return message.Result
}

// journalAt creates a pipeline p from the journal to a file, and returns a function that reads the calls of the plugin.
func journalAt(t *testing.T) (*web, func() string) {
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "journal")
	w := startWeb(t, dir)
	w.Must("POST", "/v1/pipelines", `{"id":"p","config":{"name":"p"}}`, nil)
	w.Must("POST", "/v1/connectors", fmt.Sprintf(
		`{"id":"dst","type":"TYPE_DESTINATION","plugin":"file","pipelineId":"p","config":{"settings":{"path":"%s/p.jsonl"}}}`,
		dir), nil)
	read := 0
	return w, func() string {
		b, err := os.ReadFile(w.Path("journal"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		calls := slices.Collect(strings.Lines(string(b[read:])))
		read = len(b)
		return strings.ReplaceAll(strings.Join(calls, ""), "\n", "; ")
	}
}

const journalSource = `{"id":"src","type":"TYPE_SOURCE","plugin":"journal","pipelineId":"p",` +
	`"config":{"settings":{"v":"%s"}}}`

// Creation validates the settings with a new instance. Only instances that were started receive events.
func TestLifecycleOverTheAPI(t *testing.T) {
	t.Parallel()
	w, calls := journalAt(t)
	want := func(what, want string) {
		t.Helper()
		if got := calls(); got != want {
			t.Errorf("%s: calls %q, want %q", what, got, want)
		}
	}
	create := fmt.Sprintf(journalSource, "1")
	const checked = "validate-source-config Configure v=1; validate-source-config Teardown; "
	w.Must("POST", "/v1/connectors", create, nil)
	want("create", checked)
	w.Must("DELETE", "/v1/connectors/p:src", "", nil)
	want("delete what never ran", "")

	w.Must("POST", "/v1/connectors", create, nil)
	want("create again", checked)
	w.Must("POST", "/v1/pipelines/p/start", "", nil)
	w.Wait("records", func() bool { return agenttest.FileSize(w.Path("p.jsonl")) > 0 })
	w.Must("POST", "/v1/pipelines/p/stop", "", nil)
	want("run", "p:src Configure v=1; p:src OnCreated v=1; p:src Open; p:src Teardown; ")
	w.Must("PUT", "/v1/connectors/p:src", `{"config":{"settings":{"v":"2"}}}`, nil)
	want("update", "validate-source-config Configure v=2; validate-source-config Teardown; ")
	w.Must("DELETE", "/v1/connectors/p:src", "", nil)
	want("delete", "p:src OnDeleted v=1; p:src Teardown; ") // the version that ran last

	// A new connector of the same id is another one.
	w.Must("POST", "/v1/connectors", create, nil)
	want("create once more", checked)
	w.Must("POST", "/v1/pipelines/p/start", "", nil)
	w.Must("POST", "/v1/pipelines/p/stop", "", nil)
	want("run once more", "p:src Configure v=1; p:src OnCreated v=1; p:src Open; p:src Teardown; ")
}

func TestCreatingIsAbortedWhenThePluginRefuses(t *testing.T) {
	t.Parallel()
	w, calls := journalAt(t)
	for name, c := range map[string]struct{ body, field string }{
		"unknown setting": {strings.Replace(fmt.Sprintf(journalSource, "1"), `"v"`, `"w"`, 1), "config.settings.w"},
		"bad value": {`{"type":"TYPE_SOURCE","plugin":"generator","pipelineId":"p","config":{"settings":{"rate":"fast"}}}`,
			"config.settings.rate"},
		"missing": {`{"type":"TYPE_DESTINATION","plugin":"file","pipelineId":"p","config":{}}`, "config.settings.path"},
	} {
		got := w.Do("POST", "/v1/connectors", c.body)
		if _, field := got.Reason(); got.Status != http.StatusBadRequest || field != c.field {
			t.Errorf("%s: %d %s, want 400 for %s", name, got.Status, got.Body, c.field)
		}
	}
	calls()
	agenttest.While(t, w.Path("fail-Configure"), func() {
		got := w.Do("POST", "/v1/connectors", fmt.Sprintf(journalSource, "1"))
		if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "Configure was made to fail") {
			t.Errorf("Configure that fails: %d %s", got.Status, got.Body)
		}
	})
	if got, want := calls(), "validate-source-config Configure v=1; validate-source-config Teardown; "; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	var all []struct{ ID string }
	w.Must("GET", "/v1/connectors?pipelineId=p", "", &all)
	if len(all) != 1 || all[0].ID != "p:dst" {
		t.Errorf("connectors %v are left", all)
	}
}
