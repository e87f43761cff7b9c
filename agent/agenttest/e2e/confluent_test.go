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

// Schemas of records are registered at the server that the settings name, with its
// credentials, and records name their versions there.
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
		_ = json.NewEncoder(w).Encode(map[string]any{"subject": subject, "id": 41, "version": 7, "schema": texts[subject]})
	}))
	defer server.Close()
	a := agenttest.Start(t, "", func(c *config.Config) {
		c.Schemas = config.SchemaRegistry{Type: "confluent", Confluent: config.Confluent{
			ConnectionString: server.URL,
			Auth:             config.ConfluentAuth{Type: "basic", Basic: config.BasicAuth{Username: "me", Password: "secret"}},
		}}
	})
	out := filepath.Join(a.Dir, "out.txt")
	a.Save("p.yaml", `version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: in, type: source, plugin: generator, settings: {recordCount: 1, format.type: structured, format.options.id: int}}
      - {id: out, type: destination, plugin: file, settings: {path: `+out+`}}
`)
	a.Wait("a record with the version of the server", func() bool {
		text, _ := os.ReadFile(out) // not there at first
		return strings.Contains(string(text), `"opencdc.payload.schema.version":"7"`)
	})
	mu.Lock()
	defer mu.Unlock()
	if len(texts) != 1 || !strings.Contains(texts["p:in:payload"], `"name":"id"`) {
		t.Errorf("registered %v", texts)
	}
}
