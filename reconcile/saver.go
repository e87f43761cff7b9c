package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// saver writes states to the store, asynchronously to the loop. If several states of a pipeline are pending, only the
// last is written.
type saver struct {
	store Store
	log   *slog.Logger
	pause time.Duration // maximum pause after a save; usually twice its duration
	wake  notify.Signal

	throttle notify.Throttle // owned by run

	mu      sync.Mutex
	pending map[string]*pending // guarded by mu
	order   []string            // guarded by mu; keys of pending, oldest first
	err     error               // guarded by mu; error of the last save, nil if it succeeded

	writing sync.Mutex // held during a write
}

type pending struct {
	state  spec.State
	events []spec.Event
}

// limit drops the oldest events beyond maxPendingEvents.
func (p *pending) limit() { p.events = p.events[max(len(p.events)-maxPendingEvents, 0):] }

// Limits on pending states while the store cannot write, on the states per save, and on the time until a failed save
// is retried.
const (
	maxPendingEvents = 100
	maxSaved         = 1000
	finalSaveTimeout = 5 * time.Second
	retryInterval    = time.Second
)

// put saves s and events soon.
func (s *saver) put(state spec.State, events ...spec.Event) {
	s.mu.Lock()
	p := s.pending[state.PipelineID]
	if p == nil {
		p = &pending{}
		s.pending[state.PipelineID] = p
		s.order = append(s.order, state.PipelineID)
	}
	p.state = state
	p.events = append(p.events, events...)
	p.limit()
	s.mu.Unlock()
	s.wake.Notify()
}

// take returns pending states, the oldest first, at most as many as a transaction should hold.
func (s *saver) take() (all []*pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.order) > 0 && len(all) < maxSaved {
		id := s.order[0]
		s.order = s.order[1:]
		if p := s.pending[id]; p != nil {
			delete(s.pending, id)
			all = append(all, p)
		}
	}
	return all
}

// giveBack puts p, which could not be saved, back. A newer pending state wins, and its events follow the events of p.
func (s *saver) giveBack(p *pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := p.state.PipelineID
	if since := s.pending[id]; since != nil {
		since.events = append(p.events, since.events...)
		since.limit()
		return
	}
	s.pending[id] = p
	s.order = append(s.order, id)
}

// run saves until ctx ends, and then saves the remaining states.
func (s *saver) run(ctx context.Context) {
	s.throttle = notify.Throttle{Fails: "cannot save the states of pipelines, trying again",
		Recovered: "states of pipelines can be saved again"}
	for ctx.Err() == nil {
		select {
		case <-s.wake:
		case <-ctx.Done():
			continue
		}
		began := time.Now()
		err := s.next(ctx)
		pause := min(s.pause, 2*time.Since(began))
		if ctx.Err() == nil {
			s.throttle.Observe(s.log, err)
		}
		if err != nil {
			pause = retryInterval
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalSaveTimeout)
	defer cancel()
	if err := s.drain(final); err != nil {
		s.log.Error("cannot save the states of pipelines", "err", err)
	}
}

// drain saves all pending states.
func (s *saver) drain(ctx context.Context) error {
	for s.waiting() {
		if err := s.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// next saves pending states, at most as many as a transaction should hold.
func (s *saver) next(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	all := s.take()
	if len(all) == 0 {
		return nil
	}
	err := s.save(ctx, all)
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	if err != nil {
		for _, p := range all {
			s.giveBack(p)
		}
	}
	if s.waiting() {
		s.wake.Notify()
	}
	return err
}

// failed returns the error of the last save, nil if it succeeded.
func (s *saver) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *saver) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order) > 0
}

func (s *saver) save(ctx context.Context, all []*pending) error {
	states := make([]spec.State, len(all))
	var events []spec.Event
	for i, p := range all {
		states[i] = p.state
		events = append(events, p.events...)
	}
	return s.store.SaveStates(ctx, states, events...)
}

// delete deletes a pipeline, whose states are not written afterwards.
func (s *saver) delete(ctx context.Context, id string) error {
	if err := s.drain(ctx); err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	delete(s.pending, id)
	s.mu.Unlock()
	return s.store.DeletePipeline(ctx, id)
}
