package agent

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// newHost makes the plugin host of an agent.
func newHost(schemas schema.Registry, log *slog.Logger) *plugins.Host {
	return &plugins.Host{Builtin: builtin.All(), Schemas: schemas, Log: log}
}

// Catalog knows the plugins that an agent with this configuration has.
type Catalog struct {
	Config config.Config
	Log    *slog.Logger
}

// Parameters returns the settings that a plugin understands as a connector of type typ.
func (c *Catalog) Parameters(_ context.Context, plugin string, typ spec.ConnectorType) (sdk.Parameters, error) {
	return parameters(newHost(nil, c.Log), plugin, typ)
}

func parameters(host *plugins.Host, plugin string, typ spec.ConnectorType) (sdk.Parameters, error) {
	s, err := host.Specification(plugin)
	if err != nil {
		return nil, err
	}
	p := s.Source
	if typ == spec.TypeDestination {
		p = s.Destination
	}
	if p == nil {
		return nil, fmt.Errorf("plugin %s is no %s", s.Name, typ)
	}
	return p, nil
}

// Check returns what is wrong with the plugins of p and their settings. Paths are
// JSON pointers within p. Settings that hold references are checked when the pipeline
// starts, since only then their values are known.
func (c *Catalog) Check(_ context.Context, p *spec.Pipeline) []spec.Problem {
	host := newHost(nil, c.Log)
	var problems []spec.Problem
	for i, connector := range p.Connectors {
		path := fmt.Sprintf("/connectors/%d", i)
		problems = append(problems, checkPlugin(host, path, connector.Plugin, connector.Type, connector.Settings)...)
		problems = append(problems, checkProcessors(path, connector.Processors)...)
	}
	problems = append(problems, checkPlugin(host, "/dead-letter-queue", p.DLQ.Plugin, spec.TypeDestination, p.DLQ.Settings)...)
	return append(problems, checkProcessors("", p.Processors)...)
}

func checkPlugin(host *plugins.Host, path, plugin string, typ spec.ConnectorType, settings map[string]string) []spec.Problem {
	params, err := parameters(host, plugin, typ)
	if err != nil {
		return []spec.Problem{problem(path+"/plugin", "connector.plugin_not_found", err.Error())}
	}
	var problems []spec.Problem
	for _, wrong := range params.Check(settings) {
		if strings.Contains(settings[wrong.Setting], "$") {
			continue
		}
		problems = append(problems, problem(path+"/settings/"+pointer(wrong.Setting), "config.field_invalid", wrong.Error()))
	}
	return problems
}

func checkProcessors(path string, processors []spec.Processor) []spec.Problem {
	var problems []spec.Problem
	for i, p := range processors {
		problems = append(problems, problem(fmt.Sprintf("%s/processors/%d/plugin", path, i), "processor.plugin_not_found",
			fmt.Sprintf("processor plugin %q does not exist: %v", p.Plugin, errNoProcessors)))
	}
	return problems
}

func problem(path, code, message string) spec.Problem {
	return spec.Problem{Path: path, Severity: spec.SeverityError, Code: code, Message: message}
}

// pointer escapes a name for use in a JSON pointer.
func pointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
