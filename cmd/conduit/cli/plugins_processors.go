package cli

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

// script is the processor that runs scripts, which have no names of their own.
const script = "custom.javascript"

// describeNamedPlugin explains the connector or the processor with this name: both, if there are two.
func describeNamedPlugin(ctx context.Context, p *Program, catalog Catalog, name string, asJSON bool) error {
	reference := name
	if strings.HasSuffix(name, ".js") {
		reference = script
	}
	registry := catalog.KnownProcessors(ctx)
	one, builtin, absent := registry.Find(reference)
	plugin, err := catalog.Plugin(ctx, reference)
	switch {
	case err != nil && absent != nil:
		return notFound(name, err, registry)
	case err == nil && asJSON:
		return p.WriteJSON(pluginDescriptionJSON(plugin))
	case err == nil:
		if err := describePlugin(p, plugin); err != nil || absent != nil {
			return err
		}
		fmt.Fprintln(p.Stdout)
	case asJSON:
		description, err := processorDescriptionJSON(one, builtin)
		if err != nil {
			return err
		}
		return p.WriteJSON(description)
	}
	return describeProcessor(p, one, builtin, name)
}

// notFound returns the error for an unknown connector. The name may be the name of a processor.
func notFound(name string, err error, registry *processor.Registry) error {
	if strings.HasSuffix(name, ".wasm") {
		return Invalidf("cannot find plugin %q: a module defines its own name; "+
			"'conduit plugins ls --processors' lists the names, and unused files in processors.path with the "+
			"reason", name)
	}
	var names []string
	for _, known := range allProcessors(registry) {
		names = append(names, known.plugin.Name)
	}
	if best := texts.Closest(name, names); best != "" && !strings.Contains(err.Error(), "did you mean") {
		return Invalidf("%v; did you mean the processor %q?", err, best)
	}
	return Invalidf("%v, and with --processors the processors", err)
}

// known is a processor with its origin.
type known struct {
	plugin  sdk.ProcessorPlugin
	builtin bool
}

func (k *known) name() pluginname.Name {
	kind := pluginname.Standalone
	if k.builtin {
		kind = pluginname.Builtin
	}
	return pluginname.Name{Kind: kind, Name: k.plugin.Name, Version: k.plugin.Version}
}

// allProcessors returns the processors, sorted by name.
func allProcessors(registry *processor.Registry) []known {
	var all []known
	for _, plugin := range registry.Builtin {
		all = append(all, known{plugin, true})
	}
	if registry.Standalone != nil {
		for _, plugin := range registry.Standalone() {
			all = append(all, known{plugin, false})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].plugin.Name < all[j].plugin.Name })
	return all
}

func listProcessors(p *Program, registry *processor.Registry, refused []plugins.Problem, asJSON bool) error {
	all := allProcessors(registry)
	if asJSON {
		list := make([]processorJSON, len(all))
		for i, one := range all {
			list[i] = processorToJSON(&one)
		}
		return p.WriteJSON(struct {
			Processors []processorJSON   `json:"processors"`
			Refused    []plugins.Problem `json:"refused"`
		}{list, append([]plugins.Problem{}, refused...)})
	}
	tw := tabwriter.NewWriter(p.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "NAME\tVERSION\tKIND\tSUMMARY")
	for _, one := range all {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", one.plugin.Name, one.plugin.Version, one.name().Kind,
			terminal.OneLine(one.plugin.Summary))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	writeRejected(p, refused)
	return nil
}

// describeProcessor explains a processor. named is the name that the user gave.
func describeProcessor(p *Program, plugin sdk.ProcessorPlugin, builtin bool, named string) error {
	one := known{plugin, builtin}
	writeAbout(p, one.name(), plugin.Summary, plugin.Description, plugin.Author)
	if plugin.Stateful {
		fmt.Fprintln(p.Stdout, "It is stateful: workers must be 1.")
	}
	writeParameters(p, "Settings as a processor", processor.Parameters(plugin))
	if strings.HasSuffix(named, ".js") {
		fmt.Fprintf(p.Stdout, "\nFor the script %s:\n\nprocessors:\n  - id: script\n    plugin: %s\n    settings:\n"+
			"      script.path: %s\n", terminal.OneLine(named), script, terminal.OneLine(named))
		return nil
	}
	example, err := exampleOf(&one)
	if err != nil || example == nil {
		return err
	}
	text, err := example.Text()
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "\nExample: %s\n\nprocessors:\n  - id: example\n    plugin: %s\n", example.Title, plugin.Name)
	indent := "    "
	for line := range strings.Lines(text) {
		if before, _, ok := strings.Cut(line, ":"); ok && (before == "before" || before == "in") && indent != "" {
			indent = ""
			fmt.Fprintln(p.Stdout)
		}
		fmt.Fprint(p.Stdout, indent, line)
	}
	return nil
}

// exampleOf returns the first example of a processor, nil when there is none.
func exampleOf(k *known) (*processor.Example, error) {
	if !k.builtin {
		return nil, nil
	}
	all, err := processor.Examples(k.plugin.Name)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

type processorJSON struct {
	Name        string          `json:"name"` // full, for example builtin:field.mask@v0.1.0
	Summary     string          `json:"summary"`
	Description string          `json:"description"`
	Author      string          `json:"author"`
	Kind        pluginname.Kind `json:"kind"`
	Version     string          `json:"version"`
	Stateful    bool            `json:"stateful,omitempty"`
	Types       []string        `json:"types"`
}

func processorToJSON(k *known) processorJSON {
	p := &k.plugin
	return processorJSON{Name: k.name().String(), Summary: p.Summary, Description: p.Description, Author: p.Author,
		Kind: k.name().Kind, Version: p.Version, Stateful: p.Stateful, Types: []string{"processor"}}
}

func processorDescriptionJSON(plugin sdk.ProcessorPlugin, builtin bool) (any, error) {
	k := known{plugin, builtin}
	text := ""
	example, err := exampleOf(&k)
	if err == nil && example != nil {
		text, err = example.Text()
	}
	return struct {
		processorJSON
		Parameters map[string]parameterJSON `json:"processorParams"`
		Example    string                   `json:"example,omitempty"` // YAML: condition, settings, records in and out
	}{processorToJSON(&k), parametersToJSON(processor.Parameters(plugin)), text}, err
}
