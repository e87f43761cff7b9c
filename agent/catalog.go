package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/pointer"
)

// Catalog knows the plugins that an agent with this configuration has. It runs the
// executables the first time that it needs them, without an agent.
type Catalog struct {
	Config config.Config
	Log    *slog.Logger

	once        sync.Once
	executables *plugins.Executables
	host        *plugins.Host
}

// plugins returns a host that knows all plugins.
func (c *Catalog) plugins(ctx context.Context) *plugins.Host {
	c.once.Do(func() {
		c.executables = newExecutables(c.Config, nil, os.Environ(), c.Log)
		c.executables.LogLevel = "error"
		c.executables.SpecifyTimeout = specifyTimeout
		c.executables.Rescan(ctx)
		c.host = newHost(c.executables, nil, c.Log)
	})
	return c.host
}

// specifyTimeout is how long somebody who asked what plugins there are waits for one.
const specifyTimeout = 10 * time.Second

// Plugins returns all plugins, sorted by name, and what is in connectors.path but not used.
func (c *Catalog) Plugins(ctx context.Context) ([]Plugin, []PluginProblem) {
	specs := c.plugins(ctx).Specifications()
	return described(specs), problemsOf(c.executables)
}

// Plugin returns the plugin that a reference stands for.
func (c *Catalog) Plugin(ctx context.Context, ref string) (Plugin, error) {
	s, err := c.plugins(ctx).Specification(ref)
	if err != nil {
		return Plugin{}, err
	}
	return described([]plugins.Specification{s})[0], nil
}

// Parameters returns the settings that a plugin understands as a connector of type typ.
func (c *Catalog) Parameters(ctx context.Context, plugin string, typ spec.ConnectorType) (sdk.Parameters, error) {
	_, params, err := parameters(c.plugins(ctx), plugin, typ)
	return params, err
}

func parameters(host *plugins.Host, plugin string, typ spec.ConnectorType) (plugins.Specification, sdk.Parameters, error) {
	s, err := host.Specification(plugin)
	if err != nil {
		return s, nil, err
	}
	p := s.Source
	if typ == spec.TypeDestination {
		p = s.Destination
	}
	if p == nil {
		return s, nil, fmt.Errorf("plugin %s is no %s", s.Name, typ)
	}
	return s, p, nil
}

// Check returns what is wrong with the plugins of p and their settings. Paths are
// JSON pointers within p. Settings that hold references are checked when the pipeline
// starts, since only then their values are known.
func (c *Catalog) Check(ctx context.Context, p *spec.Pipeline) []spec.Problem {
	return checkPlugins(c.plugins(ctx), p)
}

func checkPlugins(host *plugins.Host, p *spec.Pipeline) []spec.Problem {
	var problems []spec.Problem
	for i, connector := range p.Connectors {
		path := fmt.Sprintf("/connectors/%d", i)
		problems = append(problems, checkPlugin(host, path, connector.Plugin, connector.Type, connector.Settings)...)
		problems = append(problems, checkProcessors(path, connector.Processors)...)
	}
	problems = append(problems, checkPlugin(host, "/dead-letter-queue", p.DLQ.Plugin, spec.TypeDestination, p.DLQ.Settings)...)
	return append(problems, checkProcessors("", p.Processors)...)
}

// codePluginNotFound is the code of problems of plugins that do not exist.
const codePluginNotFound = "connector.plugin_not_found"

func checkPlugin(host *plugins.Host, path, plugin string, typ spec.ConnectorType, settings map[string]string) []spec.Problem {
	if strings.Contains(plugin, "$") { // which plugin that is, is known when the pipeline starts
		return nil
	}
	described, params, err := parameters(host, plugin, typ)
	if err != nil {
		return []spec.Problem{problem(path+"/plugin", codePluginNotFound, err.Error())}
	}
	var problems []spec.Problem
	for _, wrong := range params.Check(settings) {
		if strings.Contains(settings[wrong.Setting], "$") {
			continue
		}
		found := problem(path+"/settings/"+pointer.Escape(wrong.Setting), "config.field_invalid", wrong.Error())
		if !described.Complete() {
			found.Severity = spec.SeverityWarning
		}
		problems = append(problems, found)
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
