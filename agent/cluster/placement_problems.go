package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/conduit-agent/conduit/spec"
)

// Problems returns the declarations that the file of p lacks for a cluster: whether a pipeline with state on its host
// stays there, or moves without that state. Paths are JSON pointers within p. Open windows of processors are not such
// state: their records are not acknowledged, so the next owner reads them again.
func Problems(p *spec.Pipeline) (problems []spec.Problem) {
	if p.Cluster == spec.ClusterLocal {
		return nil
	}
	add := func(at, message string) {
		problems = append(problems, spec.Problem{Path: at, Pipeline: p.ID, Severity: spec.SeverityError,
			Code: spec.CodeInvalid, Message: message})
	}
	processors := func(at string, all []spec.Processor) {
		for i := range all {
			if nameOf(all[i].Plugin) == "dedupe" && p.Cluster == "" {
				add(fmt.Sprintf("%s/processors/%d", at, i),
					fmt.Sprintf("processor %q remembers keys on the disk of the host, so pipeline %q would pass "+
						"duplicates of keys that it saw before it moved to another member of the cluster: set "+
						"cluster: local, which needs placement.labels that only one member has, or cluster: strict "+
						"or relaxed to allow the move nevertheless", all[i].ID, p.ID))
			}
		}
	}
	for i := range p.Connectors {
		c, at := &p.Connectors[i], fmt.Sprintf("/connectors/%d", i)
		if nameOf(c.Plugin) == "spool" {
			add(at, fmt.Sprintf("connector %q keeps records on the disk of the host, so pipeline %q cannot move to "+
				"another member of the cluster: "+
				"set cluster: local, so that every member with the labels of placement.labels runs it", c.ID,
				p.ID))
		}
		if c.Isolate != nil {
			add(at+"/isolate", fmt.Sprintf("the records of the isolated destination %q wait on the disk of the host, so "+
				"pipeline %q cannot move to another member of the cluster: set cluster: local, so that every member "+
				"with the labels of placement.labels runs it, or remove isolate", c.ID, p.ID))
		}
		processors(at, c.Processors)
	}
	processors("", p.Processors)
	return problems
}

// ProblemsInFile returns f with the Problems of its pipelines added. A pipeline with problems is invalid. path is the
// name of the file.
func ProblemsInFile(path string, f spec.File) spec.File {
	valid := f.Pipelines[:0:0]
	for i := range f.Pipelines {
		one := &f.Pipelines[i]
		wrong := Problems(&one.Pipeline)
		for _, problem := range wrong {
			f.Problems = append(f.Problems, one.Locate(problem, path))
		}
		if len(wrong) == 0 {
			valid = append(valid, *one)
		} else {
			f.Invalid = append(f.Invalid, one.Pipeline.ID)
		}
	}
	f.Pipelines = valid
	slices.Sort(f.Invalid)
	slices.SortStableFunc(f.Problems, func(a, b spec.Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return f
}
