package spec

import (
	"encoding/json"
	"strings"
)

// Validate is Parser.Validate with references of any kind.
func Validate(p *Pipeline) []Problem { return Parser{}.Validate(p) }

// Validate returns the problems of p, which need not be normalized, by the rules for pipeline files. Paths are JSON
// pointers within the pipeline: "/connectors/0/plugin".
func (by Parser) Validate(p *Pipeline) []Problem {
	p = p.Clone()
	Normalize(p)
	var fields map[string]any
	if text, err := json.Marshal(p); err == nil {
		_ = json.Unmarshal(text, &fields) // valid, as it was just encoded
	}
	const at = "/pipelines/0"
	r := &report{kinds: by.References}
	checkSchema(r, map[string]any{"pipelines": []any{fields}})
	check(r, at, p)
	for i := range r.problems {
		r.problems[i].Path = strings.TrimPrefix(r.problems[i].Path, at)
		r.problems[i].Pipeline = p.ID
	}
	return r.problems
}
