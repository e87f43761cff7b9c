package planner

import (
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/spec"
)

// Claims finds pipelines that several files declare, although each pipeline belongs to one file. The zero Claims has
// seen no file.
type Claims struct {
	owners map[string]*owner           // by pipeline id
	shared []*owner                    // those that other files declare, too
	seen   map[string][]*spec.Pipeline // by id
}

// owner is the first declaration of a pipeline.
type owner struct {
	path   string
	parsed *spec.Parsed
	others []string // other files that declare the pipeline
}

// Add returns the errors of a pipeline that the file at path declares: another file declares it too, or an earlier
// pipeline has a connector with the same full id as a connector of p.
func (c *Claims) Add(path string, p *spec.Parsed) (problems []spec.Problem) {
	if c.owners == nil {
		c.owners, c.seen = map[string]*owner{}, map[string][]*spec.Pipeline{}
	}
	id := p.Pipeline.ID
	if first, taken := c.owners[id]; taken {
		if first.others = append(first.others, place(path, p)); len(first.others) == 1 {
			c.shared = append(c.shared, first)
		}
		problems = append(problems, p.Locate(spec.Problem{
			Path: "/id", Severity: spec.SeverityError, Code: spec.CodeDeclaredTwice,
			Message: fmt.Sprintf("pipeline %q is already declared in %s; remove it from %s or from there, or choose "+
				"another id", id, place(first.path, first.parsed), path),
		}, path))
	} else {
		c.owners[id] = &owner{path: path, parsed: p}
	}
	c.seen[id] = append(c.seen[id], &p.Pipeline)
	if clash := p.Pipeline.Clash(func(other string) []*spec.Pipeline { return c.seen[other] }); clash != nil {
		problems = append(problems, p.Locate(clash.Problem(&p.Pipeline), path))
	}
	return problems
}

// Owners returns an error for each first declaration of a pipeline that other files declare, too. The agent gives an
// unknown pipeline to none of these files.
func (c *Claims) Owners() (problems []spec.Problem) {
	for _, o := range c.shared {
		problems = append(problems, o.parsed.Locate(spec.Problem{
			Path: "/id", Severity: spec.SeverityError, Code: spec.CodeDeclaredTwice,
			Message: fmt.Sprintf("pipeline %q is also declared in %s; remove it from %s or from there, or choose "+
				"another id", o.parsed.Pipeline.ID, strings.Join(o.others, " and "), o.path),
		}, o.path))
	}
	return problems
}

func place(path string, p *spec.Parsed) string { return fmt.Sprintf("%s:%d", path, p.Line) }
