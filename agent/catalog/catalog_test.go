package catalog_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/builtin/generator"
	"github.com/conduit-agent/conduit/plugins/builtin/http"
	"github.com/conduit-agent/conduit/plugins/builtin/kafka"
	clog "github.com/conduit-agent/conduit/plugins/builtin/log"
	"github.com/conduit-agent/conduit/plugins/builtin/mqtt"
	"github.com/conduit-agent/conduit/plugins/builtin/nats"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres"
	"github.com/conduit-agent/conduit/plugins/builtin/spool"
	"github.com/conduit-agent/conduit/plugins/builtin/syslog"
	"github.com/conduit-agent/conduit/plugins/processor/fields"
	"github.com/conduit-agent/conduit/plugins/processor/window"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
	"github.com/conduit-agent/conduit/spec"
)

func offline(t *testing.T) *catalog.Catalog {
	var c config.Config
	c.Connectors.Path = t.TempDir()
	return catalog.Offline(contained(), c, slog.New(slog.DiscardHandler))
}

// contained returns the plugins of the tests: those whose settings the catalogue knows, and simple ones.
func contained() catalog.Plugins {
	connectors := func(o exec.Options) []sdk.Connector {
		return []sdk.Connector{
			exec.Connector(o), file.Connector(zstd.Codec{}), generator.Connector(), http.Connector(), kafka.Connector(),
			clog.Connector(),
			mqtt.Connector(), nats.Connector(), postgres.Connector(), spool.Connector(), syslog.Connector(),
		}
	}
	return catalog.Plugins{Connectors: connectors, Processors: slices.Concat(fields.Plugins(), window.Plugins())}
}

// Secrets of the agent and its connection to its supervisor are withheld from plugins.
func TestEnvironment(t *testing.T) {
	got := catalog.Environment([]string{"CONDUIT_API_TOKEN=x", "CONDUIT_LOG_LEVEL=z", "CONDUITS=y",
		"CREDENTIALS_DIRECTORY=/x", "NOTIFY_SOCKET=/x",
		"WATCHDOG_PID=1", "WATCHDOG_PIDS=1", "AWS_REGION=here", "EMPTY="}, "inherit")
	if want := []string{"CONDUITS=y", "WATCHDOG_PIDS=1", "AWS_REGION=here", "EMPTY="}; !slices.Equal(got, want) {
		t.Errorf("plugins inherit %q, want %q", got, want)
	}
}

func TestCheck(t *testing.T) {
	p := &spec.Pipeline{ID: "p",
		Connectors: []spec.Connector{
			{ID: "a", Type: spec.TypeSource, Plugin: "generator",
				Settings: map[string]string{"rate": "fast", "format.type": "raw", "burst/size": "1"}},
			{ID: "b", Type: spec.TypeSource, Plugin: "builtin:log"},
			{ID: "c", Type: spec.TypeDestination, Plugin: "builtin:lgo"},
			{ID: "d", Type: spec.TypeDestination, Plugin: "builtin:$PLUGIN"},
			{ID: "f", Type: spec.TypeDestination, Plugin: "builtin:file", Settings: map[string]string{"path": "x",
				"sdk.record.format": "template", "sdk.record.format.options": "{{ .Payload"}},
			{ID: "g", Type: spec.TypeDestination, Plugin: "builtin:file", Settings: map[string]string{"path": "x",
				"sdk.record.format": "template", "sdk.record.format.options": "{{ .Payload }}"}},
			{ID: "h", Type: spec.TypeDestination, Plugin: "builtin:file", Settings: map[string]string{"path": "x",
				"sdk.record.format": "debezium/json", "sdk.record.format.options": "schema=x"}},
			{ID: "e", Type: spec.TypeSource, Plugin: "generator",
				Settings: map[string]string{"rate": "${RATE}", "format.type": "raw"}},
		},
		DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:log"},
	}
	var got []string
	for _, problem := range offline(t).Check(t.Context(), p) {
		got = append(got, string(problem.Severity)+" "+problem.Code+" "+problem.Path)
	}
	slices.Sort(got)
	want := []string{
		"error config.field_invalid /connectors/0/settings/burst~1size",
		"error config.field_invalid /connectors/0/settings/rate",
		"error config.field_invalid /connectors/4/settings/sdk.record.format.options",
		"error config.field_invalid /connectors/6/settings/sdk.record.format.options",
		"error connector.plugin_not_found /connectors/1/plugin",
		"error connector.plugin_not_found /connectors/2/plugin",
	}
	if !slices.Equal(got, want) {
		t.Errorf("problems\n%q\nwant\n%q", got, want)
	}
}

// Paths that no pipeline may name are found before any file is opened.
func TestCheckPaths(t *testing.T) {
	var c config.Config
	c.Pipelines.AllowedPaths = t.TempDir()
	settings := func(more ...string) map[string]string {
		all := map[string]string{"format.type": "file", "collections.a.format.type": "file"}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	p := &spec.Pipeline{ID: "p",
		Connectors: []spec.Connector{
			{ID: "a", Type: spec.TypeSource, Plugin: "file",
				Settings: map[string]string{"path": filepath.Join(c.Pipelines.AllowedPaths, "in.txt")}},
			{ID: "b", Type: spec.TypeDestination, Plugin: "builtin:file",
				Settings: map[string]string{"path": "/etc/x"}},
			{ID: "c", Type: spec.TypeDestination, Plugin: "spool", Settings: map[string]string{"path": "/etc/spool"}},
			{ID: "d", Type: spec.TypeSource, Plugin: "generator",
				Settings: settings("collections.a.format.options.path", "/etc/passwd")},
			{ID: "e", Type: spec.TypeDestination, Plugin: "file", Settings: map[string]string{"path": "${TARGET}"}},
		},
		DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:file", Settings: map[string]string{"path": "/etc/dead"}},
	}
	var got []string
	for _, problem := range catalog.Offline(contained(), c, slog.New(slog.DiscardHandler)).Check(t.Context(), p) {
		if strings.Contains(problem.Message, "is not in pipelines.allowed-paths") {
			got = append(got, problem.Path)
		}
	}
	want := []string{"/connectors/1/settings/path", "/connectors/2/settings/path",
		"/connectors/3/settings/collections.a.format.options.path", "/dead-letter-queue/settings/path"}
	if !slices.Equal(got, want) {
		t.Errorf("refused %q, want %q", got, want)
	}
}

// An unknown plugin is searched for once more before it counts as missing.
func TestCheckAfterRescan(t *testing.T) {
	c := offline(t)
	for plugin, want := range map[string]int{"builtin:log": 0, "nowhere": 1} {
		scans := 0
		p := &spec.Pipeline{Connectors: []spec.Connector{{ID: "a", Type: spec.TypeDestination, Plugin: plugin}},
			DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:log"}}
		problems := c.CheckAfterRescan(t.Context(), p, func() { scans++ })
		if scans != want || len(problems) != want {
			t.Errorf("%s: %d scans, problems %v; want %d of each", plugin, scans, problems, want)
		}
	}
}

func TestDescribed(t *testing.T) {
	all := offline(t).Described()
	i := slices.IndexFunc(all, func(p rest.Plugin) bool { return p.Name == "builtin:generator@v1.0.0" })
	if i < 0 {
		t.Fatalf("the generator is not among %d plugins", len(all))
	}
	g := all[i]
	if rate := g.SourceParams["rate"]; g.Summary == "" || rate.Type == "TYPE_UNSPECIFIED" || rate.Description == "" ||
		len(g.DestinationParams) != 0 {
		t.Errorf("the generator is described as %+v", g)
	}
}
