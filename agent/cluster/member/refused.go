//go:build !minimal && !no_cluster

package member

import (
	"maps"
	"slices"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/api/rest"
)

// refused is how many dead letters of which pipelines are where, each of which is to be shown once.
type refused struct {
	shared  map[string]int64 // in the store of the cluster, by pipeline
	reports []cluster.Report // of those on the disks of members
	shown   map[string]bool
}

func (m *Membership) refused() *refused {
	return &refused{m.letters.InStore(), m.reports.All(), map[string]bool{}}
}

// show adds those of its pipeline to a row, the first of that pipeline.
func (r *refused) show(p *rest.ClusterPipeline) {
	if r.shown[p.ID] {
		return
	}
	r.shown[p.ID] = true
	p.SharedDeadLetters, p.DeadLetters = r.shared[p.ID], onDisks(r.reports, p.ID, "")
}

// rest returns rows of the pipelines that have none and of which there are some: one that is local to other members, does not run,
// or is not declared any more.
func (r *refused) rest(terms func(id string) *rest.ClusterTerms) (all []rest.ClusterPipeline) {
	ids := maps.Clone(r.shared)
	for _, report := range r.reports {
		maps.Copy(ids, report.DeadLetters)
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if ids[id] > 0 && !r.shown[id] {
			p := rest.ClusterPipeline{ID: id, Terms: terms(id)}
			r.show(&p)
			all = append(all, p)
		}
	}
	return all
}
