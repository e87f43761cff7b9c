package cli

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "github.com/mattn/go-sqlite3"

	"github.com/conduit-agent/conduit/agent/migrate"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/spec"
)

// conduitEntries are the entries that a Conduit stores for a pipeline.
var conduitEntries = map[string]string{
	"pipeline:instance:orders": `{"ID":"orders","Config":{"Name":"orders","Description":"of the shop"},
		"Error":"","Status":2,
		"DLQ":{"Plugin":"builtin:log","Settings":{"level":"warn"},"WindowSize":5,"WindowNackThreshold":2},
		"ConnectorIDs":["orders:in","orders:out"],"ProcessorIDs":["orders:p1"]}`,
	"connector:instance:orders:in": `{"ID":"orders:in","Type":1,"Plugin":"builtin:file@v0.10.8","PipelineID":"orders",
		"Config":{"Name":"in","Settings":{"path":"in.txt"}},
		"ProcessorIDs":[],"State":{"Position":"MjY="},"LastActiveConfig":{"Name":"in","Settings":{"path":"old.txt"}}}`,
	"connector:instance:orders:out": `{"ID":"orders:out","Type":2,"Plugin":"standalone:postgres","PipelineID":"orders",
		"Config":{"Name":"out","Settings":{"url":"postgres://me:secret@db"}},
		"ProcessorIDs":["orders:out:p2"],"State":{"Positions":{"orders:in":"MjY="}},"LastActiveConfig":{"Name":"out",
		"Settings":{"url":"postgres://me:secret@db"}}}`,
	"processor:instance:orders:p1": `{"ID":"orders:p1","Plugin":"field.set","Condition":"{{ true ` +
		`}}","Config":{"Settings":{"field":".Key"},"Workers":2}}`,
	"processor:instance:orders:out:p2": `{"ID":"orders:out:p2","Plugin":"filter","Config":{"Settings":null,"Workers":1}}`,
	"connector:instance:broken":        `{`,
	"something:else":                   `1`,
}

func conduitDatabase(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "conduit.db")
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE conduit_kv_store (key TEXT PRIMARY KEY, value BLOB)"); err !=
		nil {
		t.Fatal(err)
	}
	for key, value := range conduitEntries {
		if _, err := db.ExecContext(t.Context(), "INSERT INTO conduit_kv_store VALUES (?, ?)", key,
			[]byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func conduitOrders(url string) spec.Pipeline {
	return spec.Pipeline{ID: "orders", Status: spec.StatusStopped, Name: "orders", Description: "of the shop",
		Connectors: []spec.Connector{
			{ID: "in", Type: spec.TypeSource, Plugin: "builtin:file@v0.10.8", Name: "in",
				Settings: map[string]string{"path": "in.txt"}},
			{ID: "out", Type: spec.TypeDestination, Plugin: "standalone:postgres", Name: "out",
				Settings:   map[string]string{"url": url},
				Processors: []spec.Processor{{ID: "p2", Plugin: "filter", Workers: 1}}},
		},
		Processors: []spec.Processor{{ID: "p1", Plugin: "field.set", Condition: "{{ true }}",
			Settings: map[string]string{"field": ".Key"}, Workers: 2}},
		DeadLetterQueue: spec.DeadLetterQueue{
			Plugin:              "builtin:log",
			Settings:            map[string]string{"level": "warn"},
			WindowSize:          5,
			WindowNackThreshold: 2,
		},
	}
}

var conduitCheckpoint = spec.Checkpoint{
	ConnectorID: "orders:in", PipelineID: "orders", Plugin: "file", Position: []byte("26"),
}

// The store receives the content of a Conduit's SQLite file: the pipeline, stopped, the position, and the connectors
// that were started with their settings.
func TestMigrateFromDatabase(t *testing.T) {
	found, err := migrate.FromDatabase(t.Context(), conduitDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]spec.Pipeline{conduitOrders("postgres://me:secret@db")}, found.Pipelines); diff != "" {
		t.Error(diff)
	}
	if !found.Running["orders"] {
		t.Error("a pipeline that its Conduit would run again counts as stopped")
	}
	if len(found.Notes) != 1 || !strings.Contains(found.Notes[0], "connector:instance:broken cannot be read") {
		t.Errorf("notes: %q", found.Notes)
	}
	path := filepath.Join(t.TempDir(), "agent.db")
	if err := found.Write(t.Context(), path, migrate.Owner{}); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Get(t.Context(), "orders")
	if err != nil || d.Owner.Kind != spec.OwnerAPI || d.Want() != spec.StatusStopped ||
		!spec.Equal(&d.Pipeline, &found.Pipelines[0]) {
		t.Errorf("declared %+v, %v", d, err)
	}
	c, err := db.Checkpoint(t.Context(), "orders:in")
	if err != nil || string(c.PositionFor("file")) != "26" {
		t.Errorf("checkpoint %+v, %v", c, err)
	}
	s, err := db.ConnectorState(t.Context(), "orders:in")
	if err != nil || s == nil || s.Active["path"] != "old.txt" {
		t.Errorf("state of the connector %+v, %v", s, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := found.Write(t.Context(), path, migrate.Owner{}); err == nil ||
		!strings.Contains(err.Error(), `"orders": the store has a pipeline with this id`) {
		t.Errorf("a second time: %v", err)
	}
}

// replaceEntries sets values of the database.
func replaceEntries(t *testing.T, path string, values map[string]string) {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for key, value := range values {
		if _, err := db.ExecContext(t.Context(), "INSERT OR REPLACE INTO conduit_kv_store VALUES (?, ?)", key,
			[]byte(value)); err != nil {
			t.Fatal(err)
		}
	}
}

// Resources that are missing in the lists of ids are found by the name of their owner, and pipelines that a Conduit
// would run again count as running.
func TestMigrateFromDatabaseWithoutLists(t *testing.T) {
	path := conduitDatabase(t)
	replaceEntries(t, path, map[string]string{
		"pipeline:instance:orders": `{"ID":"orders","Config":{"Name":"orders","Description":"of the ` +
			`shop"},"Status":3,"DLQ":{"Plugin":"builtin:log","Settings":{"level":"warn"},"WindowSize":5,` +
			`"WindowNackThreshold":2}}`,
		"processor:instance:orders:p1": `{"ID":"orders:p1","Plugin":"field.set","Condition":"{{ true ` +
			`}}","Parent":{"ID":"orders","Type":2},"Config":{"Settings":{"field":".Key"},"Workers":2}}`,
		"processor:instance:orders:out:p2": `{"ID":"orders:out:p2","Plugin":"filter","Parent":{"ID":"orders:out","Type":1},` +
			`"Config":{"Workers":1}}`,
	})
	found, err := migrate.FromDatabase(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	want := conduitOrders("postgres://me:secret@db")
	if diff := cmp.Diff([]spec.Pipeline{want}, found.Pipelines); diff != "" {
		t.Error(diff)
	}
	if found.Running["orders"] {
		t.Error("a pipeline that was stopped by its user counts as running")
	}
}

// Values are migrated unchanged, even in the form of references, and so are the settings of the last start. Connectors
// without their pipeline are listed.
func TestMigrateFromDatabaseKeepsDollarSigns(t *testing.T) {
	path := conduitDatabase(t)
	replaceEntries(t, path, map[string]string{
		"connector:instance:orders:in": `{"Type":1,"Plugin":"builtin:file","PipelineID":"orders","Config":{"Name":"in",
			"Settings":{"path":"a$$b/$HOME","end":"x$"}},
			"State":{"Position":"MjY="},"LastActiveConfig":{"Settings":{"path":"${HOME}"}}}`,
		"connector:instance:lost": `{"Type":1,"Plugin":"builtin:file","PipelineID":"gone"}`,
	})
	found, err := migrate.FromDatabase(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	resolved, problems := spec.Resolve(&found.Pipelines[0], spec.Lookup{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if diff := cmp.Diff(map[string]string{"path": "a$$b/$HOME", "end": "x$"},
		resolved.Connectors[0].Settings); diff != "" {
		t.Error(diff)
	}
	if active := found.Started[0].Active["path"]; active != "$${HOME}" {
		t.Errorf("the settings of the last start have the path %q", active)
	}
	if !slices.Contains(found.Notes, `connector "lost" belongs to pipeline "gone", which is not stored`) {
		t.Errorf("notes: %q", found.Notes)
	}
}

// conduitAPI answers like a running Conduit, which hides every setting.
func conduitAPI(t *testing.T, status string) *client.Client {
	t.Helper()
	return conduitAPIOf(t, "orders", status, map[string]string{"path": "***"})
}

// conduitAPIOf is like conduitAPI for a pipeline with this id and these settings of its source.
func conduitAPIOf(t *testing.T, id, status string, settings map[string]string) *client.Client {
	t.Helper()
	answers := map[string]any{
		"/v1/pipelines": []any{map[string]any{"id": id, "state": map[string]any{"status": status},
			"config": map[string]any{"name": "orders", "description": "of the shop"}}},
		"/v1/connectors": []any{
			map[string]any{"id": id + ":in", "type": "TYPE_SOURCE", "plugin": "builtin:file@v0.10.8", "pipelineId": id,
				"sourceState": map[string]any{"position": "MjY="},
				"config":      map[string]any{"name": "in", "settings": settings}},
			map[string]any{"id": id + ":out", "type": "TYPE_DESTINATION", "plugin": "standalone:postgres",
				"pipelineId": id, "destinationState": map[string]any{"positions": map[string]any{}},
				"config": map[string]any{"name": "out", "settings": map[string]string{"url": "***"}}},
		},
		"/v1/processors": []any{
			map[string]any{"id": id + ":p1", "plugin": "field.set", "condition": "{{ true }}",
				"parent": map[string]any{"type": "TYPE_PIPELINE", "id": id},
				"config": map[string]any{"settings": map[string]string{"field": "***"}, "workers": 2}},
			map[string]any{"id": id + ":out:p2", "plugin": "filter", "parent": map[string]any{"type": "TYPE_CONNECTOR",
				"id": id + ":out"}, "config": map[string]any{"workers": 1}},
		},
		"/v1/pipelines/" + id + "/dead-letter-queue": map[string]any{"plugin": "builtin:log",
			"settings": map[string]string{"level": "***"}, "windowSize": "5", "windowNackThreshold": "2"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok || r.Method != http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return &client.Client{URL: server.URL}
}

func TestMigrateFromAPI(t *testing.T) {
	file := conduitOrders("${DATABASE_URL}")
	found, err := migrate.FromAPI(t.Context(), conduitAPI(t, "STATUS_STOPPED"), []spec.Pipeline{file})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]spec.Pipeline{file}, found.Pipelines); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]spec.Checkpoint{conduitCheckpoint}, found.Checkpoints); diff != "" {
		t.Error(diff)
	}
	if len(found.Notes)+len(found.Unset) > 0 || len(found.Started) != 2 || found.Started[0].Active["path"] != "in.txt" {
		t.Errorf("notes %q, unset %v, started %v", found.Notes, found.Unset, found.Started)
	}
}

// Without its file, the settings of a pipeline become variables, and the position of a running pipeline is not
// migrated.
func TestMigrateFromAPIWithoutFiles(t *testing.T) {
	found, err := migrate.FromAPI(t.Context(), conduitAPI(t, "STATUS_RUNNING"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Checkpoints) > 0 || len(found.Notes) != 1 ||
		!strings.Contains(found.Notes[0], "stop it there first") || !found.Running["orders"] {
		t.Errorf("checkpoints %v, notes %q, running %v", found.Checkpoints, found.Notes, found.Running)
	}
	want := []migrate.Unset{
		{Variable: "ORDERS_IN_PATH", Setting: "path", Connector: "orders:in"},
		{Variable: "ORDERS_OUT_URL", Setting: "url", Connector: "orders:out"},
		{Variable: "ORDERS_P1_FIELD", Setting: "field", Connector: "orders:p1"},
		{Variable: "ORDERS_DEAD_LETTER_QUEUE_LEVEL", Setting: "level", Connector: "orders:dead-letter-queue"},
	}
	if diff := cmp.Diff(want, found.Unset); diff != "" {
		t.Error(diff)
	}
	if url := found.Pipelines[0].Connectors[1].Settings["url"]; url != "${ORDERS_OUT_URL}" {
		t.Errorf("the setting is %q", url)
	}
}

// Variables have names that are valid in references, and unique, whatever the ids are.
func TestMigrateNamesUnsetVariables(t *testing.T) {
	found, err := migrate.FromAPI(
		t.Context(), conduitAPIOf(t, "3f2a-1", "STATUS_STOPPED",
			map[string]string{"the.path": "***", "the-path": "***"}),
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, u := range found.Unset {
		names = append(names, u.Variable)
	}
	if diff := cmp.Diff([]string{"_3F2A_1_IN_THE_PATH", "_3F2A_1_IN_THE_PATH_2", "_3F2A_1_OUT_URL", "_3F2A_1_P1_FIELD",
		"_3F2A_1_DEAD_LETTER_QUEUE_LEVEL"}, names); diff != "" {
		t.Error(diff)
	}
	if n := len(spec.References(&found.Pipelines[0])); n != len(names) {
		t.Errorf("%d references, want %d", n, len(names))
	}
}
