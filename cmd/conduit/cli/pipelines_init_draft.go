package cli

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// Draft is a pipeline file that a person completes.
type Draft struct {
	ID, Description string
	Missing         []string // settings to fill in before it can run, as "setting of connector"
	Connectors      []draftConnector
}

type draftConnector struct {
	ID       string
	Type     spec.ConnectorType
	Plugin   string
	Settings []draftSetting
}

type draftSetting struct {
	Name, Value string
	Comment     string
	Off         bool // commented out
}

// DemoDraft returns a pipeline that shows a newcomer moving records.
func DemoDraft(id string) *Draft {
	return &Draft{
		ID:          id,
		Description: "A generator creates one flight per second, and the log shows it.",
		Connectors: []draftConnector{
			{ID: "generator-source", Type: spec.TypeSource, Plugin: "generator", Settings: flights()},
			{ID: "log-destination", Type: spec.TypeDestination, Plugin: "log"},
		},
	}
}

// flights returns settings for a generator, which has no default for the data.
func flights() []draftSetting {
	return []draftSetting{
		{Name: "format.type", Value: "structured",
			Comment: "Every record is an object with the fields below. Type: string."},
		{Name: "format.options.airline", Value: "string",
			Comment: "A field named airline, filled with text. Type: string."},
		{Name: "format.options.scheduledDeparture", Value: "time",
			Comment: "A field named scheduledDeparture, filled with a time. Type: string."},
		{Name: "rate", Value: "1", Comment: "Records per second; 0 means as fast as possible. Type: float."},
	}
}

// Add appends a connector with all its parameters: first the required ones, which are empty if they have no default. A
// default is literal text: it comes from a plugin, which must not get the value of a reference in it.
func (s *Draft) Add(plugin string, typ spec.ConnectorType, parameters sdk.Parameters) {
	c := draftConnector{ID: PlainName(plugin) + "-" + string(typ), Type: typ, Plugin: plugin}
	for _, name := range orderedParameters(parameters) {
		p := parameters[name]
		pattern := strings.Contains(name, "*")
		missing := isRequired(p) && p.Default == "" && !pattern
		if missing {
			s.Missing = append(s.Missing, name+" of "+c.ID)
		}
		c.Settings = append(c.Settings, draftSetting{
			Name: name, Value: spec.EscapeReferences(p.Default), Comment: ExplainParameter(p),
			Off: p.Default == "" && !missing || pattern,
		})
	}
	s.Connectors = append(s.Connectors, c)
}

// prefer puts settings first in the last connector. They replace settings with the same names.
func (s *Draft) prefer(settings []draftSetting) {
	c := &s.Connectors[len(s.Connectors)-1]
	c.Settings = append(settings, slices.DeleteFunc(c.Settings, func(old draftSetting) bool {
		return slices.ContainsFunc(settings, func(s draftSetting) bool { return s.Name == old.Name })
	})...)
}

// orderedParameters returns the names of parameters: required parameters first, and each group by name.
func orderedParameters(parameters sdk.Parameters) []string {
	return slices.SortedFunc(maps.Keys(parameters), func(a, b string) int {
		if x, y := isRequired(parameters[a]), isRequired(parameters[b]); x != y {
			if x {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
}

func isRequired(p sdk.Parameter) bool {
	return slices.ContainsFunc(p.Validations, func(v sdk.Validation) bool { return v.Type == sdk.ValidationRequired })
}

// ExplainParameter describes a parameter: its purpose, its type, whether it is required, and the rules for its value.
func ExplainParameter(p sdk.Parameter) string {
	need := "Optional"
	if isRequired(p) {
		need = "Required"
	}
	text := fmt.Sprintf("Type: %s. %s.", parameterTypeName(p.Type), need)
	for _, v := range p.Validations {
		if rule := rules[v.Type]; rule != "" {
			value := v.Value
			if v.Type != sdk.ValidationRegex {
				value = strings.ReplaceAll(value, ",", ", ")
			}
			text += fmt.Sprintf(" "+rule+".", value)
		}
	}
	if description := strings.TrimSpace(p.Description); description != "" {
		return description + "\n" + text
	}
	return text
}

// rules describe the validations of a value.
var rules = map[sdk.ValidationType]string{
	sdk.ValidationGreaterThan: "Greater than %s",
	sdk.ValidationLessThan:    "Less than %s",
	sdk.ValidationInclusion:   "One of: %s",
	sdk.ValidationExclusion:   "None of: %s",
	sdk.ValidationRegex:       "Matches %s",
}

// parameterTypeName is the word for a type in pipeline files and help.
func parameterTypeName(t sdk.ParameterType) string {
	switch t {
	case sdk.TypeInt:
		return "int"
	case sdk.TypeFloat:
		return "float"
	case sdk.TypeBool:
		return "bool"
	case sdk.TypeFile:
		return "file"
	case sdk.TypeDuration:
		return "duration"
	}
	return "string"
}

// PlainName returns the name in a plugin reference: generator of builtin:generator@v1.
func PlainName(plugin string) string {
	if i := strings.LastIndexAny(plugin, ":/"); i >= 0 {
		plugin = plugin[i+1:]
	}
	name, _, _ := strings.Cut(plugin, "@")
	return name
}

// schemaFile is the name of the JSON Schema next to a rendered file.
const schemaFile = "pipeline.schema.json"

// Render returns the YAML file. Its first line makes editors complete and check it with schemaFile.
func (s *Draft) Render() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# yaml-language-server: $schema=./%s\n", schemaFile)
	fmt.Fprintf(&b, "version: \"2.2\"\npipelines:\n  - id: %s\n    description: %s\n    status: running\n    "+
		"connectors:\n",
		quoteYAML(spec.EscapeReferences(s.ID)), quoteYAML(spec.EscapeReferences(s.Description)))
	for _, c := range s.Connectors {
		fmt.Fprintf(&b, "      - id: %s\n        type: %s\n        plugin: "+
			"%s\n", quoteYAML(spec.EscapeReferences(c.ID)),
			c.Type,
			quoteYAML(spec.EscapeReferences(c.Plugin)))
		if len(c.Settings) > 0 {
			fmt.Fprint(&b, "        settings:\n")
		}
		for _, setting := range c.Settings {
			setting.writeTo(&b)
		}
	}
	return b.Bytes()
}

func (s *draftSetting) writeTo(b *bytes.Buffer) {
	const indent = "          "
	for line := range strings.Lines(s.Comment) {
		fmt.Fprintf(b, "%s# %s\n", indent, strings.TrimSpace(printable(line)))
	}
	off := ""
	if s.Off {
		off = "# "
	}
	fmt.Fprintf(b, "%s%s%s: %s\n", indent, off, quoteYAML(s.Name), quoteYAML(s.Value))
}

// printable replaces characters that would end a comment or control a terminal that prints the file.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, line)
}

// quoteYAML returns s as a YAML string of printable characters. YAML reads the escapes of Go. A byte that is not UTF-8,
// which YAML cannot represent, becomes U+FFFD.
func quoteYAML(s string) string {
	if plainYAML(s) {
		return s
	}
	if strings.ContainsAny(s, `"\`) && terminal.IsPrintable(s) {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return strconv.Quote(strings.ToValidUTF8(s, "\uFFFD"))
}

// plainYAML reports whether s is a word that YAML reads as the same text.
func plainYAML(s string) bool {
	switch strings.ToLower(s) {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf":
		return false
	}
	for i := range len(s) {
		c := s[i] | 0x20
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || s[i] != '-' && s[i] != '_' && s[i] != '.' && (s[i] < '0' || s[i] > '9')) {
			return false
		}
	}
	return true
}
