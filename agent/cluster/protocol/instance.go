package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxInstances is how many instances of a pipeline there are at most.
const MaxInstances = 64

// InstanceID returns the id of the claim of an instance of a pipeline. That of the first, which is the only one
// of most pipelines, is the pipeline's.
func InstanceID(pipeline string, number int) string {
	if number <= 1 {
		return pipeline
	}
	return fmt.Sprintf("%s/%d", pipeline, number) // no pipeline has a slash in its id
}

// InstanceOf returns which instance of which pipeline has a claim with this id.
func InstanceOf(id string) (pipeline string, number int) {
	pipeline, digits, several := strings.Cut(id, "/")
	if !several {
		return id, 1
	}
	number, err := strconv.Atoi(digits)
	if err != nil || number < 2 || number > MaxInstances {
		return id, 1
	}
	return pipeline, number
}

// instance is one of those of a pipeline that this agent would run.
type instance struct {
	Wanted
	pipeline string
	number   int
}

// most is how many instances there may be.
func (w Wanted) most() int {
	if w.Each {
		return MaxInstances
	}
	return min(max(w.Instances, 1), MaxInstances)
}

// instancesOf returns the instances of all pipelines, by the ids of their claims.
func instancesOf(wanted map[string]Wanted) map[string]instance {
	all := make(map[string]instance, len(wanted))
	for pipeline, w := range wanted {
		for number := 1; number <= w.most(); number++ {
			all[InstanceID(pipeline, number)] = instance{w, pipeline, number}
		}
	}
	return all
}

// candidates returns the members that may run an instance, best first. None runs two of one pipeline.
func (i instance) candidates(n *Node, live []Session) []Session {
	if i.most() > 1 {
		live = slices.DeleteFunc(slices.Clone(live), func(s Session) bool { return i.otherOf(n, s.Agent) })
	}
	return ranked(InstanceID(i.pipeline, i.number), i.Labels, live)
}

// otherOf reports whether an agent has another instance of the pipeline.
func (i instance) otherOf(n *Node, agent string) bool {
	for number := 1; number <= i.most(); number++ {
		id := InstanceID(i.pipeline, number)
		switch {
		case number == i.number:
		case agent != n.Agent.Agent:
			if n.entries[id].Owner == agent {
				return true
			}
		case n.claims[id] != nil && n.claims[id].edit == nil: // it has the claim, or is about to
			return true
		case n.claims[id] == nil && n.entries[id].Owner == agent && number < i.number: // the first of what it had is taken again
			return true
		}
	}
	return false
}

// claimsOther reports whether this agent has a claim of another instance of a pipeline, to run it or to clean up
// after it.
func claimsOther(n *Node, pipeline string, number int) bool {
	for other := 1; other <= MaxInstances; other++ {
		if other != number && n.claims[InstanceID(pipeline, other)] != nil {
			return true
		}
	}
	return false
}

// due reports whether an instance is one of those that are to run: as many as were asked for, or as there are
// members that may. Others are claimed once the first was, which says that the pipeline is not deleted.
func (i instance) due(n *Node, live []Session) bool {
	if i.number == 1 {
		return true
	}
	if i.Each && (i.number > len(live) || i.number > eligible(i.Labels, live)) {
		return false
	}
	first, there := n.entries[i.pipeline]
	return there && !first.Deleted && !first.Retiring
}

// disown gives up the claims of instances that this agent has by a write that was thought lost, and does not run
// because it runs another one of the same pipeline.
func (r *retiring) disown(n *Node) {
	for _, id := range n.ids {
		i := n.wanted[id]
		if i.most() == 1 {
			continue
		}
		s := n.entries[id]
		if s.known && s.Owner == n.Agent.Agent && n.claims[id] == nil && i.otherOf(n, n.Agent.Agent) {
			r.edit(n, id, edit{change: func(c *Claim) { c.Owner, c.Session = "", "" }})
		}
	}
}
