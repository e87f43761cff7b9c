package catalog_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// modules are modules that a test controls.
type modules struct {
	plugins []sdk.ProcessorPlugin
	changes []catalog.Change
}

func (m *modules) Plugins() []sdk.ProcessorPlugin { return m.plugins }
func (*modules) Problems() []plugins.Problem      { return nil }
func (m *modules) Changes() []catalog.Change      { return m.changes }
func (*modules) Await(context.Context) error      { return nil }
func (*modules) Rescan(context.Context)           {}
func (*modules) Run(context.Context) error        { return nil }
func (*modules) Close(context.Context) error      { return nil }

// passing is a processor that keeps every record.
type passing struct{ sdk.ProcessorBase }

func (*passing) Parameters() sdk.Parameters                         { return nil }
func (*passing) Configure(context.Context, map[string]string) error { return nil }
func (*passing) Open(context.Context) error                         { return nil }
func (*passing) Process(context.Context, *sdk.ProcessBatch) error   { return nil }
func (*passing) Teardown(context.Context) error                     { return nil }

// A change of the module of a running processor is reported only if a restart would use that module.
func TestChangesOfProcessors(t *testing.T) {
	version := func(v string) sdk.ProcessorPlugin {
		return sdk.ProcessorPlugin{Name: "greet", Version: v, New: func() sdk.Processor { return &passing{} }}
	}
	m := &modules{plugins: []sdk.ProcessorPlugin{version("v1.0.0")}}
	contains := catalog.Plugins{Modules: func(catalog.ModuleOptions) catalog.Modules { return m }}
	c := catalog.Offline(contains, config.Config{}, slog.New(slog.DiscardHandler))
	chain, err := processor.Open(t.Context(), "p", []spec.Processor{{ID: "a", Plugin: "greet"},
		{ID: "b", Plugin: "greet@v1.0.0"}}, processor.Options{Registry: c.Processors})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, want ...string) {
		t.Helper()
		got := c.Changes(func(string) (string, bool) { return "p", true })
		if len(got) != len(want) {
			t.Fatalf("%s: %+v, want %q", what, got, want)
		}
		for i, change := range got {
			if said := change.Reason + " " + change.Message; said != want[i] || change.Pipeline != "p" {
				t.Errorf("%s: %q, want %q", what, said, want[i])
			}
		}
	}
	check("at the start")
	uses := func(want ...string) {
		t.Helper()
		var got []string
		for _, change := range c.Changes(func(string) (string, bool) { return "p", true }) {
			got = append(got, change.Now)
		}
		if !slices.Equal(got, want) {
			t.Errorf("a restart would use %q, want %q", got, want)
		}
	}
	const later = "PluginReplaced processor p:a runs standalone:greet@v1.0.0, but greet now refers to " +
		"standalone:greet@v1.1.0; a restart of the pipeline uses that one"
	m.plugins = append(m.plugins, version("v1.1.0"))
	check("a newer version in another file", later)
	uses("standalone:greet@v1.1.0")
	m.plugins = m.plugins[1:]
	m.changes = []catalog.Change{{ID: "p:a", Reason: "PluginGone", Message: "a",
		Now: "the new file a"}, {ID: "p:b", Reason: "PluginGone",
		Message: "b", Now: "the new file b"}}
	check("the running one is removed", later, "PluginGone b")
	m.changes[0].Reason, m.changes[1].Reason = "PluginReplaced", "PluginReplaced"
	check("its file has the newer version", later, "PluginGone processor p:b runs standalone:greet@v1.0.0, and cannot be "+
		`restarted: cannot find processor "greet@v1.0.0": installed: standalone:greet@v1.1.0`)
	m.plugins = []sdk.ProcessorPlugin{version("v1.0.0")}
	check("its file has other content", "PluginReplaced a", "PluginReplaced b")
	uses("the new file a", "the new file b")
	if m.changes = nil; chain.Teardown(t.Context()) != nil {
		t.Error("it cannot end")
	}
	m.plugins = nil
	check("at the end")
}
