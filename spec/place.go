package spec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/schemas"
	"github.com/conduit-agent/conduit/spec/yamldoc"
)

// Place returns the place in the file of a Change to p. If the change has no text in the file, such as a removal, the
// place is the closest value around it.
func (p *Parsed) Place(c Change) yamldoc.Mark {
	return p.Places.Closest(p.pointer(c.Path))
}

// Locate adds the place in the file to a problem within p, whose Path is a pointer within p: the place of the value, or
// of the closest one around it.
func (p *Parsed) Locate(problem Problem, file string) Problem {
	problem.File, problem.Pipeline = file, p.Pipeline.ID
	return p.Places.locate(problem)
}

// Locate adds the place in the declaring file to a problem within d's pipeline, as Parsed.Locate does. A value that no
// file declares has no place.
func (d *Declaration) Locate(problem Problem) Problem {
	problem.File, problem.Pipeline = d.Owner.Path, d.Pipeline.ID
	return d.Owner.Places.locate(problem)
}

func (p Places) locate(problem Problem) Problem {
	mark := p.Closest(problem.Path)
	problem.Line, problem.Column = mark.Line, mark.Column
	return problem
}

// pointer returns the path of a Change with indices in place of ids. It ends before an
// id that p does not have.
func (p *Parsed) pointer(path string) string {
	parts, processors := strings.Split(path, "/"), p.Pipeline.Processors
	for i := 1; i < len(parts)-1 && i < 4; i += 2 {
		var index int
		id := schemas.UnescapePointer(parts[i+1])
		switch parts[i] {
		case "connectors":
			index = slices.IndexFunc(p.Pipeline.Connectors, func(c Connector) bool { return c.ID == id })
			if index >= 0 {
				processors = p.Pipeline.Connectors[index].Processors
			}
		case "processors":
			index = slices.IndexFunc(processors, func(p Processor) bool { return p.ID == id })
		default:
			return strings.Join(parts, "/")
		}
		if index < 0 {
			return strings.Join(parts[:i+1], "/")
		}
		parts[i+1] = strconv.Itoa(index)
	}
	return strings.Join(parts, "/")
}
