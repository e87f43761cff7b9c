package yamldoc

import (
	"maps"
	"slices"
	"strconv"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Fields are the names and values of a mapping to write, in order.
type Fields []*yaml.Node

// Mapping returns the mapping.
func (f *Fields) Mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Content: *f} }

// Node adds a field.
func (f *Fields) Node(name string, value *yaml.Node) { *f = append(*f, textNode(name), value) }

// List adds a list unless it is empty.
func (f *Fields) List(name string, list *yaml.Node) {
	if len(list.Content) > 0 {
		f.Node(name, list)
	}
}

// Text adds a text unless it is the standard one.
func (f *Fields) Text(name, value, standard string) {
	if value != standard {
		f.Node(name, textNode(value))
	}
}

// Number adds a number unless it is the standard one.
func (f *Fields) Number(name string, value, standard int) {
	if value != standard {
		f.Node(name, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(value)})
	}
}

// Texts adds a mapping of texts, sorted, unless it is empty.
func (f *Fields) Texts(name string, texts map[string]string) {
	var s Fields
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		s.Node(key, textNode(texts[key]))
	}
	if len(s) > 0 {
		f.Node(name, s.Mapping())
	}
}

// textNode returns text, quoted if necessary: text that is not plain is written with escapes, which no reader can
// misunderstand.
func textNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	for _, r := range text {
		if r != ' ' && !unicode.IsGraphic(r) || r == '\u2028' || r == '\ufeff' || unicode.IsSpace(r) && r != ' ' {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	return n
}
