package member

import (
	"maps"
	"slices"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/spec"
)

// deadLetterCounts holds the numbers of dead letters by place and pipeline. Each number must be shown once.
type deadLetterCounts struct {
	shared  map[string]int64 // in the store of the cluster, by pipeline
	reports []cluster.Report // with the numbers on the disks of the members
	shown   map[string]bool
}

func (m *Member) deadLetterCounts() *deadLetterCounts {
	return &deadLetterCounts{m.deadLetters.InStore(), m.reports.All(), map[string]bool{}}
}

// show adds the numbers to the first row of a pipeline.
func (r *deadLetterCounts) show(p *spec.ClusterPipeline) {
	if r.shown[p.ID] {
		return
	}
	r.shown[p.ID] = true
	p.SharedDeadLetters, p.DeadLetters = r.shared[p.ID], onDisks(r.reports, p.ID, "")
}

// rest returns rows for the pipelines that have dead letters but no row yet. Such a pipeline is local to other members,
// does not run, or is no longer declared.
func (r *deadLetterCounts) rest(terms func(id string) *spec.EffectiveTerms) (all []spec.ClusterPipeline) {
	ids := maps.Clone(r.shared)
	for _, report := range r.reports {
		maps.Copy(ids, report.DeadLetters)
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if ids[id] > 0 && !r.shown[id] {
			p := spec.ClusterPipeline{ID: id, Terms: terms(id)}
			r.show(&p)
			all = append(all, p)
		}
	}
	return all
}
