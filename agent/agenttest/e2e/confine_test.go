package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

// confined returns a pipeline from a source with settings to the log, with further lines of the pipeline after it.
func confined(id, plugin, settings, more string) string {
	return fmt.Sprintf("version: \"2.2\"\npipelines:\n  - id: %s\n    status: running\n    connectors:\n      - {id: "+
		"in, type: source, plugin: %s, settings: {%s}}\n"+
		"      - {id: out, type: destination, plugin: builtin:log}\n%s", id, plugin, settings, more)
}

// TestPathsAreConfined tests every kind of setting that names a file, with a path outside the list, and with files of
// the agent in a directory on the list.
func TestPathsAreConfined(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("canary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := deskIn(t, "", func(c *config.Config) {
		c.Pipelines.AllowedPaths = filepath.Dir(c.DB.SQLite.Path)
		c.Pipelines.ErrorRecovery.MaxRetries = 0
	})
	d.Must(os.Symlink(outside, d.Path("link")))
	const generate = "rate: \"1\", format.type: structured, format.options.id: int"
	cases := map[string]struct{ text, want string }{
		"source": {confined("source", "builtin:file", "path: "+secret, ""), "pipelines.allowed-paths"},
		"source through link": {confined("link", "builtin:file", "path: "+d.Path("link/secret"), ""),
			"pipelines.allowed-paths"},
		"store": {confined("store", "builtin:file", "path: "+d.Path("conduit.db"), ""),
			"belongs to the agent"},
		"log of the store": {confined("wal", "builtin:file", "path: "+d.Path("conduit.db-wal"), ""),
			"belongs to the agent"},
		"generator": {confined("generator", "builtin:generator",
			"rate: \"1\", format.type: file, format.options.path: "+secret, ""), "format.options.path"},
		"reference": {confined("reference", "builtin:generator",
			generate+", collections.x.format.options.y: \"${file:"+secret+"}\"", ""), "pipelines.allowed-paths"},
		"dead-letter queue": {confined("dlq", "builtin:generator", generate,
			"    dead-letter-queue: {plugin: builtin:file, settings: {path: "+secret+"}}\n"),
			"pipelines.allowed-paths"},
		"script": {confined("script", "builtin:generator", generate,
			"    processors:\n      - {id: js, plugin: custom.javascript, settings: {script.path: "+secret+"}}\n"),
			"pipelines.allowed-paths"},
		"destination": {confined("destination", "builtin:generator", generate,
			"      - {id: more, type: destination, plugin: builtin:file, settings: {path: "+filepath.Join(outside,
				"new")+"}}\n"), "pipelines.allowed-paths"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			id := strings.Fields(c.text[strings.Index(c.text, "id: ")+4:])[0]
			d.Save(id+".yaml", c.text)
			d.Wait(name+" to be refused", func() bool {
				s := d.State(id)
				return s.Phase == spec.PhaseDegraded || s.Phase == spec.PhaseRunning
			})
			if s := d.State(id); s.Phase == spec.PhaseRunning || !strings.Contains(s.Error, c.want) ||
				strings.Contains(s.Error, "canary") {
				t.Errorf("%s: %s", s.Phase, s.Error)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(outside, "new")); err == nil {
		t.Error("a file was made outside of the list")
	}
	if n := strings.Count(d.Log(), "a file that the pipeline refers to has changed"); n > 0 {
		t.Errorf("a file that may not be read was watched, and %d times found to have changed", n)
	}
	d.Must(os.WriteFile(d.Path("inside"), []byte("x\n"), 0o600))
	d.Save("inside.yaml", confined("inside", "builtin:file", "path: "+d.Path("inside"), ""))
	d.Wait("a file inside of the list to be read", func() bool { return d.State("inside").Phase == spec.PhaseRunning })

	response, err := http.Post("http://"+d.Address()+"/v1/connectors/validate", "application/json",
		strings.NewReader(
			fmt.Sprintf(`{"type":"TYPE_SOURCE","plugin":"builtin:file","config":{"settings":{"path":%q}}}`, secret)))
	d.Must(err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("validated with %s", response.Status)
	}
}
