//go:build minimal || no_cluster

package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/spec"
)

// Membership replaces the membership of a cluster in this build, in which it is always nil.
type Membership struct{ Parts }

// New rejects the settings of a cluster. Without them it returns nil for a standalone agent.
func New(n Needs) (*Membership, error) {
	if n.Settings.Name == "" {
		return nil, nil
	}
	return nil, fmt.Errorf("%w; remove cluster.name from the settings or use another build", Absent())
}

// Absent returns the reason why an agent of this build cannot be a member of a cluster.
func Absent() error {
	return errors.New("this build has no clusters: it was built with -tags minimal or no_cluster")
}

// Schemas returns own.
func Schemas(_ config.Cluster, own schema.IDRegistry) schema.Registry { return own }

// Run returns at once.
func (*Membership) Run(context.Context, context.Context) error { return nil }

// Leave does nothing.
func (*Membership) Leave(context.Context) {}

// Changed does nothing.
func (*Membership) Changed() {}

// Joined returns nil: the agent runs all pipelines itself.
func (*Membership) Joined() error { return nil }

// Problems returns nil.
func (*Membership) Problems(*spec.Pipeline) []spec.Problem { return nil }

// KeepsConnectors returns false: this agent cleans up.
func (*Membership) KeepsConnectors(string) bool { return false }

// Unplaced returns false: all pipelines run here.
func (View) Unplaced(string) bool { return false }

// Placement returns nil: all pipelines run here.
func (View) Placement(string) *rest.Placement { return nil }

// Instances returns the instances of a pipeline that declares several. This agent runs one.
func (View) Instances(d *spec.Declaration) *rest.Instances { return alone(d) }

// Terms returns nil.
func (View) Terms(string) *rest.ClusterTerms { return nil }

// Refused returns nil: all dead letters are here.
func (View) Refused(string) []rest.MemberDeadLetters { return nil }

// Cluster returns the state of a standalone agent.
func (View) Cluster(context.Context) (rest.Cluster, error) {
	return rest.Cluster{State: rest.ClusterAlone}, nil
}

// Drain does nothing.
func (View) Drain(context.Context) error { return nil }

// Resume does nothing.
func (View) Resume(context.Context) error { return nil }
