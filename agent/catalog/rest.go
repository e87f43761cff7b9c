package catalog

import (
	"cmp"
	"sort"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Described describes all plugins in the form of the API, sorted by name.
func (c *Catalog) Described() []rest.Plugin {
	installed := c.Host.Installed()
	all := make([]rest.Plugin, len(installed))
	for i, p := range installed {
		all[i] = rest.Plugin{Name: p.FullName().String(), Summary: p.Summary, Description: p.Description,
			Version: p.Version,
			Author:  p.Author, SourceParams: describedParameters(p.Source),
			DestinationParams: describedParameters(p.Destination)}
	}
	return all
}

// DescribedProcessors describes all processors in the form of the API, sorted by name.
func (c *Catalog) DescribedProcessors() []rest.ProcessorPlugin {
	var all []rest.ProcessorPlugin
	add := func(kind string, plugins []sdk.ProcessorPlugin) {
		for _, p := range plugins {
			all = append(all, rest.ProcessorPlugin{Name: kind + ":" + p.Name + "@" + p.Version, Summary: p.Summary,
				Description: p.Description, Version: p.Version,
				Author: p.Author, Parameters: describedParameters(processor.Parameters(p))})
		}
	}
	add("builtin", c.Processors.Builtin)
	if c.Processors.Standalone != nil {
		add("standalone", c.Processors.Standalone())
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

var parameterTypes = map[sdk.ParameterType]string{
	sdk.TypeString: "TYPE_STRING", sdk.TypeInt: "TYPE_INT", sdk.TypeFloat: "TYPE_FLOAT",
	sdk.TypeBool: "TYPE_BOOL", sdk.TypeFile: "TYPE_FILE", sdk.TypeDuration: "TYPE_DURATION",
}

var validationTypes = map[sdk.ValidationType]string{
	sdk.ValidationRequired: "TYPE_REQUIRED", sdk.ValidationGreaterThan: "TYPE_GREATER_THAN",
	sdk.ValidationLessThan:  "TYPE_LESS_THAN",
	sdk.ValidationInclusion: "TYPE_INCLUSION", sdk.ValidationExclusion: "TYPE_EXCLUSION",
	sdk.ValidationRegex: "TYPE_REGEX",
}

func describedParameters(params sdk.Parameters) map[string]rest.Parameter {
	all := make(map[string]rest.Parameter, len(params))
	for name, p := range params {
		rules := make([]rest.ParameterRule, len(p.Validations))
		for i, v := range p.Validations {
			rules[i] = rest.ParameterRule{Type: cmp.Or(validationTypes[v.Type], "TYPE_UNSPECIFIED"), Value: v.Value}
		}
		all[name] = rest.Parameter{Default: p.Default, Description: p.Description,
			Type: cmp.Or(parameterTypes[p.Type], "TYPE_UNSPECIFIED"), Validations: rules}
	}
	return all
}
