package planner

import (
	"fmt"

	"github.com/conduit-agent/conduit/spec"
)

// Claims finds what several files declare, of which each pipeline belongs to one. The zero Claims has
// seen no file.
type Claims struct {
	owners map[string]string           // pipeline id → where it is declared
	seen   map[string][]*spec.Pipeline // by id
}

// Add returns the errors of a pipeline that the file at path declares: another file declares it
// too, or a pipeline seen before has a connector whose full id is that of one of p.
func (c *Claims) Add(path string, p *spec.Parsed) (problems []spec.Problem) {
	if c.owners == nil {
		c.owners, c.seen = map[string]string{}, map[string][]*spec.Pipeline{}
	}
	id := p.Pipeline.ID
	if other, taken := c.owners[id]; taken {
		problems = append(problems, p.Locate(spec.Problem{
			Path: "/id", Severity: spec.SeverityError, Code: spec.CodeDeclaredTwice,
			Message: fmt.Sprintf("pipeline %q is declared in %s already; remove it from %s or from there, or choose another id", id, other, path),
		}, path))
	} else {
		c.owners[id] = fmt.Sprintf("%s:%d", path, p.Line)
	}
	c.seen[id] = append(c.seen[id], &p.Pipeline)
	if clash := p.Pipeline.Clash(func(other string) []*spec.Pipeline { return c.seen[other] }); clash != nil {
		problems = append(problems, p.Locate(clash.Problem(&p.Pipeline), path))
	}
	return problems
}
