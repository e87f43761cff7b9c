package docs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/schemas"
)

var (
	inCell = strings.NewReplacer("|", `\|`, "\n", " ")
	asText = strings.NewReplacer(`\`, `\\`, "*", `\*`, "[", `\[`, "<", `\<`)
)

// cell escapes a description for a cell of a table: it is text, with code between backquotes.
func cell(text string) string {
	parts := strings.Split(strings.TrimSpace(text), "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = asText.Replace(parts[i])
	}
	return inCell.Replace(strings.Join(parts, "`"))
}

// code formats text in a cell as code.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + inCell.Replace(text) + "`"
}

// pluginWords are words by the name of a plugin that people search, and that its page does not use.
var pluginWords = map[string]string{
	"datadog":       "logs apm victorialogs",
	"elasticsearch": "elastic opensearch elk kibana bulk search index logstash victorialogs",
	"influxdb":      "influx telegraf line protocol time series metrics tsdb victoriametrics grafana",
	"loki":          "grafana promtail logs labels victorialogs", "splunk": "hec http event collector siem logs",
	"exec": "bash command script stdin stdout subprocess singer", "file": "tail follow logs csv ndjson logrotate",
	"generator": "test data random fake load", "http": "webhook rest post polling",
	"kafka": "redpanda topic broker consumer producer", "log": "print stdout console debug",
	"mysql": "mariadb cdc binlog", "nats": "jetstream", "postgres": "postgresql cdc wal logical decoding",
	"prometheus": "remote write scrape exporter node_exporter metrics tsdb mimir thanos cortex victoriametrics grafana",
	"redis":      "valkey cache hash stream", "s3": "minio bucket object storage parquet gcs r2",
	"socket": "tcp udp unix netcat nc stream lines framing octet counting",
	"spool":  "disk buffer queue store and forward", "sqlite": "database cdc", "syslog": "rsyslog rfc5424 rfc3164",
	"websocket": "ws wss socket stream feed push browser exchange",

	"aggregate": "group by tumbling window mean", "custom.javascript": "js script code function",
	"dedupe": "deduplicate deduplication distinct repeated twice", "enrich.file": "lookup join csv table",
	"enrich.http": "lookup join api", "error": "fail assert validate", "expr.filter": "drop where select predicate",
	"expr.map": "bloblang vrl compute transform formula", "field.convert": "cast type integer number text",
	"field.exclude": "remove delete drop columns", "field.include": "keep select only columns",
	"field.mask":   "anonymise anonymize gdpr hash hide personal pii privacy redact tokenize",
	"field.rename": "copy move alias", "field.set": "add constant template", "filter": "drop where select",
	"json.decode": "parse", "json.encode": "stringify serialize", "parse.kv": "logfmt", "parse.regex": "extract pattern",
	"parse.time": "date strptime epoch timestamp", "sample": "percent random subset", "split": "explode flatten unnest",
	"throttle": "slow rate limit delay",
}

// connectorPages returns a page for each built-in connector: its own page, if there is one, and all its settings.
func connectorPages() (all []page) {
	for _, c := range builtin.All() {
		s := c.Specification()
		p := page{Name: "connector-" + s.Name, Title: s.Name, Section: "Connector", About: s.Summary,
			Words: pluginWords[s.Name], Source: "plugins/builtin/" + s.Name + "/README.md"}
		if text, err := readPage(p.Source); err == nil {
			p.Text = string(text)
		} else {
			p.Source = "plugins/builtin/README.md" // the page that describes it
			p.Text = fmt.Sprintf("# %s\n\n%s\n\n%s\n\nSee also [what is built in](README.md).\n", s.Name, s.Summary,
				s.Description)
		}
		p.Text += parameters("All source settings", s.Source) + parameters("All destination settings",
			s.Destination)
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b page) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// processorPages returns a page for each built-in processor.
func processorPages() (all []page) {
	for _, plugin := range processors.All() {
		text := fmt.Sprintf("# %s\n\n%s\n\n%s\n\n[Examples](README.md#%s).\n", plugin.Name, plugin.Summary,
			plugin.Description, strings.ReplaceAll(plugin.Name, ".", ""))
		all = append(all, page{Name: "processor-" + plugin.Name, Title: plugin.Name, Section: "Processor",
			About: plugin.Summary, Words: pluginWords[plugin.Name], Source: "plugins/processor/README.md",
			Text: text + parameters("All settings", plugin.New().Parameters())})
	}
	slices.SortFunc(all, func(a, b page) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// parameters returns a section with the settings of a plugin.
func parameters(title string, p sdk.Parameters) string {
	if len(p) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n| setting | default | meaning |\n|---|---|---|\n", title)
	for _, name := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", code(name), code(p[name].Default), cell(cli.ExplainParameter(p[name])))
	}
	return b.String()
}

// settingsPage returns the page with the settings of the agent.
func settingsPage() page {
	var b strings.Builder
	b.WriteString("# Settings\n\nFrom `conduit.yaml`, then variables, then flags of `conduit run`; the later ones " +
		"win.\n\n| key | variable | type | default | meaning |\n|---|---|---|---|---|\n")
	for _, s := range config.Settings() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", code(s.Key), code(s.Env()), s.Type(), code(s.DefaultText()),
			cell(s.Meaning()))
	}
	return page{Name: "settings", Title: "Settings", Section: "Reference", Source: "agent/config/README.md",
		About: "Every key of conduit.yaml, with its variable and default.", Text: b.String()}
}

// commandsPage returns the page with the help of every command.
func commandsPage(root *ffcli.Command, usage func(*ffcli.Command) string) page {
	var b strings.Builder
	b.WriteString("# Commands\n")
	var walk func(c *ffcli.Command, words string)
	walk = func(c *ffcli.Command, words string) {
		fmt.Fprintf(&b, "\n## %s\n\n~~~~\n%s~~~~\n", words, usage(c))
		for _, below := range c.Subcommands {
			walk(below, words+" "+below.Name)
		}
	}
	walk(root, "conduit")
	return page{Name: "commands", Title: "Commands", Section: "Reference", About: "The help of every command.",
		Text: b.String()}
}

// schema is the part of a JSON Schema that the reference shows.
type schema struct {
	Ref                  string `json:"$ref"`
	Title, Description   string
	Type, Default        any
	Enum                 []any
	Pattern              string
	MaxLength            int
	Minimum              *float64
	Required             []string
	Examples             []any
	Deprecated           bool
	Properties           map[string]*schema
	Items                *schema
	Defs                 map[string]*schema `json:"$defs"`
	AdditionalProperties any
}

// pipelineFilePage returns the reference of pipeline files, generated from their JSON Schema.
func pipelineFilePage() page {
	var root schema
	if err := json.Unmarshal(schemas.PipelineFile.Source(), &root); err != nil {
		panic(err) // the schema is embedded
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Pipeline file reference\n\n%s\n", root.Description)
	root.write(&b, "The file")
	for _, name := range slices.Sorted(maps.Keys(root.Defs)) {
		root.Defs[name].write(&b, name)
	}
	return page{Name: "pipeline-file", Title: "Pipeline file reference", Section: "Reference",
		About: "Every field, from the JSON Schema.", Text: b.String()}
}

func (s *schema) write(b *strings.Builder, name string) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", name, s.Description)
	if len(s.Properties) == 0 {
		return
	}
	b.WriteString("\n| field | value | default | meaning |\n|---|---|---|---|\n")
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		f := s.Properties[field]
		meaning := cell(f.Description)
		if slices.Contains(s.Required, field) {
			meaning = "**Required.** " + meaning
		}
		if f.Deprecated {
			meaning = "Deprecated. " + meaning
		}
		if len(f.Examples) > 0 {
			meaning += fmt.Sprintf(" For example %s.", code(fmt.Sprint(f.Examples[0])))
		}
		byDefault := ""
		if f.Default != nil {
			byDefault = code(fmt.Sprint(f.Default))
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", code(field), f.values(), byDefault, meaning)
	}
}

// values describes the values that a field may have.
func (s *schema) values() string {
	to := func(ref string) string {
		name := ref[strings.LastIndex(ref, "/")+1:]
		return fmt.Sprintf("[%s](#%s)", name, name)
	}
	switch {
	case s.Ref != "":
		return to(s.Ref)
	case s.Items != nil && s.Items.Ref != "":
		return "list of " + to(s.Items.Ref)
	case len(s.Enum) > 0:
		var words []string
		for _, v := range s.Enum {
			if word := code(fmt.Sprint(v)); !slices.Contains(words, word) {
				words = append(words, word)
			}
		}
		return strings.Join(words, ", ")
	case s.MaxLength > 0:
		return fmt.Sprintf("text, up to %d characters", s.MaxLength)
	case s.Type == nil:
		return ""
	}
	return strings.NewReplacer("[", "", "]", "", " ", " or ").Replace(fmt.Sprint(s.Type))
}
