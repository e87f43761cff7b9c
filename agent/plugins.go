package agent

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Plugin describes a plugin for listings.
type Plugin struct {
	Name        string         `json:"name"` // full, for example builtin:file@v1.0.0
	Path        string         `json:"path,omitempty"`
	Summary     string         `json:"summary"`
	Description string         `json:"description"`
	Author      string         `json:"author"`
	Source      sdk.Parameters `json:"-"` // nil when it is no source
	Destination sdk.Parameters `json:"-"` // nil when it is no destination
}

// PluginProblem says why a file in connectors.path is not used.
type PluginProblem struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// newHost makes the plugin host of an agent.
func newHost(executables *plugins.Executables, schemas schema.Registry, log *slog.Logger) *plugins.Host {
	return &plugins.Host{Builtin: builtin.All(), Standalone: executables, Schemas: schemas, Log: log}
}

func newExecutables(c config.Config, schemas schema.Registry, environ []string, log *slog.Logger) *plugins.Executables {
	return &plugins.Executables{
		Dir:      c.Connectors.Path,
		Schemas:  schemas,
		Env:      pluginEnvironment(environ),
		Log:      log,
		LogLevel: c.Log.Level,
	}
}

// withheld are the variables that no plugin inherits, and with a final '*' the
// beginnings of their names: secrets of the agent, and what ties it to its supervisor.
var withheld = []string{
	"CONDUIT_API_*", "CREDENTIALS_DIRECTORY",
	"LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC",
}

// pluginEnvironment returns what plugins inherit of the agent's environment.
func pluginEnvironment(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(withheld, func(w string) bool {
			prefix, open := strings.CutSuffix(w, "*")
			return name == w || open && strings.HasPrefix(name, prefix)
		})
	})
}

func described(specs []plugins.Specification) []Plugin {
	all := make([]Plugin, len(specs))
	for i, s := range specs {
		all[i] = Plugin{
			Name: s.Name.String(), Path: s.Path, Summary: s.Summary, Description: s.Description, Author: s.Author,
			Source: s.Source, Destination: s.Destination,
		}
	}
	return all
}

func problemsOf(executables *plugins.Executables) []PluginProblem {
	var all []PluginProblem
	for _, p := range executables.Problems() {
		all = append(all, PluginProblem(p))
	}
	return all
}
