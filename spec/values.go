package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/spec/pointer"
	"go.yaml.in/yaml/v3"
)

// numbers are the fields that are whole numbers; all other scalars are text.
var numbers = []string{"workers", "window-size", "window-nack-threshold"}

// values turns YAML nodes into what a schema is checked against, and remembers where
// everything stood. Scalars keep their source text: 012, 1.10 and yes stay as written.
type values struct {
	report
}

// value returns the value of n, which stands at the pointer at. ok is false if there
// is none: a null outside of settings, or something that was reported.
func (v *values) value(n *yaml.Node, at string) (value any, ok bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode {
		return v.scalar(n, at)
	}
	if tag := n.ShortTag(); tag != "!!map" && tag != "!!seq" {
		v.unknownTag(tag, at)
		return nil, false
	}
	if n.Kind == yaml.SequenceNode {
		return v.list(n, at), true
	}
	return v.mapping(n, at), true
}

func (v *values) scalar(n *yaml.Node, at string) (any, bool) {
	switch tag := n.ShortTag(); tag {
	case "!!null":
		return "", inSettings(at)
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
		if number, ok := wholeNumber(n); ok && !inSettings(at) && slices.Contains(numbers, lastToken(at)) {
			return number, true
		}
		return n.Value, true
	default:
		v.unknownTag(tag, at)
		return nil, false
	}
}

// wholeNumber reads n as a decimal number. A leading zero means octal to some and
// nothing to others, so it is refused.
func wholeNumber(n *yaml.Node) (int, bool) {
	if n.ShortTag() != "!!int" || (len(n.Value) > 1 && n.Value[0] == '0') {
		return 0, false
	}
	i, err := strconv.Atoi(n.Value)
	return i, err == nil
}

func (v *values) list(n *yaml.Node, at string) []any {
	list := make([]any, 0, len(n.Content))
	for i, item := range n.Content {
		at := at + "/" + strconv.Itoa(i)
		v.places[at] = place{value: mark(item), key: mark(item)}
		value, _ := v.value(item, at)
		list = append(list, value)
	}
	return list
}

// mapping returns the fields of n. Fields merged from elsewhere (<<) give way to its own.
func (v *values) mapping(n *yaml.Node, at string) map[string]any {
	fields := map[string]any{}
	lines := map[string]int{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, item := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			v.add(at, SeverityError, CodeInvalid, "the name of a field must be text, not a list or map")
			continue
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, item)
			continue
		}
		v.field(fields, lines, key, item, at)
	}
	for _, item := range merged {
		v.merge(fields, item, at)
	}
	return fields
}

func (v *values) field(fields map[string]any, lines map[string]int, key, item *yaml.Node, at string) {
	to := at + "/" + pointer.Escape(key.Value)
	if line, again := lines[key.Value]; again {
		v.addAt(mark(key), to, SeverityError, CodeDuplicateKey,
			fmt.Sprintf("%q is written twice, at lines %d and %d: remove one of them", key.Value, line, key.Line))
		return
	}
	lines[key.Value] = key.Line
	v.places[to] = place{key: mark(key), value: mark(item)}
	if value, ok := v.value(item, to); ok {
		fields[key.Value] = value
	}
}

// merge adds what fields lacks from the mapping, or list of mappings, item.
func (v *values) merge(fields map[string]any, item *yaml.Node, at string) {
	if item.Kind == yaml.AliasNode {
		item = item.Alias
	}
	switch item.Kind {
	case yaml.MappingNode:
		v.inherit(fields, item, at)
	case yaml.SequenceNode:
		for _, one := range item.Content {
			v.merge(fields, one, at)
		}
	default:
		v.addAt(mark(item), at, SeverityError, CodeInvalid, "<< needs a map or an alias of one, for example <<: *defaults")
	}
}

// inherit adds to fields what they lack from the mapping parent, places included.
func (v *values) inherit(fields map[string]any, parent *yaml.Node, at string) {
	from := &values{report{places: map[string]place{}}}
	inherited := from.mapping(parent, at)
	v.problems = append(v.problems, from.problems...)
	for to, p := range from.places {
		token, _, _ := strings.Cut(to[len(at)+1:], "/")
		if _, own := fields[pointer.Unescape(token)]; !own {
			v.places[to] = p
		}
	}
	for name, value := range inherited {
		if _, own := fields[name]; !own {
			fields[name] = value
		}
	}
}

func (v *values) unknownTag(tag, at string) {
	v.add(at, SeverityError, CodeInvalid, "the tag %s is not supported: write plain text, numbers, lists and maps", tag)
}

func mark(n *yaml.Node) Mark { return Mark{Line: n.Line, Column: n.Column} }

// inSettings reports whether at is a field of settings, or below one.
func inSettings(at string) bool { return strings.Contains(at, "/settings/") }

func lastToken(at string) string { return at[strings.LastIndexByte(at, '/')+1:] }
