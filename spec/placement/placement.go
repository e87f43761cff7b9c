// Package placement says how a pipeline takes part in a cluster of agents: on which members it
// may run, and what becomes of it while they cannot reach the store of the cluster.
package placement

import (
	"maps"
	"slices"
	"strconv"
)

// Terms are those of one pipeline. An agent that is alone pays no attention to them.
type Terms struct {
	Cluster   Mode      `json:"cluster,omitempty"` // Strict when empty
	Placement Rules     `json:"placement,omitzero"`
	Instances Instances `json:"instances,omitempty"`
}

// Mode says what the claim of a pipeline means for its runs.
type Mode string

// The modes.
const (
	Strict  Mode = "strict"  // it stops when its member cannot reach the store for too long
	Relaxed Mode = "relaxed" // it goes on then, and acknowledges nothing, until another member has the claim
	Local   Mode = "local"   // it has no claim: every member that has its file and the labels runs it
)

// Enum lists the modes.
func (Mode) Enum() []string { return []string{string(Strict), string(Relaxed), string(Local)} }

// Instances is how many members of a cluster run a pipeline at the same time, at most one instance each: a number
// from 1 to 64, or Each. Empty is 1.
type Instances string

// Each is an instance on each member that may run the pipeline.
const Each Instances = "all"

// Several reports whether there may be more than one.
func (i Instances) Several() bool { return i != "" && i != "1" }

// Number returns how many there are; 1 for Each.
func (i Instances) Number() int {
	n, err := strconv.Atoi(string(i))
	if err != nil {
		return 1
	}
	return n
}

// Rules say on which members a pipeline may run.
type Rules struct {
	Labels map[string]string `json:"labels,omitempty"` // that a member must have, all of them
}

// IsZero reports whether it may run on every member.
func (r Rules) IsZero() bool { return len(r.Labels) == 0 }

// Allow reports whether it may run on a member with these labels.
func (r Rules) Allow(labels map[string]string) bool {
	for name, value := range r.Labels {
		if has, ok := labels[name]; !ok || has != value {
			return false
		}
	}
	return true
}

// Equal reports whether t and o mean the same.
func (t Terms) Equal(o Terms) bool { return len(t.Changes(o)) == 0 }

// Changes returns what differs in o, as JSON pointers in a pipeline.
func (t Terms) Changes(o Terms) (paths []string) {
	if t.Cluster != o.Cluster {
		paths = append(paths, "/cluster")
	}
	if t.Instances != o.Instances {
		paths = append(paths, "/instances")
	}
	for _, name := range slices.Sorted(maps.Keys(joined(t.Placement.Labels, o.Placement.Labels))) {
		a, had := t.Placement.Labels[name]
		if b, has := o.Placement.Labels[name]; a != b || had != has {
			paths = append(paths, "/placement/labels/"+name)
		}
	}
	return paths
}

func joined(a, b map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// Clone returns a copy that shares nothing with t.
func (t Terms) Clone() Terms {
	t.Placement.Labels = maps.Clone(t.Placement.Labels)
	return t
}
