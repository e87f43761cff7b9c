package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// stateFormat is the format of states that this version saves, and the newest that it reads.
const stateFormat = 1

// state is the state of a pipeline that each owner passes to the next.
type state struct {
	Format      int                            `json:"format"`
	Checkpoints map[string]checkpoint          `json:"checkpoints,omitempty"` // by connector
	Connectors  map[string]spec.ConnectorState `json:"connectors,omitempty"`  // by id
}

// emptyState is the state of a pipeline that starts from the beginning.
var emptyState = fmt.Appendf(nil, `{"format":%d}`, stateFormat)

type checkpoint struct {
	Plugin   string          `json:"plugin,omitempty"`
	Position record.Position `json:"position"`
}

// Local is an agent's own store.
type Local interface {
	Checkpoint(ctx context.Context, connectorID string) (*spec.Checkpoint, error)
	SaveCheckpoints(ctx context.Context, checkpoints []spec.Checkpoint) error
	BeginRun(ctx context.Context, pipelineID string) (epoch int64, err error)
	ConnectorState(ctx context.Context, connectorID string) (*spec.ConnectorState, error)
	ConnectorStates(ctx context.Context) ([]spec.ConnectorState, error)
	SaveConnectorState(ctx context.Context, c *spec.ConnectorState) error
	DeleteConnector(ctx context.Context, id string) error
}

// ErrNotOwner reports that another member may run the pipeline.
var ErrNotOwner = errors.New("this member of the cluster does not own the pipeline")

// Shared is an agent's own store, replicated to the claims of the cluster. A save for a cluster pipeline is complete
// when it is in the pipeline's claim. The own store is written first, so it is never behind the claim while the agent
// owns the pipeline. When the agent takes a pipeline over, the state in the claim replaces its own.
type Shared struct {
	Local
	Member *Member
	// Clustered reports whether a pipeline belongs to the cluster.
	Clustered func(pipelineID string) bool

	mu        sync.Mutex
	pipelines map[string]*copied // guarded by mu
}

// copied is the state of a pipeline that is in its claim or is being saved there.
type copied struct {
	state   state
	saving  bool
	waiting []func(error) // to be called after the next save
}

// Adopt replaces this agent's state of a pipeline by the state that its last owner saved. The pipeline must not run.
func (s *Shared) Adopt(ctx context.Context, pipeline string, saved []byte) error {
	known, err := s.known(ctx, pipeline)
	if err != nil {
		return err
	}
	next := state{Format: stateFormat, Checkpoints: map[string]checkpoint{},
		Connectors: map[string]spec.ConnectorState{}}
	if saved == nil { // no member ran it yet: the state of this agent applies
		if err := s.collect(ctx, &next, known); err != nil {
			return err
		}
	} else if err := s.restore(ctx, pipeline, saved, &next, known); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pipelines == nil {
		s.pipelines = map[string]*copied{}
	}
	s.pipelines[pipeline] = &copied{state: next}
	return nil
}

// Forget deletes the connectors and positions of a pipeline that was deleted from the cluster.
func (s *Shared) Forget(ctx context.Context, pipeline string) error {
	known, err := s.known(ctx, pipeline)
	if err != nil {
		return err
	}
	return s.deleteLocal(ctx, known)
}

func (s *Shared) deleteLocal(ctx context.Context, connectors []spec.ConnectorState) error {
	for _, c := range connectors {
		if err := s.Local.DeleteConnector(ctx, c.ID); err != nil {
			return err
		}
	}
	return nil
}

// known returns the connectors of a pipeline in this agent's store.
func (s *Shared) known(ctx context.Context, pipeline string) ([]spec.ConnectorState, error) {
	all, err := s.ConnectorStates(ctx)
	return slices.DeleteFunc(all, func(c spec.ConnectorState) bool { return c.PipelineID != pipeline }), err
}

func (s *Shared) collect(ctx context.Context, next *state, known []spec.ConnectorState) error {
	for _, c := range known {
		next.Connectors[c.ID] = c
		p, err := s.Checkpoint(ctx, c.ID)
		if err != nil {
			return err
		}
		if p != nil {
			next.Checkpoints[c.ID] = checkpoint{p.Plugin, p.Position}
		}
	}
	return nil
}

func (s *Shared) restore(
	ctx context.Context, pipeline string, saved []byte, next *state, known []spec.ConnectorState,
) error {
	if err := next.decode(pipeline, saved); err != nil {
		return err
	}
	if err := s.deleteLocal(ctx, known); err != nil {
		return err
	}
	for _, c := range next.Connectors {
		if err := s.Local.SaveConnectorState(ctx, &c); err != nil {
			return err
		}
	}
	epoch, err := s.Local.BeginRun(ctx, pipeline)
	if err != nil {
		return err
	}
	var all []spec.Checkpoint
	for id, c := range next.Checkpoints {
		all = append(all, spec.Checkpoint{ConnectorID: id, PipelineID: pipeline, Plugin: c.Plugin, Position: c.Position,
			Epoch: epoch})
	}
	return s.Local.SaveCheckpoints(ctx, all)
}

// decode parses the state in a claim.
func (p *state) decode(pipeline string, saved []byte) error {
	if err := json.Unmarshal(saved, p); err != nil {
		return fmt.Errorf("cannot read the state of pipeline %q in the cluster: %w", pipeline, err)
	}
	if p.Format > stateFormat {
		return fmt.Errorf("cannot read the state of pipeline %q in the cluster: a newer version of conduit wrote it",
			pipeline)
	}
	return nil
}

// BeginRun begins a run of a pipeline that this agent owns.
func (s *Shared) BeginRun(ctx context.Context, pipeline string) (int64, error) {
	if s.Clustered(pipeline) && !s.Member.RunsHere(pipeline) {
		return 0, fmt.Errorf("cannot run pipeline %q: %w", pipeline, ErrNotOwner)
	}
	return s.Local.BeginRun(ctx, pipeline)
}

// SaveConnectorState replaces the state of a connector, also in the pipeline's claim.
func (s *Shared) SaveConnectorState(ctx context.Context, c *spec.ConnectorState) error {
	if err := s.Local.SaveConnectorState(ctx, c); err != nil {
		return err
	}
	return s.changed(ctx, c.PipelineID, func(p *state) { p.Connectors[c.ID] = *c })
}

// DeleteConnector deletes a connector, also from the pipeline's claim.
func (s *Shared) DeleteConnector(ctx context.Context, id string) error {
	if err := s.Local.DeleteConnector(ctx, id); err != nil {
		return err
	}
	pipeline, there := s.pipelineOf(id)
	if !there {
		return nil
	}
	return s.changed(ctx, pipeline, func(p *state) {
		delete(p.Connectors, id)
		delete(p.Checkpoints, id)
	})
}

// pipelineOf returns the pipeline with this connector among those that this agent owns.
func (s *Shared) pipelineOf(connectorID string) (pipeline string, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.pipelines {
		if _, ok := p.state.Connectors[connectorID]; ok {
			return id, true
		}
	}
	return "", false
}

// changed changes the state of a pipeline that this agent owns, and waits until it is saved.
func (s *Shared) changed(ctx context.Context, pipeline string, change func(*state)) error {
	if _, owned := s.Member.Epoch(pipeline); !owned || !s.Clustered(pipeline) {
		return nil
	}
	saved := make(chan error, 1)
	s.save(pipeline, change, func(err error) { saved <- err })
	select {
	case err := <-saved:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Replicate saves checkpoints in the claims of their pipelines. It calls done once per pipeline, when the outcome is
// known.
func (s *Shared) Replicate(checkpoints []spec.Checkpoint, done func(pipeline string, err error)) {
	byPipeline := map[string][]spec.Checkpoint{}
	for _, c := range checkpoints {
		byPipeline[c.PipelineID] = append(byPipeline[c.PipelineID], c)
	}
	for pipeline, all := range byPipeline {
		if !s.Clustered(pipeline) {
			done(pipeline, nil)
			continue
		}
		s.save(pipeline, func(p *state) {
			for _, c := range all {
				p.Checkpoints[c.ConnectorID] = checkpoint{c.Plugin, c.Position}
			}
		}, func(err error) { done(pipeline, err) })
	}
}

// save changes the state of a pipeline and saves it: at once, or, while a save is in flight, together with all other
// changes after that.
func (s *Shared) save(pipeline string, change func(*state), done func(error)) {
	s.mu.Lock()
	p := s.pipelines[pipeline]
	if p == nil {
		s.mu.Unlock()
		done(ErrNotOwner)
		return
	}
	change(&p.state)
	p.waiting = append(p.waiting, done)
	s.mu.Unlock()
	s.next(pipeline, p)
}

// next saves pending changes, unless a save is in flight.
func (s *Shared) next(pipeline string, p *copied) {
	s.mu.Lock()
	if p.saving || len(p.waiting) == 0 {
		s.mu.Unlock()
		return
	}
	waiting := p.waiting
	p.waiting, p.saving = nil, true
	encoded, err := json.Marshal(&p.state)
	current := s.pipelines[pipeline] == p // false after the pipeline was adopted as another instance
	s.mu.Unlock()
	finish := func(err error) {
		s.mu.Lock()
		p.saving = false
		s.mu.Unlock()
		for _, done := range waiting {
			done(err)
		}
		s.next(pipeline, p)
	}
	epoch, owned := s.Member.Epoch(pipeline)
	switch {
	case err != nil:
		finish(fmt.Errorf("cannot encode the state of pipeline %q: %w", pipeline, err))
	case !owned || !current:
		finish(ErrNotOwner)
	default:
		s.Member.Save(pipeline, epoch, encoded, func(ok bool) {
			if !ok {
				finish(ErrNotOwner)
				return
			}
			finish(nil)
		})
	}
}
