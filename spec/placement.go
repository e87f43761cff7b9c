package spec

import (
	"maps"
	"slices"
	"strconv"
)

// Terms are the terms of a pipeline in a cluster. A single agent ignores them.
type Terms struct {
	Cluster   ClusterMode `json:"cluster,omitempty"` // ClusterStrict when empty
	Placement Placement   `json:"placement,omitzero"`
	Instances Instances   `json:"instances,omitempty"`
}

// ClusterMode defines the effect of a pipeline's claim on its runs.
type ClusterMode string

// The modes.
const (
	// ClusterStrict stops the pipeline when its member cannot reach the store of the cluster for too long.
	ClusterStrict ClusterMode = "strict"
	// ClusterRelaxed then continues without acknowledging records, until another member has the claim.
	ClusterRelaxed ClusterMode = "relaxed"
	// ClusterLocal means that there is no claim: every member with the file and the labels runs the pipeline.
	ClusterLocal ClusterMode = "local"
)

// Enum lists the modes.
func (ClusterMode) Enum() []string {
	return []string{string(ClusterStrict), string(ClusterRelaxed), string(ClusterLocal)}
}

// Instances is the number of members of a cluster that run a pipeline at the same time, with at most one instance each:
// from 1 to 64, or EachMember. Empty is 1.
type Instances string

// EachMember is an instance on each member that may run the pipeline.
const EachMember Instances = "all"

// Several reports whether there may be more than one instance.
func (i Instances) Several() bool { return i != "" && i != "1" }

// Number returns the number of instances; 1 for EachMember.
func (i Instances) Number() int {
	n, err := strconv.Atoi(string(i))
	if err != nil {
		return 1
	}
	return n
}

// Placement restricts the members on which a pipeline may run.
type Placement struct {
	Labels map[string]string `json:"labels,omitempty"` // a member must have all these labels
}

// IsZero reports whether the pipeline may run on every member.
func (r Placement) IsZero() bool { return len(r.Labels) == 0 }

// Allow reports whether the pipeline may run on a member with these labels.
func (r Placement) Allow(labels map[string]string) bool {
	for name, value := range r.Labels {
		if has, ok := labels[name]; !ok || has != value {
			return false
		}
	}
	return true
}

// Equal reports whether t and o have the same meaning.
func (t Terms) Equal(o Terms) bool { return len(t.Changes(o)) == 0 }

// Changes returns the differences between t and o, as JSON pointers in a pipeline.
func (t Terms) Changes(o Terms) (paths []string) {
	if t.Cluster != o.Cluster {
		paths = append(paths, "/cluster")
	}
	if t.Instances != o.Instances {
		paths = append(paths, "/instances")
	}
	for _, name := range slices.Sorted(maps.Keys(joinedLabels(t.Placement.Labels, o.Placement.Labels))) {
		a, had := t.Placement.Labels[name]
		if b, has := o.Placement.Labels[name]; a != b || had != has {
			paths = append(paths, "/placement/labels/"+name)
		}
	}
	return paths
}

func joinedLabels(a, b map[string]string) map[string]string {
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
