package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/conduit-agent/conduit/schemas"
)

// field is a field in the schema of pipeline files.
type field struct {
	name, description string
	kind              string // string, array, object, …
	values            []string
}

// schemaNode is the subset of a JSON Schema that completion uses.
type schemaNode struct {
	Ref         string                 `json:"$ref"`
	Type        any                    `json:"type"`
	Description string                 `json:"description"`
	Properties  map[string]*schemaNode `json:"properties"`
	Items       *schemaNode            `json:"items"`
	Enum        []any                  `json:"enum"`
	Examples    []any                  `json:"examples"`
	Defs        map[string]*schemaNode `json:"$defs"`
}

var root = sync.OnceValue(func() *schemaNode {
	var n schemaNode
	if err := json.Unmarshal(schemas.PipelineFile.Source(), &n); err != nil {
		panic(err) // the schema is embedded, and compiled in tests
	}
	return &n
})

// resolve follows a reference within the document. Its sibling keywords take precedence.
func (n *schemaNode) resolve() *schemaNode {
	name, ok := strings.CutPrefix(n.Ref, "#/$defs/")
	if !ok {
		return n
	}
	target := *root().Defs[name]
	if n.Description != "" {
		target.Description = n.Description
	}
	return &target
}

// fields returns the fields of the mapping at path by name, required ones and others.
func fields(path []string) []field {
	n := root()
	for _, name := range path {
		next := n.Properties[name]
		if next == nil {
			return nil
		}
		if n = next.resolve(); n.Items != nil {
			n = n.Items.resolve()
		}
	}
	var all []field
	for name, p := range n.Properties {
		p = p.resolve()
		kind, _ := p.Type.(string)
		f := field{name: name, description: p.Description, kind: kind}
		for _, v := range p.Enum {
			if s, ok := v.(string); ok {
				f.values = append(f.values, s)
			}
		}
		if len(f.values) == 0 {
			for _, v := range p.Examples {
				f.values = append(f.values, fmt.Sprint(v))
			}
		}
		if name == "version" {
			for i, v := range f.values {
				f.values[i] = `"` + v + `"`
			}
		}
		all = append(all, f)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return order(a.name, b.name) < 0
	})
	return all
}

// usual is the customary order of fields.
var usual = []string{"version", "pipelines", "id", "type", "plugin", "status", "name", "description", "condition",
	"settings", "connectors", "processors", "dead-letter-queue"}

func order(a, b string) int {
	if i, j := slices.Index(usual, a), slices.Index(usual, b); i != j {
		if i < 0 || j < 0 {
			return j - i
		}
		return i - j
	}
	return strings.Compare(a, b)
}
