package api

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// pluginSettings is a plugin that a file may name.
type pluginSettings struct {
	Name        string // as it is written in a file
	Summary     string
	Source      map[string]rest.Parameter // nil when it is no source
	Destination map[string]rest.Parameter // nil when it is no destination
	Processor   map[string]rest.Parameter // nil when it is no processor
}

// complete returns the completions possible at line and column, both from 1, the most likely first. Columns count
// characters. The part of a word that is already typed selects completions, and they replace it.
func complete(
	text string, line, column int, plugins []pluginSettings, kinds spec.ReferenceKinds,
) []rest.Completion {
	at := locate(text, line, column)
	if at == nil {
		return nil
	}
	var all []rest.Completion
	if at.value {
		if all = values(at, plugins); strings.HasPrefix(at.typed, "$") {
			all = append(all, references(at, kinds)...)
		}
	} else {
		all = keys(at, plugins)
	}
	typed := strings.ToLower(at.typed)
	all = slices.DeleteFunc(all, func(c rest.Completion) bool {
		return !strings.Contains(strings.ToLower(c.Label), typed) || c.Label == at.typed
	})
	sort.SliceStable(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return startsWith(a.Label, typed) > startsWith(b.Label, typed)
	})
	for i := range all {
		all[i].Replace = len([]rune(at.typed))
	}
	return all
}

func startsWith(label, typed string) int {
	if strings.HasPrefix(strings.ToLower(label), typed) {
		return 1
	}
	return 0
}

// keys proposes the fields that are still missing.
func keys(at *location, plugins []pluginSettings) []rest.Completion {
	if params := at.parameters(plugins); params != nil {
		return settings(at, params)
	}
	var all []rest.Completion
	for _, f := range fields(at.path) {
		if _, there := at.siblings[f.name]; there {
			continue
		}
		insert := f.name + ": "
		switch f.kind {
		case "array":
			insert = f.name + ":\n" + strings.Repeat(" ", at.indent) + "  - "
		case "object":
			insert = f.name + ":\n" + strings.Repeat(" ", at.indent) + "  "
		}
		all = append(all, rest.Completion{Label: f.name, Detail: f.description, Insert: insert})
	}
	return all
}

// settings proposes the settings of a plugin, required ones first.
func settings(at *location, params map[string]rest.Parameter) []rest.Completion {
	var all []rest.Completion
	for name, p := range params {
		if _, there := at.siblings[name]; there {
			continue
		}
		detail := p.Description
		if required(p) {
			detail = "required. " + detail
		}
		all = append(all, rest.Completion{Label: name, Detail: detail, Insert: quoted(name) + ": "})
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i].Label, all[j].Label
		if ra, rb := required(params[a]), required(params[b]); ra != rb {
			return ra
		}
		return a < b
	})
	return all
}

func required(p rest.Parameter) bool { return rule(p, "TYPE_REQUIRED") != nil }

func rule(p rest.Parameter, typ string) *rest.ParameterRule {
	for i := range p.Validations {
		if p.Validations[i].Type == typ {
			return &p.Validations[i]
		}
	}
	return nil
}

// values proposes values for the current field.
func values(at *location, plugins []pluginSettings) []rest.Completion {
	if at.key == "plugin" {
		return names(at, plugins)
	}
	if params := at.parameters(plugins); params != nil {
		return settingValues(params[at.key])
	}
	var all []rest.Completion
	for _, f := range fields(at.path) {
		if f.name == at.key {
			for _, v := range f.values {
				all = append(all, rest.Completion{Label: v, Insert: v})
			}
		}
	}
	return all
}

// references proposes the references that the value of a setting may contain.
func references(at *location, kinds spec.ReferenceKinds) (all []rest.Completion) {
	if len(at.path) == 0 || at.path[len(at.path)-1] != "settings" {
		return nil
	}
	for _, k := range kinds {
		for form := range strings.SplitSeq(k.Syntax, ", ") {
			all = append(all, rest.Completion{Label: form, Detail: k.Description, Insert: quoted(form)})
		}
	}
	return all
}

// names proposes the plugins that are valid at the place.
func names(at *location, plugins []pluginSettings) []rest.Completion {
	var all []rest.Completion
	for _, p := range plugins {
		var fits bool
		switch {
		case at.in("processors"):
			fits = p.Processor != nil
		case at.in("connectors") && at.siblings["type"] == "source":
			fits = p.Source != nil
		case at.in("connectors") && at.siblings["type"] != "destination":
			fits = p.Source != nil || p.Destination != nil
		default: // a destination, or the dead-letter queue
			fits = p.Destination != nil
		}
		if fits {
			all = append(all, rest.Completion{Label: p.Name, Detail: p.Summary, Insert: p.Name})
		}
	}
	return all
}

func settingValues(p rest.Parameter) []rest.Completion {
	var all []rest.Completion
	add := func(v, detail string) {
		if v != "" && !slices.ContainsFunc(all, func(c rest.Completion) bool { return c.Label == v }) {
			all = append(all, rest.Completion{Label: v, Detail: detail, Insert: quoted(spec.EscapeReferences(v))})
		}
	}
	if list := rule(p, "TYPE_INCLUSION"); list != nil {
		for v := range strings.SplitSeq(list.Value, ",") {
			add(v, "")
		}
	}
	if p.Type == "TYPE_BOOL" {
		add("true", "")
		add("false", "")
	}
	add(p.Default, "the default")
	return all
}

// quoted returns a value as a YAML string on one line. A value that a plugin proposes is literal text, whatever
// characters it contains.
func quoted(v string) string {
	if strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(strings.ToValidUTF8(v, "\uFFFD"))
	}
	if strings.ContainsAny(v, ":#{}[],&*!|>'\"%@`") || strings.TrimSpace(v) != v || v[0] == '-' {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`
	}
	return v
}

// parameters returns the settings of the plugin at the place, nil when the place is not among settings, or the plugin
// is unknown.
func (at *location) parameters(plugins []pluginSettings) map[string]rest.Parameter {
	if len(at.path) == 0 || at.path[len(at.path)-1] != "settings" {
		return nil
	}
	name, typ := at.owner["plugin"], at.owner["type"]
	for _, p := range plugins {
		if p.Name != bare(name) {
			continue
		}
		switch {
		case at.in("processors"):
			return p.Processor
		case typ == "source":
			return p.Source
		}
		return p.Destination
	}
	return nil
}

// bare returns the name of a plugin without its kind and version.
func bare(reference string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(reference, "builtin:"), "any:")
	name, _, _ = strings.Cut(name, "@")
	return name
}
