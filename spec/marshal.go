package spec

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"unicode"

	"github.com/conduit-agent/conduit/spec/ref"
	"go.yaml.in/yaml/v3"
)

// Marshal returns a pipeline file, version 2.2, that declares all. ParseFile reads the
// same pipelines from it, provided they are valid and normalized. What equals a default
// is left out.
func Marshal(all ...Pipeline) []byte {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	if len(all) == 0 {
		list.Style = yaml.FlowStyle
	}
	for i := range all {
		list.Content = append(list.Content, pipelineNode(&all[i]))
	}
	var file fields
	file.node("version", &yaml.Node{Kind: yaml.ScalarNode, Value: "2.2", Style: yaml.DoubleQuotedStyle})
	file.node("pipelines", list)
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	err := encoder.Encode(file.mapping())
	if err == nil {
		err = encoder.Close()
	}
	if err != nil {
		panic(err) // a buffer takes everything, and the nodes are made here
	}
	return b.Bytes()
}

func pipelineNode(p *Pipeline) *yaml.Node {
	var f fields
	f.text("id", p.ID, "")
	f.text("status", string(p.Status), "")
	f.text("name", ref.Escape(p.Name), p.ID)
	f.text("description", ref.Escape(p.Description), "")
	f.text("max-silence", p.MaxSilence, "")
	f.texts("labels", p.Labels)
	f.text("cluster", string(p.Cluster), "")
	if !p.Placement.IsZero() {
		var rules fields
		rules.texts("labels", p.Placement.Labels)
		f.node("placement", rules.mapping())
	}
	connectors := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range p.Connectors {
		connectors.Content = append(connectors.Content, connectorNode(&p.Connectors[i]))
	}
	f.list("connectors", connectors)
	f.processors(p.Processors)
	if q := dlqNode(&p.DLQ); len(q.Content) > 0 {
		f.node("dead-letter-queue", q)
	}
	return f.mapping()
}

func connectorNode(c *Connector) *yaml.Node {
	var f fields
	f.text("id", c.ID, "")
	f.text("type", string(c.Type), "")
	f.text("plugin", c.Plugin, "")
	f.text("name", ref.Escape(c.Name), c.ID)
	f.texts("settings", c.Settings)
	f.processors(c.Processors)
	return f.mapping()
}

// dlqNode returns an empty node for the default queue.
func dlqNode(q *DLQ) *yaml.Node {
	var f fields
	if q.Plugin == "" {
		return f.mapping()
	}
	f.text("plugin", q.Plugin, defaultDLQPlugin)
	switch {
	case len(q.Settings) == 0 && isLog(q.Plugin):
		f.node("settings", &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle})
	case !isLog(q.Plugin) || !maps.Equal(q.Settings, defaultDLQSettings()):
		f.texts("settings", q.Settings)
	}
	f.number("window-size", q.WindowSize, defaultWindowSize)
	f.number("window-nack-threshold", q.WindowNackThreshold, 0)
	return f.mapping()
}

// fields are the names and values of a mapping in order.
type fields []*yaml.Node

func (f *fields) mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Content: *f} }

func (f *fields) node(name string, value *yaml.Node) { *f = append(*f, textNode(name), value) }

func (f *fields) list(name string, list *yaml.Node) {
	if len(list.Content) > 0 {
		f.node(name, list)
	}
}

func (f *fields) text(name, value, standard string) {
	if value != standard {
		f.node(name, textNode(value))
	}
}

func (f *fields) number(name string, value, standard int) {
	if value != standard {
		f.node(name, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(value)})
	}
}

func (f *fields) texts(name string, texts map[string]string) {
	var s fields
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		s.node(key, textNode(texts[key]))
	}
	if len(s) > 0 {
		f.node(name, s.mapping())
	}
}

func (f *fields) processors(all []Processor) {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range all {
		p := &all[i]
		var one fields
		one.text("id", p.ID, "")
		one.text("plugin", p.Plugin, "")
		one.text("condition", p.Condition, "")
		one.texts("settings", p.Settings)
		one.number("workers", max(p.Workers, defaultWorkers), defaultWorkers)
		list.Content = append(list.Content, one.mapping())
	}
	f.list("processors", list)
}

// textNode returns text quoted where it must be: what is not plain is written with
// escapes, which no reader can misunderstand.
func textNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	for _, r := range text {
		if r != ' ' && !unicode.IsGraphic(r) || r == '\u2028' || r == '\ufeff' || unicode.IsSpace(r) && r != ' ' {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	return n
}
