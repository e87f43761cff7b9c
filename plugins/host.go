package plugins

import (
	"context"
	"fmt"
	"log/slog"
	"sort"
	"strings"
	"sync"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Host knows all plugins and creates their instances. The zero Host knows none. Set its fields before the first use and
// do not change them after.
type Host struct {
	Builtin    []sdk.Connector // compiled in
	Hint       string          // ends the error about a plugin that does not exist; may be empty
	Standalone Discovery       // executables; nil: none
	Schemas    schema.Registry // lent to connectors; nil: none
	Log        *slog.Logger    // nil discards
	Timeouts   BuiltinTimeouts
	// AllowPath returns an error if settings of built-in connectors may not name a file; nil allows every file.
	AllowPath func(path string) error
	// Syncs syncs the writes of built-in destinations. If nil, they sync themselves before each Write returns.
	Syncs *SyncGroup
	// Buffer returns the accounting of the buffers of an instance of the built-in plugin; nil: not limited.
	Buffer func(plugin string) sdk.Buffer
	// StateDir returns the directory for durable data of the built-in source of a connector, which need not exist; nil:
	// there is none. The host removes it when the connector is created and after it was deleted.
	StateDir func(connectorID string) string
	// Budget is the result of sdk.Budget for built-in plugins; 0: sdk.DefaultBudget.
	Budget int

	once    sync.Once
	builtin *builtins
	warned  sync.Map // warnings about references to versions of other plugins
}

// Registry creates instances of plugins of the same kind.
type Registry interface {
	// Installed returns the current plugins, in any order.
	Installed() []Installed
	// Running returns the connectors that were created and not torn down, in any order.
	Running() []Running
	// Source creates an instance of the plugin with exactly this name. It runs but is not configured.
	Source(ctx context.Context, use Use) (connector.Source, error)
	// Destination is like Source for a destination.
	Destination(ctx context.Context, use Use) (connector.Destination, error)
}

// Discovery is a Registry whose plugins change while it runs.
type Discovery interface {
	Registry
	// Await returns when it is known which plugin ref refers to, as far as possible. It returns at once unless there
	// are plugins without a specification. With substitute there is another suitable plugin, and the wait is short.
	Await(ctx context.Context, ref pluginname.Name, substitute bool)
	// Resolve returns the name of the plugin in the file at path.
	Resolve(path string) (pluginname.Name, error)
	// Problems returns the files that are not used.
	Problems() []Problem
}

// Installed is a plugin that references can name: its specification and its location.
type Installed struct {
	sdk.Specification
	Kind pluginname.Kind
	Path string // path of the executable; empty: built in
}

// Problem is the reason why a file among the executables is not used.
type Problem struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Process is the process of a running connector.
type Process struct {
	ConnectorID string
	PID         int // also the process group's id
}

// FullName returns the plugin's full name, for example builtin:generator@v1.0.0.
func (p Installed) FullName() pluginname.Name {
	return pluginname.Name{Kind: p.Kind, Name: p.Name, Version: p.Version}
}

// Complete reports whether the parameters include all settings of the plugin. This is unknown for executables made
// without an SDK that adds its own settings: some accept more settings, or other names.
func (p Installed) Complete() bool {
	return p.Kind == pluginname.Builtin || listsOwn(p.Source) || listsOwn(p.Destination)
}

// listsOwn reports whether params include settings added by an SDK.
func listsOwn(params sdk.Parameters) bool {
	for name := range params {
		if strings.HasPrefix(name, "sdk.") {
			return true
		}
	}
	return false
}

// Installed returns all plugins, sorted by name.
func (h *Host) Installed() []Installed {
	var all []Installed
	for _, r := range h.registries() {
		all = append(all, r.Installed()...)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return a.FullName().Compare(b.FullName()) < 0
	})
	return all
}

// Find returns the plugin that the reference refers to. If there is none, the error names the available plugins.
func (h *Host) Find(plugin string) (Installed, error) {
	found, _, err := h.find(plugin)
	return found, err
}

// Source creates a source of the plugin that the reference refers to, for the connector with this id. It is not
// configured. The caller must call Teardown.
func (h *Host) Source(ctx context.Context, plugin, connectorID string) (connector.Source, error) {
	h.await(ctx, plugin)
	found, registry, err := h.find(plugin)
	if err == nil && found.Source == nil {
		err = fmt.Errorf("plugin %s is a destination only", found.FullName())
	}
	if err != nil {
		return nil, fmt.Errorf("cannot start source %q: %w", connectorID, err)
	}
	return registry.Source(ctx, Use{found.FullName(), plugin, connectorID})
}

// Destination is like Source for a destination.
func (h *Host) Destination(ctx context.Context, plugin, connectorID string) (connector.Destination, error) {
	h.await(ctx, plugin)
	found, registry, err := h.find(plugin)
	if err == nil && found.Destination == nil {
		err = fmt.Errorf("plugin %s is a source only", found.FullName())
	}
	if err != nil {
		return nil, fmt.Errorf("cannot start destination %q: %w", connectorID, err)
	}
	return registry.Destination(ctx, Use{found.FullName(), plugin, connectorID})
}

// await waits for plugins that may match the reference.
func (h *Host) await(ctx context.Context, plugin string) {
	name, err := pluginname.Parse(plugin)
	if err != nil || h.Standalone == nil || name.Kind == pluginname.Builtin {
		return
	}
	h.registries()
	_, substitute := newest(h.builtin.Installed(), name)
	h.Standalone.Await(ctx, name, substitute)
}

// find returns the newest matching plugin of the first registry that has one.
func (h *Host) find(plugin string) (Installed, Registry, error) {
	name, err := pluginname.Parse(plugin)
	if err != nil {
		return Installed{}, nil, err
	}
	if name.IsPath() && name.Kind != pluginname.Builtin && h.Standalone != nil {
		if name, err = h.Standalone.Resolve(name.Name); err != nil {
			return Installed{}, nil, err
		}
	}
	for _, r := range h.registries() {
		if s, ok := newest(r.Installed(), name); ok {
			return s, r, nil
		}
	}
	if found, ok := h.pinned(name, plugin); ok {
		return found, h.builtin, nil
	}
	var unused []Problem
	if h.Standalone != nil && name.Kind != pluginname.Builtin {
		unused = h.Standalone.Problems()
	}
	return Installed{}, nil, notFound(name, plugin, h.Installed(), unused, h.Hint)
}

func newest(all []Installed, name pluginname.Name) (found Installed, ok bool) {
	for _, p := range all {
		if !name.Matches(p.FullName()) {
			continue
		}
		if !ok || pluginname.CompareVersions(p.Version, found.Version) > 0 {
			found, ok = p, true
		}
	}
	return found, ok
}

// registries returns the registries in the search order for pluginname.Any.
func (h *Host) registries() []Registry {
	h.once.Do(func() {
		h.builtin = &builtins{
			connectors: h.Builtin, schemas: h.Schemas, log: h.Log, timeouts: h.Timeouts, allowPath: h.AllowPath,
			syncs: h.Syncs, buffer: h.Buffer, budget: h.Budget,
			stateDir: h.StateDir,
		}
		if h.builtin.log == nil {
			h.builtin.log = slog.New(slog.DiscardHandler)
		}
	})
	if h.Standalone == nil {
		return []Registry{h.builtin}
	}
	return []Registry{h.Standalone, h.builtin}
}

// pinned returns the built-in plugin that replaces a version of Conduit's plugin with the same name, because pipeline
// files of Conduit may name that version. It warns once about each.
func (h *Host) pinned(name pluginname.Name, reference string) (Installed, bool) {
	if name.Kind == pluginname.Standalone || name.Version == pluginname.Latest || name.Major() != "v0" {
		return Installed{}, false
	}
	name.Kind, name.Version = pluginname.Builtin, pluginname.Latest
	found, ok := newest(h.builtin.Installed(), name)
	if _, warned := h.warned.LoadOrStore(reference, true); ok && !warned && h.Log != nil {
		h.Log.Warn("using the built-in plugin of another version",
			"component", "plugin", "plugin_name", reference, "used", found.FullName().String())
	}
	return found, ok
}
