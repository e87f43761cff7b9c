// Package parts lists the parts of the full binary.
package parts

import (
	"strings"

	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/builtin/processors"
	"github.com/conduit-agent/conduit/plugins/processor/wasm"
	"github.com/conduit-agent/conduit/reconcile/watch"
)

// Plugins returns all connectors and processors.
func Plugins() catalog.Plugins {
	return catalog.Plugins{Connectors: builtin.Connectors, Processors: processors.All(), Modules: newModules}
}

// modules are WebAssembly modules, which a catalogue lists.
type modules struct{ *wasm.Modules }

func newModules(o catalog.ModuleOptions) catalog.Modules {
	e := o.Processors.Egress
	return modules{wasm.New(wasm.Options{
		Dir:      o.Processors.Path,
		CacheDir: o.CacheDir,
		Memory:   int64(o.Processors.Memory),
		Log:      o.Log,
		Bounds:   o.Bounds,
		Egress: wasm.EgressPolicy{
			Enabled: e.Enabled, Allow: listed(e.Allow), SecretRefs: listed(e.SecretRefs),
			Timeout: e.Timeout, MaxResponseBytes: int64(e.MaxResponseBytes),
		},
		Changed: o.Changed,
		Watch:   (&watch.Trigger{Log: o.Log}).Run,
	})}
}

// listed returns the items of a comma-separated list, optionally in brackets.
func listed(list string) []string {
	return strings.FieldsFunc(strings.Trim(list, "[]"), func(r rune) bool { return r == ',' || r == ' ' })
}

// Problems implements catalog.Modules.
func (m modules) Problems() (problems []plugins.Problem) {
	for _, p := range m.Modules.Problems() {
		problems = append(problems, plugins.Problem{Path: p.Path, Reason: p.Reason})
	}
	return problems
}

// Changes implements catalog.Modules.
func (m modules) Changes() (changes []catalog.Change) {
	for _, c := range m.Modules.Changes() {
		changes = append(changes, catalog.Change{ID: c.ProcessorID, Reason: c.Reason, Message: c.Message,
			Now: c.Now, Started: c.Started})
	}
	return changes
}
