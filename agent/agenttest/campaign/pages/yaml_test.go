package pages

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/spec"
)

// settingsOf are the pages with separate blocks of settings for one connector: its type and plugin.
var settingsOf = map[string]spec.Connector{
	"plugins/builtin/README.md":               {Type: spec.TypeSource, Plugin: "builtin:generator"},
	"plugins/builtin/datadog/README.md":       {Type: spec.TypeDestination, Plugin: "builtin:datadog"},
	"plugins/builtin/elasticsearch/README.md": {Type: spec.TypeDestination, Plugin: "builtin:elasticsearch"},
	"plugins/builtin/exec/README.md":          {Type: spec.TypeSource, Plugin: "builtin:exec"},
	"plugins/builtin/influxdb/README.md":      {Type: spec.TypeDestination, Plugin: "builtin:influxdb"},
	"plugins/builtin/loki/README.md":          {Type: spec.TypeDestination, Plugin: "builtin:loki"},
	"plugins/builtin/prometheus/README.md":    {Type: spec.TypeDestination, Plugin: "builtin:prometheus"},
}

// executed are the pages whose blocks of YAML are examples that another test, the value, executes.
var executed = map[string]string{
	"plugins/processor/README.md": "TestExamples",
}

var yamlFence = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestYAML validates every block of YAML on every page, as conduit pipelines validate or the agent does: pipeline
// files, settings of the agent, and settings of a connector.
func TestYAML(t *testing.T) {
	var c config.Config
	c.Connectors.Path, c.Connectors.Exec.Enabled = t.TempDir(), true
	plugins := catalog.Offline(parts.Plugins(), c, slog.New(slog.DiscardHandler))
	check := func(t *testing.T, p *spec.Pipeline) {
		for _, problem := range plugins.Check(t.Context(), p) {
			ofOthers := strings.HasPrefix(problem.Message, `cannot find plugin "standalone:`) // the reader installs it
			if problem.Severity == spec.SeverityError && !ofOthers {
				t.Errorf("pipeline %s: %s: %s", p.ID, problem.Path, problem.Message)
			}
		}
	}
	checked := 0
	for _, path := range documents(t) {
		if executed[path] != "" {
			continue
		}
		for _, block := range yamlFence.FindAllStringSubmatch(read(t, path), -1) {
			text := block[1]
			checked++
			switch {
			case strings.Contains("\n"+text, "\npipelines:"):
				file := spec.Parser{References: reference.Kinds()}.File(path, []byte(text))
				for _, problem := range file.Problems {
					t.Errorf("%s: %s: %s", path, problem.Path, problem.Message)
				}
				for i := range file.Pipelines {
					check(t, &file.Pipelines[i].Pipeline)
				}
			case settingsOf[path].Plugin != "":
				check(t, withSettings(t, path, settingsOf[path], text))
			default:
				checkSettings(t, path, text)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d blocks", checked)
	}
}

// withSettings returns a pipeline with a connector that has the settings of a block.
func withSettings(t *testing.T, path string, c spec.Connector, text string) *spec.Pipeline {
	t.Helper()
	var nested struct{ Settings map[string]string }
	settings := map[string]string{}
	if err := yaml.Unmarshal([]byte(text), &nested); err == nil && nested.Settings != nil {
		settings = nested.Settings
	} else if err := yaml.Unmarshal([]byte(text), &settings); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, text)
	}
	if len(settings) == 0 {
		t.Errorf("%s: no settings in\n%s", path, text)
	}
	c.ID, c.Settings = "it", settings
	other := spec.Connector{ID: "out", Type: spec.TypeDestination, Plugin: "builtin:log"}
	if c.Type == spec.TypeDestination {
		other = spec.Connector{ID: "in", Type: spec.TypeSource, Plugin: "builtin:generator",
			Settings: map[string]string{"format.type": "raw"}}
	}
	return &spec.Pipeline{
		ID:              path,
		Name:            path,
		Status:          spec.StatusRunning,
		DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:log"},
		Connectors:      []spec.Connector{c, other},
	}
}

// checkSettings checks a block as conduit.yaml.
func checkSettings(t *testing.T, path, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "conduit.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, warnings, err := config.Load(config.Sources{Path: file})
	if err != nil || len(warnings) > 0 {
		t.Errorf("%s: %v, %v in\n%s", path, err, warnings, text)
	}
}
