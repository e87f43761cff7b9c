package member

import (
	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/spec"
)

// WithRefused returns rows of the cluster's pipelines with the dead letters in the cluster's store and those reported
// by members.
func WithRefused(
	shared map[string]int64, reports []cluster.Report, rows []spec.ClusterPipeline,
) []spec.ClusterPipeline {
	r := &deadLetterCounts{shared, reports, map[string]bool{}}
	for i := range rows {
		r.show(&rows[i])
	}
	return append(rows, r.rest(func(string) *spec.EffectiveTerms { return nil })...)
}
