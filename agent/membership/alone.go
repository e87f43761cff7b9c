package membership

import (
	"context"
	"errors"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// ErrNone refuses the settings of a cluster in a binary that has no clusters.
var ErrNone = errors.New("this binary has no clusters: remove cluster.name from the settings, or use the full binary, conduit")

// Alone is an agent outside a cluster. It runs all pipelines itself.
type Alone struct{}

func (Alone) Run(context.Context, context.Context) error    { return nil }
func (Alone) Leave(context.Context)                         {}
func (Alone) Changed()                                      {}
func (Alone) Joined() error                                 { return nil }
func (Alone) Problems(*spec.Pipeline) []spec.Problem        { return nil }
func (Alone) KeepsConnectors(string) bool                   { return false }
func (Alone) Unplaced(string) bool                          { return false }
func (Alone) Placement(string) *rest.Placement              { return nil }
func (Alone) Instances(d *spec.Declaration) *rest.Instances { return RunsOnce(d) }
func (Alone) Terms(string) *rest.ClusterTerms               { return nil }
func (Alone) Refused(string) []rest.MemberDeadLetters       { return nil }

// RunsOnce returns the instances of a pipeline with several declared instances that runs on this agent only. It returns
// nil for other pipelines.
func RunsOnce(d *spec.Declaration) *rest.Instances {
	if !d.Pipeline.Instances.Several() {
		return nil
	}
	return &rest.Instances{Declared: d.Pipeline.Instances, Running: []rest.InstancePlacement{}, Message: "this agent runs it once: it is no member of a cluster, or the pipeline is none of the cluster's"}
}
