package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

// TestSelections finds settings of sources that select something twice, or less than they seem to, before the pipeline
// starts.
func TestSelections(t *testing.T) {
	source := func(id, plugin string, settings ...string) spec.Connector {
		c := spec.Connector{ID: id, Type: spec.TypeSource, Plugin: plugin, Settings: map[string]string{}}
		for i := 0; i < len(settings); i += 2 {
			c.Settings[settings[i]] = settings[i+1]
		}
		return c
	}
	const field, twice = "config.field_invalid ", "connector.read_twice "
	for name, c := range map[string]struct {
		sources []spec.Connector
		want    string
	}{
		"overlapping filters": {[]spec.Connector{source("a", "builtin:mqtt", "url", "mqtt://h", "topics", "a/#,a/b")},
			field + "/connectors/0/settings/topics"},
		"with a reference beside": {[]spec.Connector{source("a", "mqtt", "url", "mqtt://h",
			"topics", "a/#,a/b", "auth.username", "u", "auth.password", "${file:/p}")},
			field + "/connectors/0/settings/topics"},
		"a reference": {[]spec.Connector{source("a", "mqtt", "url", "mqtt://h", "topics", "${TOPICS}")}, ""},
		"a reference in what is selected": {[]spec.Connector{source("a", "mqtt", "url", "mqtt://h",
			"topics", "a/#,a/${B}")}, ""},
		"tables, and a secret URL": {[]spec.Connector{source("a", "postgres",
			"url", "postgres://u:${file:/p}@h/d", "tables", "s.t_.*")},
			field + "/connectors/0/settings/tables"},
		"a glob of a shell": {[]spec.Connector{source("a", "file", "path", "logs/**a.log")},
			field + "/connectors/0/settings/path"},
		"settings of the SDK": {[]spec.Connector{source("a", "kafka",
			"servers", "h:1", "topics", "a.*", "sdk.batch.size", "10")},
			field + "/connectors/0/settings/topics"},
		"an executable": {[]spec.Connector{source("a", "standalone:mqtt", "topics", "a/#,a/b")}, ""},
		"right": {[]spec.Connector{source("a", "mqtt", "url", "mqtt://h", "topics", "a/#,b/#"),
			source("b", "mqtt", "url", "mqtt://h", "topics", "c")},
			""},

		"the same topics": {[]spec.Connector{source("a", "mqtt", "url", "mqtt://h", "topics", "c"),
			source("b", "builtin:mqtt", "url", "mqtt://h", "topics", "c", "qos", "1")},
			twice + "/connectors/1"},
		"the same file": {[]spec.Connector{source("a", "file", "path", "in"), source("b", "file", "path", "in")},
			twice + "/connectors/1"},
		"the same Kafka": {[]spec.Connector{source("a", "kafka", "servers", "h:1", "topics", "t"),
			source("b", "kafka", "servers", "h:1", "topics", "t")},
			twice + "/connectors/1"},
		"one group": {[]spec.Connector{source("a", "kafka", "servers", "h:1", "topics", "t", "groupID", "g"),
			source("b", "kafka", "servers", "h:1", "topics", "t", "groupID", "g")},
			""},
		"elements of a list": {[]spec.Connector{source("a", "redis", "url", "redis://h", "key", "k", "type", "list"),
			source("b", "redis", "url", "redis://h", "key", "k", "type", "list")},
			""},
		"generated records": {[]spec.Connector{source("a", "generator", "format.type", "structured"),
			source("b", "generator", "format.type", "structured")},
			""},
		"two different files": {[]spec.Connector{source("a", "file", "path", "in"), source("b", "file", "path", "in2")},
			""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, found := range offline(t).Check(t.Context(),
				&spec.Pipeline{ID: "p", Connectors: c.sources, DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:log"}}) {
				if found.Code+" " == twice && found.Severity != spec.SeverityWarning {
					t.Errorf("two sources that read the same are no warning: %+v", found)
				}
				if found.Code+" " == twice || found.Code+" " == field &&
					slices.ContainsFunc([]string{"tables", "topics", "path"},
						func(s string) bool { return strings.HasSuffix(found.Path, "/"+s) }) {
					got = append(got, found.Code+" "+found.Path)
				}
			}
			if strings.Join(got, "\n") != c.want {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), c.want)
			}
		})
	}
}
