package cli

import (
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// writeParameters explains every setting below a title, if there are settings.
func writeParameters(p *Program, title string, parameters sdk.Parameters) {
	if parameters == nil {
		return
	}
	fmt.Fprintf(p.Stdout, "\n%s:\n", title)
	if len(parameters) == 0 {
		fmt.Fprintln(p.Stdout, "  none")
	}
	for _, name := range orderedParameters(parameters) {
		parameter := parameters[name]
		fmt.Fprintf(p.Stdout, "  %s\n", terminal.OneLine(name))
		for line := range strings.Lines(terminal.Clean(ExplainParameter(parameter))) {
			fmt.Fprintf(p.Stdout, "      %s\n", strings.TrimSpace(line))
		}
		if parameter.Default != "" {
			fmt.Fprintf(p.Stdout, "      Default: %s\n", terminal.OneLine(parameter.Default))
		}
	}
}

type pluginJSON struct {
	Name        string          `json:"name"` // full, for example builtin:file@v1.0.0
	Path        string          `json:"path,omitempty"`
	Summary     string          `json:"summary"`
	Description string          `json:"description"`
	Author      string          `json:"author"`
	Kind        pluginname.Kind `json:"kind"`
	Version     string          `json:"version"`
	Types       []string        `json:"types"`
}

type parameterJSON struct {
	Type        string           `json:"type"`
	Description string           `json:"description"`
	Default     string           `json:"default"`
	Validations []validationJSON `json:"validations"`
}

type validationJSON struct {
	Type  string `json:"type"`
	Value string `json:"value,omitempty"`
}

func pluginToJSON(p plugins.Installed) pluginJSON {
	return pluginJSON{Name: p.FullName().String(), Path: p.Path, Summary: p.Summary, Description: p.Description,
		Author: p.Author,
		Kind:   p.Kind, Version: p.Version, Types: append([]string{}, pluginTypes(p)...)}
}

func pluginListJSON(all []plugins.Installed, refused []plugins.Problem) any {
	list := make([]pluginJSON, len(all))
	for i, p := range all {
		list[i] = pluginToJSON(p)
	}
	return struct {
		Plugins []pluginJSON      `json:"plugins"`
		Refused []plugins.Problem `json:"refused"`
	}{list, append([]plugins.Problem{}, refused...)}
}

func pluginDescriptionJSON(p plugins.Installed) any {
	return struct {
		pluginJSON
		Source      map[string]parameterJSON `json:"sourceParams,omitzero"`
		Destination map[string]parameterJSON `json:"destinationParams,omitzero"`
	}{pluginToJSON(p), parametersToJSON(p.Source), parametersToJSON(p.Destination)}
}

func parametersToJSON(parameters sdk.Parameters) map[string]parameterJSON {
	if parameters == nil {
		return nil
	}
	all := make(map[string]parameterJSON, len(parameters))
	for name, p := range parameters {
		validations := []validationJSON{}
		for _, v := range p.Validations {
			validations = append(validations, validationJSON{ruleNames[v.Type], v.Value})
		}
		all[name] = parameterJSON{Type: parameterTypeName(p.Type), Description: p.Description, Default: p.Default,
			Validations: validations}
	}
	return all
}

// ruleNames are the names of validations in JSON.
var ruleNames = map[sdk.ValidationType]string{
	sdk.ValidationRequired: "required", sdk.ValidationGreaterThan: "greater-than", sdk.ValidationLessThan: "less-than",
	sdk.ValidationInclusion: "inclusion", sdk.ValidationExclusion: "exclusion", sdk.ValidationRegex: "regex",
}
