//go:build minimal || no_cluster

package agent

import (
	"context"
	"errors"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/cluster"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/spec"
)

// clustered stands for what members of a cluster have. No agent of this build is one.
type clustered struct{}

// wireCluster refuses the settings of a cluster.
func (a *Agent) wireCluster() error {
	if a.options.Config.Cluster.Name == "" {
		return nil
	}
	return errors.New("this build has no clusters: it was built with -tags minimal or no_cluster; remove cluster.name from the settings or use another build")
}

// sharedSchemas returns the agent's own.
func sharedSchemas(_ config.Cluster, own schema.IDRegistry) schema.Registry { return own }

func (*clustered) changed()                                                    {}
func (*clustered) run(context.Context, context.Context, *Agent) error          { return nil }
func (*clustered) leave(context.Context, *Agent)                               {}
func (*clustered) keepsConnectors(string) bool                                 { return false }
func (*clustered) joined() error                                               { return nil }
func (*clustered) problems(*spec.Pipeline) []spec.Problem                      { return nil }
func (*clustered) clustered(string) bool                                       { return false }
func (*clustered) override(context.Context, string, spec.Status, string) error { return nil }

// membership returns nil: the agent is alone.
func (a *Agent) membership() cluster.Member { return nil }

// Placement returns nil: all pipelines run here.
func (o *observed) Placement(string) *rest.Placement { return nil }

// Refused returns none: all dead letters are here.
func (o *observed) Refused(string) []rest.MemberDeadLetters { return nil }

// Instances returns those of a pipeline that is to have several. This agent runs one.
func (o *observed) Instances(d *spec.Declaration) *rest.Instances { return alone(d) }

// Terms returns nil, too.
func (o *observed) Terms(string) *rest.ClusterTerms { return nil }
