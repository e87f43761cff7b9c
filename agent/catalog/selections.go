package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/schemas"
	"github.com/conduit-agent/conduit/spec"
)

// codeReadTwice is the code of the warning that two sources of a pipeline read the same records.
const codeReadTwice = "connector.read_twice"

// selecting are the settings with which built-in sources select their tables, topics and so on.
var selecting = []string{"tables", "topics", "subjects", "key", "path", "matches", "units", "prefix", "prefixes"}

// checkSelections returns the settings of built-in sources that select something twice, or less than they seem to, and
// warnings about sources that read the same records as another source of the pipeline.
func checkSelections(ctx context.Context, host *plugins.Host, p *spec.Pipeline) (problems []spec.Problem) {
	var sources []chosen
	for i, c := range p.Connectors {
		if c.Type != spec.TypeSource {
			continue
		}
		connector := builtinConnector(host, c.Plugin)
		if connector == nil || connector.NewSource == nil {
			continue
		}
		s := sdk.Standard(*connector).NewSource()
		path := fmt.Sprintf("/connectors/%d", i)
		var wrong sdk.SettingError
		if err := s.Configure(ctx, withoutReferences(s.Parameters(), c.Settings)); errors.As(err,
			&wrong) && slices.Contains(selecting, wrong.Setting) &&
			!strings.Contains(c.Settings[wrong.Setting], "$") && len(s.Parameters().Check(c.Settings)) == 0 {
			problems = append(problems,
				problem(path+"/settings/"+schemas.EscapePointer(wrong.Setting), "config.field_invalid", wrong.Error()))
		}
		now := chosen{id: c.ID, plugin: connector.Name, settings: s.Parameters().ApplyDefaults(c.Settings)}
		for _, other := range sources {
			if now.readsSame(&other) {
				found := problem(path, codeReadTwice, fmt.Sprintf("sources %q and %q have the same settings: every "+
					"record is delivered twice", other.id, now.id))
				found.Severity = spec.SeverityWarning
				problems = append(problems, found)
			}
		}
		sources = append(sources, now)
	}
	return problems
}

// chosen is a source with its settings.
type chosen struct {
	id, plugin string
	settings   map[string]string
}

// readsSame reports whether both sources read the same records. Some sources
// divide the records among themselves, or generate them.
func (c *chosen) readsSame(o *chosen) bool {
	s := c.settings
	switch {
	case c.plugin != o.plugin || !maps.Equal(s, o.settings):
		return false
	case c.plugin == "generator" || c.plugin == "exec":
		return false
	case c.plugin == "kafka" && s["groupID"] != "",
		c.plugin == "redis" && s["type"] == "list", c.plugin == "nats" && s["queue"] != "":
		return false
	}
	return true
}

// builtinConnector returns a built-in connector, nil if the plugin is not built in.
func builtinConnector(host *plugins.Host, plugin string) *sdk.Connector {
	found, err := host.Find(plugin)
	if err != nil || found.Kind != pluginname.Builtin {
		return nil
	}
	for i := range host.Builtin {
		if host.Builtin[i].Name == found.Name {
			return &host.Builtin[i]
		}
	}
	return nil
}

// withoutReferences returns the settings, with defaults for missing settings and for those with references.
func withoutReferences(params sdk.Parameters, given map[string]string) map[string]string {
	settings := maps.Clone(given)
	maps.DeleteFunc(settings,
		func(name, value string) bool { return strings.Contains(value, "$") && params[name].Default != "" })
	return params.ApplyDefaults(settings)
}
