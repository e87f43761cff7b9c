package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/clustering"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// overrideTimeout bounds the time to publish an override to the other members.
const overrideTimeout = 10 * time.Second

// sharedStore is the store of an agent's API in a cluster. Declarations, starts, stops and position changes of cluster
// pipelines through the API apply to all members.
type sharedStore struct {
	clustering.OwnStore
	member *Member
}

// desired returns the store for the API of this member, whose own store is own.
func (m *Member) desired(own clustering.OwnStore) clustering.OwnStore {
	return &sharedStore{own, m}
}

// Checkpoint implements api.Checkpoints. Positions of cluster pipelines are in their claims.
func (s *sharedStore) Checkpoint(ctx context.Context, connectorID string) (*spec.Checkpoint, error) {
	pipeline, ok := s.shared(connectorID)
	if !ok {
		return s.OwnStore.Checkpoint(ctx, connectorID)
	}
	try, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	c, err := s.member.shared.Position(try, pipeline, connectorID)
	if err != nil {
		return nil, &spec.Error{Kind: spec.ErrUnavailable, Code: spec.CodeCluster, Message: err.Error(),
			Suggestion: "try again when the store of the cluster can be reached"}
	}
	return c, nil
}

// shared returns the pipeline of a connector, if it belongs to the cluster.
func (s *sharedStore) shared(connectorID string) (pipeline string, ok bool) {
	return s.member.pipelineOf(connectorID)
}

// ApplyIf implements api.Store. Declarations of the API apply to all members of a cluster.
func (s *sharedStore) ApplyIf(ctx context.Context, c *spec.Changes, expect map[string]string) error {
	return s.member.apis.ApplyIf(ctx, c, expect)
}

// SetOverride implements api.Store. In a cluster it applies to all members.
func (s *sharedStore) SetOverride(ctx context.Context, id string, status spec.Status) error {
	if s.member.clustered(id) {
		declared, err := s.Get(ctx, id)
		if err != nil {
			return err
		}
		if err := s.override(ctx, id, status, declared.Digest); err != nil {
			return unconfirmed(err)
		}
	}
	return s.OwnStore.SetOverride(ctx, id, status)
}

// override publishes an override of a pipeline to all members. It applies to the version of the declaration with this
// digest.
func (s *sharedStore) override(ctx context.Context, id string, status spec.Status, digest string) error {
	ctx, cancel := context.WithTimeout(ctx, overrideTimeout)
	defer cancel()
	return s.member.member.SetOverride(ctx, id, status, digest)
}

// unconfirmed returns the error of a change that the store of the cluster did not confirm.
func unconfirmed(err error) error {
	return &spec.Error{Kind: spec.ErrUnavailable, Code: spec.CodeCluster, Message: err.Error(),
		Suggestion: "try again when the store of the cluster can be reached; the change may have taken effect already"}
}

// MoveCheckpoint implements api.Checkpoints. The checkpoint of a cluster pipeline is in its claim, which no member
// holds while the pipeline is stopped. MoveCheckpoint changes it there, and in the store of this agent, which records
// it in its history.
func (s *sharedStore) MoveCheckpoint(
	ctx context.Context, declared *spec.Declaration, c spec.Checkpoint, before record.Position, event spec.Event,
) error {
	if _, ok := s.shared(c.ConnectorID); !ok {
		return s.OwnStore.MoveCheckpoint(ctx, declared, c, before, event)
	}
	if declared.Pipeline.Instances.Several() {
		return &spec.Error{Kind: spec.ErrPrecondition, Code: spec.CodePipelineInstances, Message: fmt.Sprintf(
			"pipeline %q has several instances, each with its own position, and their sources share state in the "+
				"source system", declared.Pipeline.ID),
			Suggestion: "move that state, such as the offsets of a group"}
	}
	try, cancel := context.WithTimeout(ctx, overrideTimeout)
	defer cancel()
	owned := new(cluster.OwnedError)
	switch err := s.member.shared.MovePosition(try, c, before); {
	case errors.Is(err, spec.ErrConflict):
		return err
	case errors.As(err, &owned):
		return &spec.Error{Kind: spec.ErrPrecondition, Code: spec.CodePipelineRunning,
			Message:    owned.Error() + ": the position of a source can be moved only while the pipeline is stopped",
			Suggestion: "stop the pipeline, and try again when conduit cluster status shows no member for it"}
	case err != nil:
		return unconfirmed(err)
	}
	own, err := s.OwnStore.Checkpoint(ctx, c.ConnectorID)
	if err != nil {
		return err
	}
	var was record.Position
	if own != nil {
		was = own.Position
	}
	return s.OwnStore.MoveCheckpoint(ctx, declared, c, was, event)
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
