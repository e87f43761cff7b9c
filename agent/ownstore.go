package agent

import (
	"context"
	"errors"

	"github.com/conduit-agent/conduit/agent/clustering"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/spec"
)

// ownStore is the agent's own store for its API.
type ownStore struct {
	*store.DB
	deadLetters clustering.DeadLetters // deleted when their pipeline is purged
}

// Purge implements api.Store. It deletes the dead letters of the pipeline together with its history.
func (s ownStore) Purge(ctx context.Context, id string) error {
	err := s.DB.Purge(ctx, id)
	if err != nil && !errors.Is(err, spec.ErrNotFound) {
		return err
	}
	found, forgot := s.deadLetters.Forget(ctx, id)
	if found {
		err = nil
	}
	return errors.Join(err, forgot)
}
