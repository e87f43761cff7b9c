package catalog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
	"github.com/conduit-agent/conduit/schemas"
	"github.com/conduit-agent/conduit/spec"
)

// Check returns the problems with the plugins of p and their settings. Paths are JSON pointers within p. Settings with
// references are checked when the pipeline starts, since their values are known only then.
func (c *Catalog) Check(ctx context.Context, p *spec.Pipeline) []spec.Problem {
	return c.check(ctx, c.known(ctx), p)
}

// CheckAfterRescan is like Check, but if a plugin is unknown it calls rescan and checks again before it reports that
// the plugin does not exist.
func (c *Catalog) CheckAfterRescan(ctx context.Context, p *spec.Pipeline, rescan func()) []spec.Problem {
	problems := c.Check(ctx, p)
	if slices.ContainsFunc(problems, func(p spec.Problem) bool {
		return p.Code == codePluginNotFound || p.Code == codeProcessorNotFound
	}) {
		rescan()
		problems = c.Check(ctx, p)
	}
	return problems
}

func (c *Catalog) check(ctx context.Context, host *plugins.Host, p *spec.Pipeline) []spec.Problem {
	var problems []spec.Problem
	for i, connector := range p.Connectors {
		path := fmt.Sprintf("/connectors/%d", i)
		problems = append(problems, c.checkPlugin(ctx, host, path, connector.Plugin, connector.Type,
			connector.Settings)...)
		problems = append(problems, c.Processors.Check(ctx, path+"/processors", connector.Processors)...)
		if _, err := template.ParseCondition(connector.Condition); err != nil {
			problems = append(problems, problem(path+"/condition", "config.field_invalid",
				fmt.Sprintf("condition of destination %q: %v", connector.ID, err)))
		}
	}
	problems = append(
		problems,
		c.checkPlugin(ctx, host, "/dead-letter-queue", p.DeadLetterQueue.Plugin, spec.TypeDestination,
			p.DeadLetterQueue.Settings)...)
	problems = append(problems, c.Processors.Check(ctx, "/processors", p.Processors)...)
	for _, one := range checkSelections(ctx, host, p) {
		if !slices.ContainsFunc(problems, func(p spec.Problem) bool { return p.Path == one.Path }) {
			problems = append(problems, one)
		}
	}
	return append(problems, checkHeld(ctx, host, p)...)
}

// Codes of problems of plugins that do not exist.
const (
	codePluginNotFound    = "connector.plugin_not_found"
	codeProcessorNotFound = "processor.plugin_not_found"
)

func (c *Catalog) checkPlugin(
	ctx context.Context, host *plugins.Host, path, plugin string, typ spec.ConnectorType, settings map[string]string,
) []spec.Problem {
	if strings.Contains(plugin, "$") { // the plugin is known only when the pipeline starts
		return nil
	}
	described, params, err := parameters(host, plugin, typ)
	if err != nil {
		return []spec.Problem{problem(path+"/plugin", codePluginNotFound, err.Error())}
	}
	literal, known := make(map[string]string, len(settings)), true // known: no value has a reference
	for name, value := range settings {
		text, ok := spec.LiteralText(value)
		if !ok {
			text, known = value, false
		}
		literal[name] = text
	}
	wrongs := params.Check(literal)
	if described.Kind == pluginname.Builtin { // executables may know other functions in templates
		wrongs = append(Wrong(typ, params, literal), forbiddenPaths(host, described.Name, settings)...)
	}
	var problems []spec.Problem
	for _, wrong := range wrongs {
		if _, ok := spec.LiteralText(settings[wrong.Setting]); !ok { // its value is not known yet
			continue
		}
		found := problem(path+"/settings/"+schemas.EscapePointer(wrong.Setting), "config.field_invalid", wrong.Error())
		if !described.Complete() {
			found.Severity = spec.SeverityWarning
		}
		problems = append(problems, found)
	}
	switch {
	case described.Kind != pluginname.Builtin:
	case described.Name == "exec":
		problems = append(problems, c.checkExec(path, settings)...)
	case len(wrongs) == 0 && known:
		problems = append(problems, configure(ctx, host, path, described, typ, literal, c.alone)...)
	}
	return problems
}

// checkExec returns the reasons why the built-in connector exec cannot run a command. A disabled exec is only a
// warning: the agent may have other settings than the command that checks.
func (c *Catalog) checkExec(path string, settings map[string]string) (problems []spec.Problem) {
	if !c.exec {
		off := problem(path+"/plugin", "connector.disabled", exec.ErrDisabled.Error())
		off.Severity = spec.SeverityWarning
		problems = append(problems, off)
	}
	if err := exec.Check(settings); err != nil && !strings.Contains(settings["command"]+settings["shell"], "${") {
		problems = append(problems, problem(path+"/settings/command", "config.field_invalid", err.Error()))
	}
	return problems
}

// forbiddenPaths returns the settings of a built-in connector that name files that no pipeline may name. The connector
// checks the files again after opening them.
func forbiddenPaths(host *plugins.Host, plugin string, settings map[string]string) (wrong []sdk.SettingError) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		path := settings[name]
		if !namesFile(plugin, name) || path == "" || strings.Contains(path, "$") || host.AllowPath == nil {
			continue
		}
		if plugin == "file" {
			path = cmp.Or(file.Below(path), path)
		}
		if err := host.AllowPath(path); err != nil {
			wrong = append(wrong, sdk.SettingError{Setting: name, Message: err.Error()})
		}
	}
	return wrong
}

// namesFile reports whether a setting of a built-in connector is the path of a file or directory.
func namesFile(plugin, setting string) bool {
	switch plugin {
	case "file", "spool":
		return setting == "path"
	case "generator":
		return strings.HasSuffix(setting, "format.options.path")
	}
	return false
}

// Wrong returns the problems of settings by the description of a plugin, and by the rules of the SDK for record
// formats of destinations.
func Wrong(typ spec.ConnectorType, params sdk.Parameters, settings map[string]string) []sdk.SettingError {
	wrong := params.Check(settings)
	if typ == spec.TypeDestination {
		wrong = append(wrong, sdk.CheckFormat(settings)...)
	}
	return wrong
}

func problem(path, code, message string) spec.Problem {
	return spec.Problem{Path: path, Severity: spec.SeverityError, Code: code, Message: message}
}
