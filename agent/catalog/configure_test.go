package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	clog "github.com/conduit-agent/conduit/plugins/builtin/log"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// TestConfigure finds what only the code of a connector knows to be wrong, before the pipeline starts.
func TestConfigure(t *testing.T) {
	for name, c := range map[string]struct {
		typ      spec.ConnectorType
		plugin   string
		settings map[string]string
		at, want string // path below the connector, and part of the message; "" for none
	}{
		"a function that does not exist": {spec.TypeDestination, "kafka",
			map[string]string{"servers": "h:1", "topic": "{{ tojson .Key }}"}, "topic", "tojson"},
		"a template with a variable": {spec.TypeDestination, "kafka", map[string]string{"servers": "h:1",
			"topic": "{{ if false }}{{ $$r := . }}{{ $$r.key }}{{ end }}"}, "topic", `a record has no "key"`},
		"a wrong expression": {spec.TypeSource, "file",
			map[string]string{"path": "in", "multiline.start": "("}, "multiline.start", "missing closing )"},
		"a URL without a scheme": {spec.TypeDestination, "http", map[string]string{"url": "example.com/in"}, "url", ""},
		"references":             {spec.TypeDestination, "http", map[string]string{"url": "${HOST}/in"}, "", ""},
		"in order":               {spec.TypeDestination, "http", map[string]string{"url": "https://example.com/in"}, "", ""},
		"a disabled exec":        {spec.TypeSource, "exec", map[string]string{"command": `["date"]`}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			problems := offline(t).Check(t.Context(), &spec.Pipeline{ID: "p",
				Connectors:      []spec.Connector{{ID: "c", Type: c.typ, Plugin: c.plugin, Settings: c.settings}},
				DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:log"}})
			i := slices.IndexFunc(problems, func(p spec.Problem) bool {
				return p.Severity == spec.SeverityError && p.Path == "/connectors/0/settings/"+c.at
			})
			switch {
			case c.at == "" && slices.ContainsFunc(problems, func(p spec.Problem) bool {
				return p.Code == "config.field_invalid"
			}), c.at != "" && (len(problems) != 1 || i != 0 || !strings.Contains(problems[i].Message, c.want)):
				t.Errorf("found %+v", problems)
			}
		})
	}
}

// careless is a source that repeats its settings in errors.
type careless struct{ sdk.SourceBase }

func (careless) Parameters() sdk.Parameters {
	return sdk.Parameters{"url": {Type: sdk.TypeString}, "file": {Type: sdk.TypeString}}
}

func (careless) Configure(_ context.Context, settings map[string]string) error {
	return fmt.Errorf("it is refused: %w", errors.Join(
		sdk.SettingError{Setting: "url", Message: "cannot parse " + settings["url"]},
		sdk.SettingError{Setting: "file", Message: "cannot read it"}))
}

func (careless) Open(context.Context, record.Position) error { return nil }

func (careless) Read(context.Context) ([]record.Record, error) { return nil, nil }

// TestConfigureErrors has all problems of a connector at their places, without secrets. What depends on the machine is
// only a warning for a command, which may run on another one.
func TestConfigureErrors(t *testing.T) {
	for name, want := range map[string]spec.Severity{"careless": spec.SeverityError, "postgres": spec.SeverityWarning} {
		var c config.Config
		c.Connectors.Path = t.TempDir()
		contained := catalog.Plugins{Connectors: func(exec.Options) []sdk.Connector {
			return []sdk.Connector{{Name: name, Version: "v1.0.0", NewSource: func() sdk.Source { return careless{} }},
				clog.Connector()}
		}}
		problems := catalog.Offline(contained, c, slog.New(slog.DiscardHandler)).Check(t.Context(), &spec.Pipeline{ID: "p",
			Connectors: []spec.Connector{{ID: "c", Type: spec.TypeSource, Plugin: name,
				Settings: map[string]string{"url": "amqp://u:hunter2secret@h", "file": "ca.pem"}}},
			DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:log"}})
		if len(problems) != 2 || problems[0].Path != "/connectors/0/settings/url" || problems[0].Severity != want ||
			problems[1].Path != "/connectors/0/settings/file" || problems[1].Message != `"file": cannot read it` ||
			strings.Contains(problems[0].Message, "hunter2secret") {
			t.Errorf("%s: found %+v", name, problems)
		}
	}
}
