package api

import (
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec"
)

// view shows settings to a client. Secret settings are hidden. A client that may only read also does not see plugin
// settings, unless their type is known to hold no secret.
type view struct {
	reader  bool
	plugins []rest.Plugin
}

// View returns the view for a client that may change everything, or only read if reader is set.
func (s *desired) View(reader bool) *view {
	if !reader {
		return &view{}
	}
	return &view{reader: true, plugins: s.Plugins.Plugins()}
}

// Settings returns the settings of a plugin without the values that the client must not see, never nil. typ is empty
// for a processor.
func (v *view) Settings(typ spec.ConnectorType, plugin string, settings map[string]string) map[string]string {
	shown := make(map[string]string, len(settings))
	described := v.described(typ, plugin)
	for name, value := range settings {
		if spec.IsSecret(name, value) || v.reader && !harmless(described, name, value) {
			value = spec.Redacted
		}
		shown[name] = value
	}
	return shown
}

// Pipeline returns a copy of p without the settings that the client must not see.
func (v *view) Pipeline(p *spec.Pipeline) spec.Pipeline {
	c := p.Clone()
	hide := func(typ spec.ConnectorType, plugin string, settings *map[string]string) {
		if *settings != nil {
			*settings = v.Settings(typ, plugin, *settings)
		}
	}
	processors := func(all []spec.Processor) {
		for i := range all {
			hide("", all[i].Plugin, &all[i].Settings)
		}
	}
	for i := range c.Connectors {
		hide(c.Connectors[i].Type, c.Connectors[i].Plugin, &c.Connectors[i].Settings)
		processors(c.Connectors[i].Processors)
	}
	processors(c.Processors)
	hide(spec.TypeDestination, c.DeadLetterQueue.Plugin, &c.DeadLetterQueue.Settings)
	return *c
}

// described returns the parameters of every plugin that a plugin name may refer to.
func (v *view) described(typ spec.ConnectorType, plugin string) (all []map[string]rest.Parameter) {
	ref, err := pluginname.Parse(plugin)
	if err != nil {
		return nil
	}
	ref.Name = strings.TrimPrefix(ref.Name, "./")
	for i := range v.plugins {
		p := &v.plugins[i]
		if name, err := pluginname.Parse(p.Name); err != nil || !ref.Matches(name) {
			continue
		}
		switch typ {
		case spec.TypeSource:
			all = append(all, p.SourceParams)
		case spec.TypeDestination:
			all = append(all, p.DestinationParams)
		}
	}
	return all
}

// harmlessTypes are the parameter types whose values hold no secret.
var harmlessTypes = []string{"TYPE_INT", "TYPE_FLOAT", "TYPE_BOOL", "TYPE_DURATION", "TYPE_FILE"}

// harmless reports whether every description shows that a setting holds no secret: by its type, by its list of values,
// or because the setting has its default. A setting without a description is not harmless.
func harmless(described []map[string]rest.Parameter, name, value string) bool {
	if value == "" || spec.IsReference(value) {
		return true
	}
	return len(described) > 0 && !slices.ContainsFunc(described, func(params map[string]rest.Parameter) bool {
		p, ok := params[name]
		listed := slices.ContainsFunc(p.Validations, func(r rest.ParameterRule) bool {
			return r.Type == "TYPE_INCLUSION" && slices.Contains(strings.Split(r.Value, ","), value)
		})
		return !ok || !slices.Contains(harmlessTypes, p.Type) && !listed && p.Default != value
	})
}
