package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestSchemas has one member encode records with a schema of the registry, and another one decode them.
func TestSchemas(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent)
	url, dir := server.StartNATS(t, 1)[0].URL(), t.TempDir()
	encoded, decoded := filepath.Join(dir, "encoded"), filepath.Join(dir, "decoded")
	yaml := fmt.Sprintf(`version: "2.2"
pipelines:
  - id: encodes
    status: running
    placement: {labels: {site: a}}
    connectors:
      - {id: in, type: source, plugin: builtin:generator, settings: {recordCount: "5", format.type: structured,
         format.options.n: int}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %[1]q, sdk.record.format: template,
         sdk.record.format.options: '{{ printf "%%s" .Payload.After | b64enc }}'}}
    processors:
      - {id: avro, plugin: avro.encode, settings: {field: .Payload.After, schema.strategy: autoRegister,
         schema.autoRegister.subject: numbers}}
  - id: decodes
    status: running
    placement: {labels: {site: b}}
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: %[1]q}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %[2]q, sdk.record.format: template,
         sdk.record.format.options: '{{ .Payload.After | toJson }}'}}
    processors:
      - {id: base64, plugin: base64.decode, settings: {field: .Payload.After}}
      - {id: avro, plugin: avro.decode, settings: {field: .Payload.After}}
`, encoded, decoded)
	for path, text := range map[string]string{encoded: "", filepath.Join(dir, "pipelines.yaml"): yaml} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	labelled(t, filepath.Join(dir, "pipelines.yaml"), url)
	wait.For(t, "records of a schema of the other member", func() bool {
		text, _ := os.ReadFile(decoded)
		return strings.Count(string(text), `{"n":`) == 5
	})
}

// labelled starts two members, a and b, whose label site is their name.
func labelled(t *testing.T, pipelines, url string) (a, b *member) {
	t.Helper()
	for name, m := range map[string]**member{"a": &a, "b": &b} {
		*m = newMember(t, name, pipelines, url, ttl)
		(*m).config.Cluster.Labels = "site=" + name
		(*m).start()
	}
	return a, b
}
