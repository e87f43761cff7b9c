package yamldoc

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/schemas"
	"go.yaml.in/yaml/v3"
)

// reader converts YAML nodes to values, and records their places. Scalars keep their source text: 012, 1.10 and yes
// stay as written.
type reader struct {
	Grammar
	places map[string]Place
	faults []Fault
	nulls  []string
}

func (r *reader) add(m Mark, kind Kind, path, format string, args ...any) {
	r.faults = append(r.faults, Fault{Mark: m, Kind: kind, Path: path, Message: fmt.Sprintf(format, args...)})
}

// value returns the value of n at the pointer at. ok is false if there is none: a null outside of settings, or a node
// with a reported fault.
func (r *reader) value(n *yaml.Node, at string) (value any, ok bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode {
		return r.scalar(n, at)
	}
	if tag := n.ShortTag(); tag != "!!map" && tag != "!!seq" {
		r.unknownTag(n, at)
		return nil, false
	}
	if n.Kind == yaml.SequenceNode {
		return r.list(n, at), true
	}
	return r.mapping(n, at), true
}

func (r *reader) scalar(n *yaml.Node, at string) (any, bool) {
	switch n.ShortTag() {
	case "!!null":
		if r.Text(at) && n.Value != "" {
			r.nulls = append(r.nulls, at)
		}
		return "", r.Text(at)
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
		if r.Typed(at) {
			return typed(n), true
		}
		return n.Value, true
	case "!!binary":
		return r.binary(n, at)
	default:
		r.unknownTag(n, at)
		return nil, false
	}
}

// binary returns the text that n encodes.
func (r *reader) binary(n *yaml.Node, at string) (any, bool) {
	b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
	if err != nil || !utf8.Valid(b) {
		r.add(r.mark(n, at), Invalid, at, "the value of !!binary is not text in base64")
		return nil, false
	}
	return string(b), true
}

// typed returns n as a number or a bool if it is one, and otherwise as text.
func typed(n *yaml.Node) any {
	if number, ok := wholeNumber(n); ok {
		return number
	}
	if n.ShortTag() == "!!bool" && (n.Value == "true" || n.Value == "false") {
		return n.Value == "true"
	}
	return n.Value
}

// wholeNumber reads n as a decimal number. It refuses a leading zero, which some readers take for octal.
func wholeNumber(n *yaml.Node) (int, bool) {
	if n.ShortTag() != "!!int" || (len(n.Value) > 1 && n.Value[0] == '0') {
		return 0, false
	}
	i, err := strconv.Atoi(n.Value)
	return i, err == nil
}

func (r *reader) list(n *yaml.Node, at string) []any {
	list := make([]any, 0, len(n.Content))
	for i, item := range n.Content {
		at := at + "/" + strconv.Itoa(i)
		r.places[at] = Place{mark(item), mark(item)}
		value, _ := r.value(item, at)
		list = append(list, value)
	}
	return list
}

// mapping returns the fields of n. Its own fields take precedence over merged ones (<<).
func (r *reader) mapping(n *yaml.Node, at string) map[string]any {
	fields := map[string]any{}
	lines := map[string]int{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, item := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			r.add(r.mark(n, at), Invalid, at, "the name of a field must be text, not a list or map")
			continue
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, item)
			continue
		}
		r.field(fields, lines, key, item, at)
	}
	for _, item := range merged {
		r.merge(fields, item, at)
	}
	return fields
}

func (r *reader) field(fields map[string]any, lines map[string]int, key, item *yaml.Node, at string) {
	to := at + "/" + schemas.EscapePointer(key.Value)
	if line, again := lines[key.Value]; again {
		r.add(mark(key), DuplicateKey, to, "%q is written twice, at lines %d and %d: remove one of them", key.Value,
			line, key.Line)
		return
	}
	lines[key.Value] = key.Line
	r.places[to] = Place{mark(key), mark(item)}
	if value, ok := r.value(item, to); ok {
		fields[key.Value] = value
	}
}

// merge adds the missing fields of fields from item, a mapping or a list of mappings.
func (r *reader) merge(fields map[string]any, item *yaml.Node, at string) {
	if item.Kind == yaml.AliasNode {
		item = item.Alias
	}
	switch item.Kind {
	case yaml.MappingNode:
		r.inherit(fields, item, at)
	case yaml.SequenceNode:
		for _, one := range item.Content {
			r.merge(fields, one, at)
		}
	default:
		r.add(mark(item), Invalid, at, "<< needs a map or an alias for a map, for example <<: *defaults")
	}
}

// inherit adds the missing fields of fields from the mapping parent, places included.
func (r *reader) inherit(fields map[string]any, parent *yaml.Node, at string) {
	from := &reader{Grammar: r.Grammar, places: map[string]Place{}}
	inherited := from.mapping(parent, at)
	r.faults = append(r.faults, from.faults...)
	isOwn := func(to string) bool {
		token, _, _ := strings.Cut(to[len(at)+1:], "/")
		_, own := fields[schemas.UnescapePointer(token)]
		return own
	}
	for to, p := range from.places {
		if !isOwn(to) {
			r.places[to] = p
		}
	}
	r.nulls = append(r.nulls, slices.DeleteFunc(from.nulls, isOwn)...)
	for name, value := range inherited {
		if _, own := fields[name]; !own {
			fields[name] = value
		}
	}
}

func (r *reader) unknownTag(n *yaml.Node, at string) {
	r.add(r.mark(n, at), Invalid, at, "the tag %s is not supported: write plain text, numbers, lists and maps",
		n.ShortTag())
}

// mark returns the place of the value at the pointer at: the place of the alias it was written
// as, if any, or else the place of n.
func (r *reader) mark(n *yaml.Node, at string) Mark {
	if place, ok := r.places[at]; ok {
		return place.Value
	}
	return mark(n)
}

func mark(n *yaml.Node) Mark { return Mark{Line: n.Line, Column: n.Column} }
