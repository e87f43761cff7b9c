package clustering

import (
	"context"
	"errors"

	"github.com/conduit-agent/conduit/spec"
)

// ErrNone refuses the settings of a cluster in a binary that has no clusters.
var ErrNone = errors.New("this binary does not support clusters: remove cluster.name from the settings, or use the " +
	"full binary, conduit")

// Alone is an agent outside a cluster. It runs all pipelines itself.
type Alone struct{}

// Run returns at once.
func (Alone) Run(context.Context, context.Context) error { return nil }

// Leave does nothing.
func (Alone) Leave(context.Context) {}

// Changed does nothing.
func (Alone) Changed() {}

// Joined returns nil: there is nothing to join.
func (Alone) Joined() error { return nil }

// Problems returns nil.
func (Alone) Problems(*spec.Pipeline) []spec.Problem { return nil }

// KeepsConnectors returns false: this agent cleans up.
func (Alone) KeepsConnectors(string) bool { return false }

// Unplaced returns false: all pipelines run here.
func (Alone) Unplaced(string) bool { return false }

// Assignment returns nil: all pipelines run here.
func (Alone) Assignment(string) *spec.Assignment { return nil }

// Instances returns the instances of a pipeline that declares several. This agent runs one.
func (Alone) Instances(d *spec.Declaration) *spec.RunningInstances { return RunsOnce(d) }

// Terms returns nil.
func (Alone) Terms(string) *spec.EffectiveTerms { return nil }

// DeadLettersElsewhere returns nil: all dead letters are here.
func (Alone) DeadLettersElsewhere(string) []spec.MemberDeadLetters { return nil }

// RunsOnce returns the instances of a pipeline with several declared instances that runs on this agent only. It returns
// nil for other pipelines.
func RunsOnce(d *spec.Declaration) *spec.RunningInstances {
	if !d.Pipeline.Instances.Several() {
		return nil
	}
	return &spec.RunningInstances{Declared: d.Pipeline.Instances, Running: []spec.InstanceAssignment{},
		Message: "this agent runs only one: it is not a member of a cluster, or the pipeline does not belong to the " +
			"cluster"}
}
