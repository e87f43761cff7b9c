// Package catalog lists the plugins of an agent, finds mistakes in the use of plugins by pipelines, and checks that
// settings name only allowed files.
package catalog

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/processor/wasm"
	"github.com/conduit-agent/conduit/plugins/processor/wasm/egress"
	"github.com/conduit-agent/conduit/plugins/sandbox"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/spec"
)

// Catalog lists and describes plugins. Make it with New or Offline.
type Catalog struct {
	Host        *plugins.Host
	Processors  *processor.Registry
	Executables *standalone.Executables
	Modules     *wasm.Modules // processors in processors.path

	exec  bool      // the built-in connector exec may run commands
	alone bool      // nobody calls Run of Executables and Modules
	scan  sync.Once // of connectors.path, if alone
	seek  sync.Once // of processors.path, if alone
}

// New returns the catalogue of an agent with these settings. The agent must run Executables and Modules, and close
// Modules. schemas are lent to connectors.
func New(c config.Config, schemas schema.Registry, log *slog.Logger) *Catalog {
	executables := &standalone.Executables{
		Dir:      c.Connectors.Path,
		Schemas:  schemas,
		Bounds:   &schema.Bounds{Schemas: c.Connectors.MaxSchemas, Bytes: c.Connectors.MaxSchemaBytes, ReadAny: c.Connectors.SchemaAccess == "any"},
		Env:      ConnectorEnvironment(c),
		Log:      log,
		LogLevel: c.Log.Level,

		Sandbox:        confinement(c.Connectors),
		MaxMessage:     c.Connectors.MaxMessageBytes,
		MaxSend:        c.Connectors.MaxReceiveSize,
		TempDir:        TempDir(c),
		Record:         c.DB.SQLite.Path + ".processes",
		RefuseWritable: c.Connectors.WritableByOthers == "refuse",
	}
	modules, paths := newModules(c, log), NewPaths(c)
	return &Catalog{
		exec:    c.Connectors.Exec.Enabled,
		Modules: modules,
		Host:    &plugins.Host{Builtin: builtin.With(exec.Options{Enabled: c.Connectors.Exec.Enabled, Env: executables.Env}), Standalone: executables, Schemas: schemas, Log: log, AllowPath: paths.Check},
		Processors: &processor.Registry{Builtin: processor.Builtins(), Standalone: modules.Plugins, AllowPath: paths.Check,
			TimeLimit: c.Processors.Timeout},
		Executables: executables,
	}
}

// maxTempDir is the longest path of a directory that may contain the sockets of plugins, whose paths are bounded.
const maxTempDir = 66

// TempDir returns the directory for private directories of executables of an agent with these settings: next to the
// store, so that the next agent can clear it. It is empty when that path is too long.
func TempDir(c config.Config) string {
	dir, err := filepath.Abs(c.DB.SQLite.Path + ".run")
	if err != nil || len(dir) > maxTempDir {
		return ""
	}
	return dir
}

// newModules returns the WebAssembly modules in the settings.
func newModules(c config.Config, log *slog.Logger) *wasm.Modules {
	e := c.Processors.Egress
	return wasm.New(wasm.Options{
		Dir:      c.Processors.Path,
		CacheDir: c.DB.SQLite.Path + ".modules",
		Memory:   int64(c.Processors.Memory),
		Log:      log,
		Bounds:   &schema.Bounds{Schemas: c.Connectors.MaxSchemas, Bytes: c.Connectors.MaxSchemaBytes, ReadAny: true},
		Egress: egress.Policy{
			Enabled: e.Enabled, Allow: listed(e.Allow), SecretRefs: listed(e.SecretRefs),
			Timeout: e.Timeout, MaxResponseBytes: int64(e.MaxResponseBytes),
		},
	})
}

// listed returns the items of a comma-separated list, optionally in brackets.
func listed(list string) []string {
	return strings.FieldsFunc(strings.Trim(list, "[]"), func(r rune) bool { return r == ',' || r == ' ' })
}

// specifyTimeout is how long a request for all plugins waits for each plugin.
const specifyTimeout = 10 * time.Second

// Offline returns the catalogue of an agent with these settings, which need not run. It runs the executables when it
// first needs their descriptions.
func Offline(c config.Config, log *slog.Logger) *Catalog {
	all := New(c, nil, log)
	all.alone = true
	all.Executables.TempDir = "" // the agent clears its own one
	all.Executables.LogLevel = "error"
	all.Executables.SpecifyTimeout = specifyTimeout
	if _, err := os.Stat(all.Modules.CacheDir); err != nil {
		all.Modules.CacheDir = "" // a command leaves no files behind
	}
	return all
}

// Rescan scans connectors.path and processors.path for new plugins that no scan has seen. It waits only some seconds
// for the description of a plugin.
func (c *Catalog) Rescan(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, specifyTimeout)
	defer cancel()
	c.Executables.Rescan(ctx)
	c.Modules.Rescan(ctx)
}

// known returns the host once it knows the executables.
func (c *Catalog) known(ctx context.Context) *plugins.Host {
	if c.alone {
		c.scan.Do(func() { c.Executables.Rescan(ctx) })
	}
	c.KnownProcessors(ctx)
	return c.Host
}

// KnownProcessors returns the registry of processors once it knows the modules in processors.path.
func (c *Catalog) KnownProcessors(ctx context.Context) *processor.Registry {
	if c.alone {
		c.seek.Do(func() { c.Modules.Rescan(ctx) })
	}
	return c.Processors
}

// Plugins returns all plugins, sorted by name, and the unused files in connectors.path and processors.path.
func (c *Catalog) Plugins(ctx context.Context) ([]plugins.Installed, []plugins.Problem) {
	installed, problems := c.known(ctx).Installed(), c.Executables.Problems()
	for _, p := range c.Modules.Problems() {
		problems = append(problems, plugins.Problem{Path: p.Path, Reason: p.Reason})
	}
	return installed, problems
}

// Plugin returns the plugin to which a reference refers.
func (c *Catalog) Plugin(ctx context.Context, ref string) (plugins.Installed, error) {
	return c.known(ctx).Find(ref)
}

// Parameters returns the settings that a plugin understands as a connector of type typ.
func (c *Catalog) Parameters(ctx context.Context, plugin string, typ spec.ConnectorType) (sdk.Parameters, error) {
	_, params, err := parameters(c.known(ctx), plugin, typ)
	return params, err
}

func parameters(host *plugins.Host, plugin string, typ spec.ConnectorType) (plugins.Installed, sdk.Parameters, error) {
	found, err := host.Find(plugin)
	if err != nil {
		return found, nil, err
	}
	params := found.Source
	if typ == spec.TypeDestination {
		params = found.Destination
	}
	if params == nil {
		return found, nil, fmt.Errorf("plugin %s is no %s", found.FullName(), typ)
	}
	return found, params, nil
}

// confinement returns the restrictions on plugins in the settings; nil: none.
func confinement(c config.Connectors) *sandbox.Policy {
	if c.Sandbox == "" || c.Sandbox == "off" {
		return nil
	}
	p := &sandbox.Policy{Strict: c.Sandbox == "strict"}
	if !p.Strict { // scripts and archives need more files than the started one
		p.Read = append(p.Read, c.Path)
	}
	for path := range strings.SplitSeq(c.SandboxPaths, ",") {
		path = strings.TrimSpace(path)
		writable, isWritable := strings.CutSuffix(path, ":rw")
		switch {
		case path == "":
		case isWritable:
			p.Write = append(p.Write, writable)
		default:
			p.Read = append(p.Read, path)
		}
	}
	return p
}

// withheld are patterns of the variables that no plugin inherits: the settings and secrets of the agent, and its
// connection to its supervisor.
var withheld = []string{
	"CONDUIT_*", "CREDENTIALS_DIRECTORY",
	"LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC",
}

// ConnectorEnvironment returns the environment of connectors, without the settings and secrets of the agent.
func ConnectorEnvironment(c config.Config) []string {
	return environment(os.Environ(), c.Connectors.Environment)
}

// environment returns the variables of the agent that plugins inherit, by the setting connectors.environment.
func environment(environ []string, setting string) []string {
	wanted := []string{"*"}
	if setting != "" && setting != "inherit" {
		wanted = strings.FieldsFunc(setting, func(r rune) bool { return r == ',' || r == ' ' })
	}
	env := []string{} // nil would mean the whole environment
	for _, v := range environ {
		if name, _, _ := strings.Cut(v, "="); matches(wanted, name) && !matches(withheld, name) {
			env = append(env, v)
		}
	}
	return env
}

// matches reports whether name matches one of the patterns. A '*' at the end of a pattern matches any suffix.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return name == pattern || open && strings.HasPrefix(name, prefix)
	})
}
