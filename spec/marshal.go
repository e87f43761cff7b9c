package spec

import (
	"bytes"
	"fmt"
	"maps"
	"strconv"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/conduit-agent/conduit/spec/yamldoc"
)

// Marshal returns a pipeline file, version 2.2, that declares all. ParseFile reads the same pipelines from it, provided
// they are valid and normalized. Fields with the default value are left out.
func Marshal(all ...Pipeline) []byte {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	if len(all) == 0 {
		list.Style = yaml.FlowStyle
	}
	for i := range all {
		list.Content = append(list.Content, pipelineNode(&all[i]))
	}
	var file yamldoc.Fields
	file.Node("version", &yaml.Node{Kind: yaml.ScalarNode, Value: "2.2", Style: yaml.DoubleQuotedStyle})
	file.Node("pipelines", list)
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	err := encoder.Encode(file.Mapping())
	if err == nil {
		err = encoder.Close()
	}
	if err != nil {
		panic(err) // writes to a buffer do not fail, and the nodes are valid
	}
	return escaped(b.Bytes())
}

// escaped returns a file with escapes in place of invisible characters and characters that change the direction of
// text. They occur only in double quotes.
func escaped(file []byte) []byte {
	all := make([]byte, 0, len(file))
	for len(file) > 0 {
		r, n := utf8.DecodeRune(file)
		switch {
		case r < utf8.RuneSelf || unicode.IsPrint(r):
			all = append(all, file[:n]...)
		case r > 0xffff:
			all = fmt.Appendf(all, `\U%08X`, r)
		default:
			all = fmt.Appendf(all, `\u%04X`, r)
		}
		file = file[n:]
	}
	return all
}

func pipelineNode(p *Pipeline) *yaml.Node {
	var f yamldoc.Fields
	f.Text("id", p.ID, "")
	f.Text("status", string(p.Status), "")
	f.Text("name", EscapeReferences(p.Name), p.ID)
	f.Text("description", EscapeReferences(p.Description), "")
	f.Text("max-silence", p.MaxSilence, "")
	f.Texts("labels", p.Labels)
	f.Text("routing", string(p.Routing), "")
	f.Text("cluster", string(p.Cluster), "")
	if !p.Placement.IsZero() {
		var rules yamldoc.Fields
		rules.Texts("labels", p.Placement.Labels)
		f.Node("placement", rules.Mapping())
	}
	if p.Instances == EachMember {
		f.Text("instances", string(p.Instances), "")
	} else if p.Instances != "" {
		f.Number("instances", p.Instances.Number(), 0)
	}
	connectors := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range p.Connectors {
		connectors.Content = append(connectors.Content, connectorNode(&p.Connectors[i]))
	}
	f.List("connectors", connectors)
	addProcessors(&f, p.Processors)
	if q := deadLetterQueueNode(&p.DeadLetterQueue); len(q.Content) > 0 {
		f.Node("dead-letter-queue", q)
	}
	return f.Mapping()
}

func connectorNode(c *Connector) *yaml.Node {
	var f yamldoc.Fields
	f.Text("id", c.ID, "")
	f.Text("type", string(c.Type), "")
	f.Text("plugin", c.Plugin, "")
	f.Text("name", EscapeReferences(c.Name), c.ID)
	f.Text("condition", c.Condition, "")
	if c.Default {
		f.Node("default", &yaml.Node{Kind: yaml.ScalarNode, Value: "true"})
	}
	if c.Isolate != nil {
		f.Node("isolate", isolationNode(c.Isolate))
	}
	f.Texts("settings", c.Settings)
	addProcessors(&f, c.Processors)
	return f.Mapping()
}

func isolationNode(i *Isolation) *yaml.Node {
	var f yamldoc.Fields
	if i.Bytes != DefaultIsolationBytes && i.Bytes != 0 {
		f.Node("bytes", &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatInt(i.Bytes, 10)})
	}
	f.Text("age", i.Age, "")
	f.Text("full", string(i.Full), "")
	n := f.Mapping()
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n
}

// deadLetterQueueNode returns an empty node for the default queue.
func deadLetterQueueNode(q *DeadLetterQueue) *yaml.Node {
	var f yamldoc.Fields
	if q.Plugin == "" {
		return f.Mapping()
	}
	f.Text("plugin", q.Plugin, defaultDeadLetterQueuePlugin)
	switch {
	case len(q.Settings) == 0 && isLog(q.Plugin):
		f.Node("settings", &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle})
	case !isLog(q.Plugin) || !maps.Equal(q.Settings, defaultDeadLetterQueueSettings()):
		f.Texts("settings", q.Settings)
	}
	f.Number("window-size", q.WindowSize, defaultWindowSize)
	f.Number("window-nack-threshold", q.WindowNackThreshold, 0)
	if q.KeepOriginal {
		f.Node("keep-original", &yaml.Node{Kind: yaml.ScalarNode, Value: "true"})
	}
	return f.Mapping()
}

func addProcessors(f *yamldoc.Fields, all []Processor) {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range all {
		p := &all[i]
		var one yamldoc.Fields
		one.Text("id", p.ID, "")
		one.Text("plugin", p.Plugin, "")
		one.Text("condition", p.Condition, "")
		one.Texts("settings", p.Settings)
		one.Number("workers", max(p.Workers, defaultWorkers), defaultWorkers)
		list.Content = append(list.Content, one.Mapping())
	}
	f.List("processors", list)
}
