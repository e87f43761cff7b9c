package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxInstances is the maximum number of instances of a pipeline.
const MaxInstances = 64

// InstanceID returns the claim id of an instance of a pipeline. The first instance, which is the only one of most
// pipelines, has the id of the pipeline.
func InstanceID(pipeline string, number int) string {
	if number <= 1 {
		return pipeline
	}
	return fmt.Sprintf("%s/%d", pipeline, number) // pipeline ids contain no slash
}

// InstanceOf returns the pipeline and the instance number of a claim id.
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

// instance is an instance of a pipeline that this agent would run.
type instance struct {
	Declaration
	pipeline string
	number   int
}

// most is the maximum number of instances.
func (d Declaration) most() int {
	if d.Each {
		return MaxInstances
	}
	return min(max(d.Instances, 1), MaxInstances)
}

// instancesOf returns the instances of all pipelines, by claim id.
func instancesOf(wanted map[string]Declaration) map[string]instance {
	all := make(map[string]instance, len(wanted))
	for pipeline, w := range wanted {
		for number := 1; number <= w.most(); number++ {
			all[InstanceID(pipeline, number)] = instance{w, pipeline, number}
		}
	}
	return all
}

// candidates returns the members that may run an instance, best first. A member runs at most one instance of a
// pipeline.
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
		case n.claims[id] != nil && n.claims[id].edit == nil: // it has the claim, or is about to have it
			return true
		// Of the instances that it had before, this agent takes only the one with the lowest number again.
		case n.claims[id] == nil && n.entries[id].Owner == agent && number < i.number:
			return true
		}
	}
	return false
}

// claimsOther reports whether this agent has a claim of another instance of a pipeline, to run it or to clean up after
// it.
func claimsOther(n *Node, pipeline string, number int) bool {
	for other := 1; other <= MaxInstances; other++ {
		if other != number && n.claims[InstanceID(pipeline, other)] != nil {
			return true
		}
	}
	return false
}

// due reports whether an instance should run. The number of instances is the declared one, or the number of eligible
// members. Further instances are claimed only after the first, whose claim shows that the pipeline is not deleted.
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

// disown releases claims that this agent has through a write presumed lost, and does not run because it runs another
// instance of the same pipeline.
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
