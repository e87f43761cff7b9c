//go:build !minimal && !no_cluster

package member

import (
	"context"
	"errors"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// overrideTimeout bounds the time to publish an override to the other members.
const overrideTimeout = 10 * time.Second

// Checkpoint implements position.Store. Positions of cluster pipelines are in their claims.
func (s Store) Checkpoint(ctx context.Context, connectorID string) (*spec.Checkpoint, error) {
	pipeline, ok := s.shared(connectorID)
	if !ok {
		return s.DB.Checkpoint(ctx, connectorID)
	}
	try, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	c, err := s.Membership.shared.Position(try, pipeline, connectorID)
	if err != nil {
		return nil, rest.Errorf(rest.Unavailable, rest.ReasonCluster, "%v", err).Suggest("try again when the store of the cluster can be reached")
	}
	return c, nil
}

// shared returns the pipeline of a connector, if it belongs to the cluster.
func (s Store) shared(connectorID string) (pipeline string, ok bool) {
	if s.Membership == nil {
		return "", false
	}
	return s.Membership.pipelineOf(connectorID)
}

// ApplyIf implements desired.Store. Declarations of the API apply to all members of a cluster.
func (s Store) ApplyIf(ctx context.Context, c *spec.Changes, expect map[string]string) error {
	if s.Membership == nil {
		return s.DB.ApplyIf(ctx, c, expect)
	}
	return s.Membership.apis.ApplyIf(ctx, c, expect)
}

// SetOverride implements desired.Store. In a cluster it applies to all members.
func (s Store) SetOverride(ctx context.Context, id string, status spec.Status) error {
	if s.Membership != nil && s.Membership.clustered(id) {
		declared, err := s.Get(ctx, id)
		if err != nil {
			return err
		}
		if err := s.override(ctx, id, status, declared.Digest); err != nil {
			return rest.Errorf(rest.Unavailable, rest.ReasonCluster, "%v", err).
				Suggest("try again when the store of the cluster can be reached; it may have taken effect nevertheless")
		}
	}
	return s.DB.SetOverride(ctx, id, status)
}

// override publishes an override of a pipeline to all members. It applies to the version of the declaration with this
// digest.
func (s Store) override(ctx context.Context, id string, status spec.Status, digest string) error {
	ctx, cancel := context.WithTimeout(ctx, overrideTimeout)
	defer cancel()
	return s.Membership.member.SetOverride(ctx, id, status, digest)
}

// MoveCheckpoint implements position.Store. The checkpoint of a cluster pipeline is in its claim, which no member holds
// while the pipeline is stopped. MoveCheckpoint changes it there, and in the store of this agent, which records it in
// its history.
func (s Store) MoveCheckpoint(ctx context.Context, declared *spec.Declaration, c spec.Checkpoint, before record.Position, event spec.Event) error {
	if _, ok := s.shared(c.ConnectorID); !ok {
		return s.DB.MoveCheckpoint(ctx, declared, c, before, event)
	}
	if declared.Pipeline.Instances.Several() {
		return rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineInstances, "pipeline %q is to have several instances, each with a position of its own, and their sources share what the other system keeps", declared.Pipeline.ID).
			Suggest("move what is kept there, such as the offsets of a group")
	}
	try, cancel := context.WithTimeout(ctx, overrideTimeout)
	defer cancel()
	owned := new(cluster.OwnedError)
	switch err := s.Membership.shared.MovePosition(try, c, before); {
	case errors.Is(err, spec.ErrConflict):
		return err
	case errors.As(err, &owned):
		return rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineRunning, "%v: the position of a source can be moved only while nothing reads", owned).
			Suggest("stop the pipeline, and try again when conduit cluster status shows no member for it")
	case err != nil:
		return rest.Errorf(rest.Unavailable, rest.ReasonCluster, "%v", err).Suggest("try again when the store of the cluster can be reached; it may have taken effect nevertheless")
	}
	own, err := s.DB.Checkpoint(ctx, c.ConnectorID)
	if err != nil {
		return err
	}
	var was record.Position
	if own != nil {
		was = own.Position
	}
	return s.DB.MoveCheckpoint(ctx, declared, c, was, event)
}

// loopStore is the store of a loop in a cluster. It shares the states of connectors.
type loopStore struct {
	reconcile.Store
	shared *cluster.Shared
}

// SaveConnectorState implements reconcile.Store.
func (s loopStore) SaveConnectorState(ctx context.Context, c *spec.ConnectorState) error {
	return s.shared.SaveConnectorState(ctx, c)
}

// DeleteConnector implements reconcile.Store.
func (s loopStore) DeleteConnector(ctx context.Context, id string) error {
	return s.shared.DeleteConnector(ctx, id)
}
