//go:build !minimal && !no_cluster

package agent

import (
	"context"
	"errors"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// Checkpoint implements position.Store. Positions of the cluster's pipelines are in their claims.
func (d declarations) Checkpoint(ctx context.Context, connectorID string) (*spec.Checkpoint, error) {
	pipeline, ok := d.shared(connectorID)
	if !ok {
		return d.DB.Checkpoint(ctx, connectorID)
	}
	try, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	c, err := d.cluster.shared.Position(try, pipeline, connectorID)
	if err != nil {
		return nil, rest.Errorf(rest.Unavailable, rest.ReasonCluster, "%v", err).Suggest("try again when the store of the cluster can be reached")
	}
	return c, nil
}

// ApplyIf implements desired.Store. What the API declares is for all members of a cluster.
func (d declarations) ApplyIf(ctx context.Context, c *spec.Changes, expect map[string]string) error {
	if d.cluster == nil {
		return d.DB.ApplyIf(ctx, c, expect)
	}
	return d.cluster.apis.ApplyIf(ctx, c, expect)
}

// keepsConnectors reports whether the connectors of a pipeline that is the cluster's, and that this member does not own, are left
// to its next owner, or to who deletes it.
func (c *clustered) keepsConnectors(pipeline string) bool {
	return c != nil && c.clustered(pipeline) && !c.member.Here(pipeline)
}

// shared returns the pipeline of a connector, if it is one of the cluster's.
func (d declarations) shared(connectorID string) (pipeline string, ok bool) {
	if d.cluster == nil {
		return "", false
	}
	return d.cluster.pipelineOf(connectorID)
}

// MoveCheckpoint implements position.Store. The checkpoint of a pipeline of the cluster is in its claim, which no member
// holds while the pipeline is stopped. It is moved there, and in the store of this agent, whose history says so.
func (d declarations) MoveCheckpoint(ctx context.Context, declared *spec.Declaration, c spec.Checkpoint, before record.Position, event spec.Event) error {
	if _, ok := d.shared(c.ConnectorID); !ok {
		return d.DB.MoveCheckpoint(ctx, declared, c, before, event)
	}
	if declared.Pipeline.Instances.Several() {
		return rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineInstances, "pipeline %q is to have several instances, each with a position of its own, and their sources share what the other system keeps", declared.Pipeline.ID).
			Suggest("move what is kept there, such as the offsets of a group")
	}
	try, cancel := context.WithTimeout(ctx, overrideTimeout)
	defer cancel()
	owned := new(cluster.OwnedError)
	switch err := d.cluster.shared.MovePosition(try, c, before); {
	case errors.Is(err, spec.ErrConflict):
		return err
	case errors.As(err, &owned):
		return rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineRunning, "%v: the position of a source can be moved only while nothing reads", owned).
			Suggest("stop the pipeline, and try again when conduit cluster status shows no member for it")
	case err != nil:
		return rest.Errorf(rest.Unavailable, rest.ReasonCluster, "%v", err).Suggest("try again when the store of the cluster can be reached; it may have taken effect nevertheless")
	}
	own, err := d.DB.Checkpoint(ctx, c.ConnectorID)
	if err != nil {
		return err
	}
	var was record.Position
	if own != nil {
		was = own.Position
	}
	return d.DB.MoveCheckpoint(ctx, declared, c, was, event)
}
