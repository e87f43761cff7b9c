package config

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/conduit-agent/conduit/spec/texts"
	"github.com/conduit-agent/conduit/spec/yamldoc"
)

// PathKey is the flag and, as CONDUIT_CONFIG_PATH, the variable that names the file.
const PathKey = "config.path"

// Bounds of nesting and size, so that aliases of themselves and of aliases end.
const (
	maxDepth = 16
	maxNodes = 10_000
)

// leaf is one value of the file with its place.
type leaf struct {
	key          string
	value        any
	line, column int
}

// file adds the settings of a YAML file. Keys may be nested, dotted or a mixture.
func (l *loader) file(path string, content []byte) {
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil {
		l.failSyntax(path, content, err)
		return
	}
	values, seen := map[string]any{}, map[string]int{}
	for _, f := range l.flatten(path, "", &doc, 0) {
		place := fmt.Sprintf("%s:%d:%d", path, f.line, f.column)
		if first, twice := seen[f.key]; twice {
			l.failAt(place, "%s is set twice, first on line %d", f.key, first)
			continue
		}
		seen[f.key] = f.line
		l.fileValue(values, f, place)
	}
	l.overlay(values)
}

func (l *loader) fileValue(values map[string]any, f leaf, place string) {
	if f.key == PathKey { // it names this file, which is known already
		return
	}
	if foreign, ok := foreignKey(f.key); ok {
		l.warnForeign(place, f.key+" ", foreign, f.value)
		return
	}
	if s, ok := Find(f.key); ok {
		if f.value == nil { // no value: the default
			return
		}
		value, problem := s.read(f.value)
		if problem != "" {
			l.failAt(place, "%s: %s", s.Key, problem)
			return
		}
		values[s.Key], l.origins[s.Key] = value, place
		return
	}
	if slices.ContainsFunc(groups, func(g Group) bool { return g.Key == f.key }) {
		if f.value != nil { // no value below it: all defaults
			l.failAt(place, "%s: must be a group of settings, not a value", f.key)
		}
		return
	}
	hint := ""
	if len(l.errs) < maxHints {
		hint = texts.Hint(f.key, keys())
	}
	l.failAt(place, "no such setting: %s%s", f.key, hint)
}

// maxHints is the number of problems from which on hints, which take time, help nobody.
const maxHints = 100

func keys() (all []string) {
	for _, s := range declared() {
		all = append(all, s.Key)
	}
	return all
}

// flatten returns the values below n, in the order of the file.
func (l *loader) flatten(path, key string, n *yaml.Node, depth int) []leaf {
	l.nodes++
	switch {
	case depth > maxDepth || l.nodes == maxNodes:
		l.failAt(fmt.Sprintf("%s:%d:%d", path, n.Line, n.Column), "the file is too large, or nested too deeply")
		return nil
	case l.nodes > maxNodes:
		return nil
	case n.Kind == 0: // an empty file
		return nil
	case n.Kind == yaml.DocumentNode:
		return l.flatten(path, key, n.Content[0], depth+1)
	case n.Kind == yaml.AliasNode:
		return l.flatten(path, key, n.Alias, depth+1)
	case n.Kind == yaml.MappingNode:
		var leaves []leaf
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := n.Content[i], n.Content[i+1]
			inner := l.flatten(path, join(key, name.Value), value, depth+1)
			if len(inner) == 1 && inner[0].key == join(key, name.Value) {
				inner[0].line, inner[0].column = name.Line, name.Column
			}
			leaves = append(leaves, inner...)
		}
		return leaves
	}
	f := leaf{key: key, value: scalar(n), line: n.Line, column: n.Column}
	s, _ := Find(key)
	switch {
	case s.List && n.Kind == yaml.SequenceNode && !slices.ContainsFunc(n.Content, nested):
		f.value = joined(n)
	case s.Octal && n.Kind == yaml.ScalarNode && n.Value != "":
		f.value = n.Value // YAML would read it as a number
	}
	if key == "" {
		if f.value != nil { // a file with only comments is valid
			l.failAt(fmt.Sprintf("%s:%d:%d", path, n.Line, n.Column), "must be settings, written key: value")
		}
		return nil
	}
	return []leaf{f}
}

// nested reports whether an item of a list is a list or a group.
func nested(n *yaml.Node) bool { return n.Kind != yaml.ScalarNode }

// joined returns the items of n, separated by commas.
func joined(n *yaml.Node) string {
	var items []string
	for _, item := range n.Content {
		items = append(items, item.Value)
	}
	return strings.Join(items, ",")
}

// scalar returns the value of n as JSON has it; a value that JSON cannot have is text.
func scalar(n *yaml.Node) any {
	if n.Kind == yaml.SequenceNode {
		return []any{}
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return n.Value
	}
	switch v := v.(type) {
	case nil, bool, int, int64, uint64, string:
		return v
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v
		}
	}
	return n.Value
}

func join(group, key string) string {
	if group == "" {
		return key
	}
	return group + "." + key
}

// failSyntax reports a file that is not YAML, in the same form as for a pipeline file: at the place of the cause, if
// that is known.
func (l *loader) failSyntax(path string, content []byte, err error) {
	nowhere := func(string) bool { return false }
	if _, faults := yamldoc.Read(content, yamldoc.Grammar{Typed: nowhere, Text: nowhere}); len(faults) > 0 {
		l.failAt(fmt.Sprintf("%s:%d:%d", path, faults[0].Line, faults[0].Column), "%s", faults[0].Message)
		return
	}
	l.failAt(path, "the YAML is not valid: %v", err)
}
