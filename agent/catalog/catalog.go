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
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/sandbox"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/spec"
)

// Plugins are the plugins that a binary contains.
type Plugins struct {
	// Connectors returns the built-in connectors, sorted by name; nil: none. The options configure exec.
	Connectors func(exec.Options) []sdk.Connector
	// Processors are the built-in processors.
	Processors []sdk.ProcessorPlugin
	// Modules returns the WebAssembly modules of a directory. It is nil in a binary that cannot run modules.
	Modules func(ModuleOptions) Modules
	// Hint ends the errors about plugins that do not exist. A binary that contains few plugins names one with more.
	Hint string
}

// Modules are the processors in the files of a directory.
type Modules interface {
	// Plugins returns the processors.
	Plugins() []sdk.ProcessorPlugin
	// Problems returns the files that are not used.
	Problems() []plugins.Problem
	// Changes returns the processors whose file is no longer the one from which they started.
	Changes() []Change
	// Await returns nil when the directory was scanned and no scan is running, or an error when ctx ends before.
	Await(ctx context.Context) error
	// Rescan scans the directory once.
	Rescan(ctx context.Context)
	// Run watches the directory until ctx ends.
	Run(ctx context.Context) error
	// Close releases the memory of the modules. None of them may run.
	Close(ctx context.Context) error
}

// ModuleOptions configure Modules.
type ModuleOptions struct {
	Processors config.Processors
	CacheDir   string         // for compiled code; empty: none
	Bounds     *schema.Bounds // of the schemas that processors create
	Log        *slog.Logger
	Changed    func() // called after modules appeared, disappeared or changed; nil: never. It must not block
}

// Change says that a restart would start a connector or processor from another plugin or file, or not at all.
type Change struct {
	ID      string // of the connector or processor
	Reason  string // PluginReplaced, PluginBroken or PluginGone
	Message string // for people
	Now     string // plugin or file for the next start, if it is PluginReplaced; for people
	Started time.Time
}

// Catalog lists and describes plugins. Make it with New or Offline.
type Catalog struct {
	Host        *plugins.Host
	Processors  *processor.Registry
	Executables *standalone.Executables
	Modules     Modules // processors in processors.path

	exec  bool      // the built-in connector exec may run commands
	alone bool      // nobody calls Run of Executables and Modules
	scan  sync.Once // of connectors.path, if alone
	seek  sync.Once // of processors.path, if alone
}

// New returns the catalogue of an agent with these settings. The agent must run Executables and Modules, and close
// Modules. schemas are lent to connectors. changed is called after files of plugins appeared, disappeared or changed;
// it must not block.
func New(contained Plugins, c config.Config, schemas schema.Registry, changed func(), log *slog.Logger) *Catalog {
	all := newCatalog(contained, c, schemas, changed, moduleCache(c), log)
	all.Executables.Specifications = c.DB.SQLite.Path + ".plugins"
	return all
}

func newCatalog(
	contained Plugins, c config.Config, schemas schema.Registry, changed func(), cacheDir string, log *slog.Logger,
) *Catalog {
	executables := &standalone.Executables{
		Dir:     c.Connectors.Path,
		Schemas: schemas,
		Bounds: &schema.Bounds{Schemas: c.Connectors.MaxSchemas, Bytes: c.Connectors.MaxSchemaBytes,
			ReadAny: c.Connectors.SchemaAccess == "any"},
		Env:      ConnectorEnvironment(c),
		Log:      log,
		LogLevel: c.Log.Level,
		Changed:  changed,

		Sandbox:        confinement(c.Connectors),
		MaxMessage:     c.Connectors.MaxMessageBytes,
		MaxSend:        c.Connectors.MaxReceiveSize,
		TempDir:        TempDir(c),
		Record:         c.DB.SQLite.Path + ".processes",
		RejectWritable: c.Connectors.WritableByOthers == "refuse",
	}
	var modules Modules = noModules{c.Processors.Path}
	if contained.Modules != nil {
		modules = contained.Modules(ModuleOptions{
			Processors: c.Processors,
			CacheDir:   cacheDir,
			Bounds: &schema.Bounds{Schemas: c.Connectors.MaxSchemas, Bytes: c.Connectors.MaxSchemaBytes,
				ReadAny: true},
			Log:     log,
			Changed: changed,
		})
	}
	var connectors []sdk.Connector
	if contained.Connectors != nil {
		connectors = contained.Connectors(exec.Options{Enabled: c.Connectors.Exec.Enabled, Env: executables.Env})
	}
	paths := NewPaths(c)
	return &Catalog{
		exec:    c.Connectors.Exec.Enabled,
		Modules: modules,
		Host: &plugins.Host{
			Builtin: connectors, Hint: contained.Hint, Standalone: executables, Schemas: schemas, Log: log,
			AllowPath: paths.Check,
		},
		Processors: &processor.Registry{
			Builtin: contained.Processors, Hint: contained.Hint, Standalone: modules.Plugins, AllowPath: paths.Check,
			Await: modules.Await, TimeLimit: c.Processors.Timeout,
			Unused: func(name string) (text string) {
				for _, p := range modules.Problems() {
					if strings.Contains(filepath.Base(p.Path), name) {
						text += fmt.Sprintf("; %s is not used: %s", p.Path, p.Reason)
					}
				}
				return text
			},
		},
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

// moduleCache returns the directory for the compiled code of modules.
func moduleCache(c config.Config) string { return c.DB.SQLite.Path + ".modules" }

// specifyTimeout is how long a request for all plugins waits for each plugin.
const specifyTimeout = 10 * time.Second

// Offline returns the catalogue of an agent with these settings, which need not run. It runs the executables when it
// first needs their descriptions.
func Offline(contained Plugins, c config.Config, log *slog.Logger) *Catalog {
	cacheDir := moduleCache(c)
	if _, err := os.Stat(cacheDir); err != nil {
		cacheDir = "" // a command leaves no files behind
	}
	all := newCatalog(contained, c, nil, nil, cacheDir, log)
	all.alone = true
	all.Executables.TempDir = "" // the agent clears its own one
	all.Executables.LogLevel = "error"
	all.Executables.SpecifyTimeout = specifyTimeout
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
	installed := c.known(ctx).Installed()
	return installed, append(c.Executables.Problems(), c.Modules.Problems()...)
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
		return found, nil, fmt.Errorf("plugin %s is not a %s", found.FullName(), typ)
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
