package catalog_test

import (
	"slices"
	"strings"
	"testing"

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
		"a wrong expression": {spec.TypeSource, "file",
			map[string]string{"path": "in", "multiline.start": "("}, "multiline.start", "missing closing )"},
		"a URL without a scheme": {spec.TypeDestination, "http", map[string]string{"url": "example.com/in"}, "url", ""},
		"a secret in the message": {spec.TypeDestination, "postgres",
			map[string]string{"url": "postgres://u:hunter2secret@h:port/d", "table": "t"}, "url", ""},
		"references":      {spec.TypeDestination, "http", map[string]string{"url": "${HOST}/in"}, "", ""},
		"in order":        {spec.TypeDestination, "http", map[string]string{"url": "https://example.com/in"}, "", ""},
		"a disabled exec": {spec.TypeSource, "exec", map[string]string{"command": `["date"]`}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			problems := offline(t).Check(t.Context(), &spec.Pipeline{ID: "p",
				Connectors:      []spec.Connector{{ID: "c", Type: c.typ, Plugin: c.plugin, Settings: c.settings}},
				DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:log"}})
			i := slices.IndexFunc(problems, func(p spec.Problem) bool {
				return p.Severity == spec.SeverityError && p.Path == "/connectors/0/settings/"+c.at
			})
			switch {
			case c.at == "" && slices.ContainsFunc(problems, func(p spec.Problem) bool { return p.Code == "config.field_invalid" }),
				c.at != "" && (len(problems) != 1 || i != 0 || !strings.Contains(problems[i].Message, c.want) ||
					strings.Contains(problems[i].Message, "hunter2secret")):
				t.Errorf("found %+v", problems)
			}
		})
	}
}
