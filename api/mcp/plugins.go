package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
)

// plugin is a connector or a processor in a list.
type plugin struct {
	Name    string                               `json:"name"`
	Kinds   []string                             `json:"kinds"`
	Summary string                               `json:"summary"`
	sets    map[string]map[string]rest.Parameter // settings by kind
}

// The kinds of plugins.
const (
	source      = "source"
	destination = "destination"
	processor   = "processor"
)

// plugins returns all plugins: connectors and then processors, by name.
func plugins(ctx context.Context, c *client.Client) (all []plugin, err error) {
	connectors, err := c.Plugins(ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range connectors {
		p := plugin{Name: one.Name, Summary: one.Summary, sets: map[string]map[string]rest.Parameter{}}
		if len(one.SourceParams) > 0 {
			p.Kinds, p.sets[source] = append(p.Kinds, source), one.SourceParams
		}
		if len(one.DestinationParams) > 0 {
			p.Kinds, p.sets[destination] = append(p.Kinds, destination), one.DestinationParams
		}
		all = append(all, p)
	}
	processors, err := c.ProcessorPlugins(ctx)
	for _, one := range processors {
		all = append(all, plugin{Name: one.Name, Kinds: []string{processor}, Summary: one.Summary,
			sets: map[string]map[string]rest.Parameter{processor: one.Parameters}})
	}
	return all, err
}

type pluginListing struct {
	Kind  string `json:"kind,omitempty" jsonschema:"source, destination or processor; default all"`
	Match string `json:"match,omitempty" jsonschema:"text that the name or the summary contains"`
	After string `json:"after,omitempty" jsonschema:"name after which to continue"`
}

func listPlugins(ctx context.Context, c *client.Client, in pluginListing) (any, error) {
	all, err := plugins(ctx, c)
	if err != nil {
		return nil, err
	}
	if at := slices.IndexFunc(all, func(p plugin) bool { return p.Name == in.After }); at >= 0 {
		all = all[at+1:]
	}
	all = slices.DeleteFunc(all, func(p plugin) bool {
		return in.Kind != "" && !slices.Contains(p.Kinds, in.Kind) ||
			!contains(p.Name, in.Match) && !contains(p.Summary, in.Match)
	})
	return paged(all, len(all), func(last plugin) string { return fmt.Sprintf("call again with after %q", last.Name) })
}

type pluginNamed struct {
	Plugin string `json:"plugin" jsonschema:"name, with or without builtin: and the version"`
	Kind   string `json:"kind,omitempty" jsonschema:"source or destination, if the plugin is both"`
	Match  string `json:"match,omitempty" jsonschema:"text that the name or the description of a setting contains"`
	After  string `json:"after,omitempty" jsonschema:"name of a setting after which to continue"`
}

// setting is a setting of a plugin.
type setting struct {
	Kind        string   `json:"kind"`
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Default     string   `json:"default,omitempty"`
	Rules       []string `json:"rules,omitempty"`
	Description string   `json:"description"`
}

func pluginSettings(ctx context.Context, c *client.Client, in pluginNamed) (any, error) {
	all, err := plugins(ctx, c)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(p plugin) bool { return p.Name == in.Plugin || short(p.Name) == short(in.Plugin) })
	if at < 0 {
		return nil, fmt.Errorf("there is no plugin %q\nRemedy: list_plugins lists the plugins", in.Plugin)
	}
	var settings []setting
	for kind, params := range all[at].sets {
		for name, p := range params {
			if in.Kind != "" && in.Kind != kind || !contains(name, in.Match) && !contains(p.Description, in.Match) ||
				kind+" "+name <= in.After {
				continue
			}
			s := setting{Kind: kind, Name: name, Type: lower(p.Type), Default: p.Default, Description: p.Description}
			for _, r := range p.Validations {
				s.Rules = append(s.Rules, strings.TrimSpace(lower(r.Type)+" "+r.Value))
			}
			settings = append(settings, s)
		}
	}
	slices.SortFunc(settings, func(a, b setting) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return paged(settings, len(settings), func(last setting) string {
		return fmt.Sprintf("call again with after %q", last.Kind+" "+last.Name)
	})
}

// short returns the name of a plugin without kind and version.
func short(name string) string {
	if _, after, ok := strings.Cut(name, ":"); ok {
		name = after
	}
	name, _, _ = strings.Cut(name, "@")
	return name
}

// lower returns a word of the API, such as TYPE_REQUIRED, as text.
func lower(word string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(word, "TYPE_")), "_", " ")
}
