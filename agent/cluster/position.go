package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// OwnedError reports that a member has the claim of a pipeline.
type OwnedError struct{ Pipeline, Member string }

// Error names the pipeline and the member that has its claim.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("the member %q of the cluster still holds the claim of pipeline %q", e.Member, e.Pipeline)
}

// Position returns the checkpoint from which a source of a cluster pipeline resumes, or nil for the beginning.
func (s *Shared) Position(ctx context.Context, pipeline, connectorID string) (*spec.Checkpoint, error) {
	if s.Member.RunsHere(pipeline) {
		return s.Checkpoint(ctx, connectorID)
	}
	e, err := s.Member.Store.Read(ctx, protocol.ClaimKey(pipeline))
	if err != nil {
		return nil, fmt.Errorf("cannot read the positions of pipeline %q in the cluster: %w", pipeline, err)
	}
	saved, err := s.saved(ctx, pipeline, e)
	if err != nil {
		return nil, err
	}
	c, ok := saved.Checkpoints[connectorID]
	if !ok {
		return nil, nil
	}
	return &spec.Checkpoint{ConnectorID: connectorID, PipelineID: pipeline, Plugin: c.Plugin, Position: c.Position}, nil
}

// saved returns the state in the claim of a pipeline. If the claim has none, it returns the state in the store of this
// agent.
func (s *Shared) saved(ctx context.Context, pipeline string, e protocol.Entry) (state, error) {
	all := state{Format: stateFormat, Checkpoints: map[string]checkpoint{},
		Connectors: map[string]spec.ConnectorState{}}
	if e.State != nil {
		return all, all.decode(pipeline, e.State)
	}
	known, err := s.known(ctx, pipeline)
	if err != nil {
		return all, err
	}
	return all, s.collect(ctx, &all, known)
}

// MovePosition replaces the position of a source in a pipeline that no member runs, or deletes it when c has none. It
// returns spec.ErrConflict if the present position is not before. The next owner resumes from the new position. When
// MovePosition fails for a reason other than the content of the claim, it may take effect nevertheless.
func (s *Shared) MovePosition(ctx context.Context, c spec.Checkpoint, before record.Position) error {
	stamp := protocol.Stamp{Session: newID(), Write: 1}
	change := func(e *protocol.Entry) (done bool, err error) {
		claim := protocol.Unowned(c.PipelineID)
		if e.Value != nil {
			if err := json.Unmarshal(e.Value, &claim); err != nil || claim.Newer() {
				return false, fmt.Errorf("cannot read the claim of pipeline %q: a newer version of conduit wrote it",
					c.PipelineID)
			}
		}
		switch {
		case claim.Stamp == stamp:
			return true, nil // by an earlier attempt
		case claim.Deleted:
			return false, fmt.Errorf("pipeline %q was deleted from the cluster: remove its file and add it again",
				c.PipelineID)
		case claim.Owner != "":
			return false, &OwnedError{c.PipelineID, claim.Owner}
		}
		saved, err := s.saved(ctx, c.PipelineID, *e)
		if err != nil {
			return false, err
		}
		if err := saved.move(c, before); err != nil {
			return false, err
		}
		claim.Stamp = stamp
		if e.Value, err = json.Marshal(&claim); err == nil {
			e.State, err = json.Marshal(&saved)
		}
		return false, err
	}
	if err := Swap(ctx, s.Member.Store, protocol.ClaimKey(c.PipelineID), change, nil); err != nil {
		return fmt.Errorf("cannot move the position of connector %q: %w", c.ConnectorID, err)
	}
	return nil
}

// move replaces a position that equals before.
func (p *state) move(c spec.Checkpoint, before record.Position) error {
	if !bytes.Equal(p.Checkpoints[c.ConnectorID].Position, before) {
		return spec.ErrConflict
	}
	p.Checkpoints = maps.Clone(p.Checkpoints)
	if delete(p.Checkpoints, c.ConnectorID); c.Position != nil {
		p.Checkpoints[c.ConnectorID] = checkpoint{c.Plugin, c.Position}
	}
	return nil
}
