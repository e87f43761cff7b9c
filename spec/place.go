package spec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/spec/pointer"
	"github.com/conduit-agent/conduit/spec/yamldoc"
)

// Place returns where in the file a Change to p stands. What the file does not spell
// out, such as something removed, is at the closest thing around it.
func (p *Parsed) Place(c Change) yamldoc.Mark {
	return p.closest(p.pointer(c.Path))
}

// Locate adds to a problem within p, whose Path is a pointer within p, where it stands in
// the file: the place of the value, or of the closest one around it.
func (p *Parsed) Locate(problem Problem, file string) Problem {
	mark := p.closest(problem.Path)
	problem.File, problem.Pipeline, problem.Line, problem.Column = file, p.Pipeline.ID, mark.Line, mark.Column
	return problem
}

func (p *Parsed) closest(at string) yamldoc.Mark {
	for at != "" {
		if mark, ok := p.Marks[at]; ok {
			return mark
		}
		at = at[:strings.LastIndexByte(at, '/')]
	}
	return p.Marks[""]
}

// pointer returns the path of a Change with indices in place of ids. It ends before an
// id that p does not have.
func (p *Parsed) pointer(path string) string {
	parts, processors := strings.Split(path, "/"), p.Pipeline.Processors
	for i := 1; i < len(parts)-1 && i < 4; i += 2 {
		index := -1
		id := pointer.Unescape(parts[i+1])
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
