// Package replay sends dead letters through the present version of their pipeline again. Each
// enters at the processor or destination that refused it, and is removed from the store only
// when it is settled.
//
// A replay is a run of the engine of its own, with connectors and processors of its own,
// concurrently with that of the pipeline, which may be stopped. Its source is the dead-letter
// store.
package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/deadletters"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/deadletter"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// DeadLetters is the dead-letter store.
type DeadLetters interface {
	// Begin reserves the replay of a pipeline until end is called. It fails when another member of a cluster has it.
	Begin(ctx context.Context, pipeline string) (end func(), err error)
	// Select returns what goes through the dead letters of a pipeline that there are now and the request selects.
	Select(ctx context.Context, pipeline string, request rest.ReplayRequest, reserve deadletters.Reserve) (deadletters.Next, error)
	// Settled removes those that were settled as they were loaded; one that was edited since stays.
	Settled(ctx context.Context, pipeline string, all []deadletters.Replay) error
	// Again takes back one that was refused again: the first time in its place, then as another one.
	Again(ctx context.Context, d *spec.Declaration, id int64, l *deadletter.DeadLetter, first bool) error
	// Keep takes over another record that the pipeline of d refused.
	Keep(ctx context.Context, d *spec.Declaration, l *deadletter.DeadLetter) error
}

// Replays runs replays, at most one of each pipeline. Set the exported fields before use.
type Replays struct {
	DeadLetters DeadLetters
	Store       engine.Store
	// Declared returns the present version of a pipeline.
	Declared func(ctx context.Context, id string) (spec.Declaration, error)
	// Assemble returns a run of d's pipeline that is not prepared, and what keeps secrets out
	// of its errors.
	Assemble func(ctx context.Context, d *spec.Declaration) (p *engine.Pipeline, redact func(error) error, err error)
	Changed  func() // called when there is progress; must not block
	Log      *slog.Logger

	starting sync.Mutex // one at a time

	mu     sync.Mutex
	last   map[string]*run // by pipeline id: that runs, or ran last; guarded by mu
	closed bool            // guarded by mu
	wg     sync.WaitGroup
}

// Start begins to replay dead letters of a pipeline, unless that is being done (spec.ErrConflict).
func (s *Replays) Start(ctx context.Context, pipeline string, request rest.ReplayRequest) (rest.Replay, error) {
	d, err := s.Declared(ctx, pipeline)
	if err != nil {
		return rest.Replay{}, err
	}
	s.starting.Lock()
	defer s.starting.Unlock()
	if err := s.free(pipeline); err != nil {
		return rest.Replay{}, err
	}
	end, err := s.DeadLetters.Begin(ctx, pipeline)
	if err != nil {
		return rest.Replay{}, err
	}
	next, err := s.DeadLetters.Select(ctx, pipeline, request, sdk.Reserve)
	if err != nil {
		end()
		return rest.Replay{}, err
	}
	r := newRun(s, &d, next)
	r.end = end
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		go end()
		return rest.Replay{}, errEnding
	}
	if s.last == nil {
		s.last = map[string]*run{}
	}
	s.last[pipeline] = r
	s.wg.Go(r.do)
	return r.status(), nil
}

// free returns an error unless the dead letters of a pipeline can be replayed by this agent.
func (s *Replays) free(pipeline string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errEnding
	case s.last[pipeline] != nil && s.last[pipeline].status().Running:
		return fmt.Errorf("its dead letters are being replayed: %w", spec.ErrConflict)
	}
	return nil
}

var errEnding = errors.New("the agent is ending")

// Status returns the replay of a pipeline that runs, or that ran last; ok is false when there
// was none since the agent started.
func (s *Replays) Status(pipeline string) (status rest.Replay, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.last[pipeline]; r != nil {
		return r.status(), true
	}
	return status, false
}

// Cancel ends a replay once what is outstanding is settled.
func (s *Replays) Cancel(pipeline string) (status rest.Replay, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.last[pipeline]; r != nil {
		r.exhausted()
		return r.status(), true
	}
	return status, false
}

// drainTimeout is how long what is outstanding may take to settle when the agent ends.
const drainTimeout = 10 * time.Second

// Run keeps replays possible until ctx ends. Then it ends them and returns when they have.
func (s *Replays) Run(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	for _, r := range s.last {
		r.exhausted()
		stop := time.AfterFunc(drainTimeout, func() { r.cancel(errors.New("the agent has ended")) })
		defer stop.Stop()
	}
	s.mu.Unlock()
	s.wg.Wait()
	return nil
}

// fail says why a replay ended.
func (s *Replays) fail(r *run, err error) {
	s.Log.Warn("a replay of dead letters has failed", "component", "dead-letters", "pipeline_id", r.declared.Pipeline.ID, "err", err)
}

// progress is how far a replay is.
type progress = rest.Replay

// count changes the progress of a run.
func (r *run) count(change func(p *progress)) {
	r.mu.Lock()
	change(&r.progress)
	r.mu.Unlock()
	if r.replays.Changed != nil {
		r.replays.Changed()
	}
}

func (r *run) status() rest.Replay {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress
}

// exhausted ends the run once what is outstanding is settled.
func (r *run) exhausted() { r.drainOnce.Do(func() { close(r.drain) }) }

// do performs the run.
func (r *run) do() {
	err := r.perform()
	r.end()
	if err != nil {
		r.replays.fail(r, err)
	}
	r.count(func(p *progress) {
		p.Running, p.Ended = false, time.Now().UTC()
		if err != nil {
			p.Error = err.Error()
		}
	})
}

// perform assembles the pipeline, and runs it.
func (r *run) perform() error {
	p, redact, err := r.replays.Assemble(r.ctx, r.declared)
	if err != nil {
		return err
	}
	r.secrets = redact
	stop := r.adapt(p)
	defer stop()
	if err := p.Prepare(r.ctx); err != nil {
		return redact(fmt.Errorf("cannot start the replay: %w", err))
	}
	err = p.Run(r.ctx, r.drain, func() {})
	if cause := context.Cause(r.ctx); cause != nil && err != nil {
		err = cause
	}
	return redact(err)
}
