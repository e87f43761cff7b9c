package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
)

// Schemas of records are registered at the server in the settings, with its credentials, and records refer to the
// versions registered there.
func TestConfluentSchemaRegistry(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	texts := map[string]string{} // by subject
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var body struct{ Schema string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		subject := strings.Split(r.URL.Path, "/")[2]
		if r.Method == http.MethodPost {
			texts[subject] = body.Schema
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"subject": subject, "id": 41, "version": 7,
			"schema": texts[subject]})
	}))
	defer server.Close()
	a := agenttest.Start(t, "", func(c *config.Config) {
		c.Schemas = config.SchemaRegistry{Type: "confluent", Confluent: config.Confluent{
			ConnectionString: server.URL,
			Auth: config.ConfluentAuth{Type: "basic",
				Basic: config.BasicAuth{Username: "me", Password: "secret"}},
		}}
	})
	out := filepath.Join(a.Dir, "out.txt")
	a.Save("p.yaml", `version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: in, type: source, plugin: generator, settings: {recordCount: 1, format.type: structured,
         format.options.id: int}}
      - {id: out, type: destination, plugin: file, settings: {path: `+out+`}}
`)
	a.Wait("a record with the version of the server", func() bool {
		text, _ := os.ReadFile(out) // it does not exist at first
		return strings.Contains(string(text), `"opencdc.payload.schema.version":"7"`)
	})
	mu.Lock()
	defer mu.Unlock()
	if len(texts) != 1 || !strings.Contains(texts["p:in:payload"], `"name":"id"`) {
		t.Errorf("registered %v", texts)
	}
}

// avro.decode reads the output of avro.encode of the same agent, whichever registry is configured.
func TestAvroRoundTrip(t *testing.T) {
	t.Parallel()
	var text string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer := map[string]any{"id": 41}
		switch r.Method + " " + r.URL.Path {
		case "POST /registry/subjects/items/versions":
			var body struct{ Schema string }
			_ = json.NewDecoder(r.Body).Decode(&body)
			text = body.Schema
		case "POST /registry/subjects/items":
			answer = map[string]any{"subject": "items", "id": 41, "version": 1, "schema": text}
		case "GET /registry/schemas/ids/41":
			answer = map[string]any{"schema": text}
		default:
			w.WriteHeader(http.StatusNotFound)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	for name, registry := range map[string]config.SchemaRegistry{
		"builtin": {Type: "builtin"},
		"confluent": {Type: "confluent", Confluent: config.Confluent{ConnectionString: server.URL + "/registry",
			Auth: config.ConfluentAuth{Type: "bearer", Bearer: config.BearerAuth{Token: "secret"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := agenttest.Start(t, "", func(c *config.Config) { c.Schemas = registry })
			out := filepath.Join(a.Dir, "out.txt")
			a.Save("p.yaml", `version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: in, type: source, plugin: generator, settings: {recordCount: 1, format.type: raw, format.options.id: int}}
      - {id: out, type: destination, plugin: file, settings: {path: `+out+`, sdk.record.format: template,
         sdk.record.format.options: '{{ toJson .Payload.After }}'}}
    processors:
      - {id: set, plugin: field.set, settings: {field: .Payload.After, value: '{"id":7,"name":"ü"}'}}
      - {id: encode, plugin: avro.encode, settings: {schema.strategy: autoRegister, schema.autoRegister.subject: items}}
      - {id: decode, plugin: avro.decode}
`)
			a.Wait("the record as it was", func() bool {
				text, _ := os.ReadFile(out) // it does not exist at first
				return string(text) == `{"id":7,"name":"ü"}`+"\n"
			})
		})
	}
}
