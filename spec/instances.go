package spec

import (
	"fmt"
)

// CheckInstances returns the reasons why p cannot have as many instances as it declares. Paths are JSON pointers within
// the pipeline. Resolved settings have no references; otherwise the values of references are unknown.
func CheckInstances(p *Pipeline, resolved bool) (problems []Problem) {
	if !p.Instances.Several() {
		return nil
	}
	add := func(at, message string) {
		problems = append(problems, Problem{Path: at, Pipeline: p.ID, Severity: SeverityError, Code: CodeInvalid,
			Message: message})
	}
	refuse := func(at, what, id string, f *sharingFault) {
		if f != nil {
			add(at+f.At(), fmt.Sprintf("pipeline %q cannot have several instances with %s %q: %s; or remove instances",
				p.ID, what, id, f.Message))
		}
	}
	if p.Cluster == ClusterLocal {
		add("/instances", fmt.Sprintf("every member runs pipeline %q, because its cluster is local: remove "+
			"instances, or cluster", p.ID))
	}
	processors := func(at string, all []Processor) {
		for i := range all {
			refuse(fmt.Sprintf("%s/processors/%d", at, i), "processor", all[i].ID, checkSharedProcessor(all[i].Plugin))
		}
	}
	for i := range p.Connectors {
		c, at := &p.Connectors[i], fmt.Sprintf("/connectors/%d", i)
		if c.Type == TypeDestination {
			refuse(at, string(c.Type), c.ID, checkSharedDestination(c.Plugin, c.Settings, resolved))
		} else {
			refuse(at, string(c.Type), c.ID, checkSharedSource(c.Plugin, c.Settings, resolved, p.Instances))
		}
		processors(at, c.Processors)
	}
	processors("", p.Processors)
	refuse("/dead-letter-queue", "dead-letter queue", p.DeadLetterQueue.Plugin,
		checkSharedDestination(p.DeadLetterQueue.Plugin, p.DeadLetterQueue.Settings, resolved))
	return problems
}
