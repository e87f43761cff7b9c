package engine

import (
	"context"
	"fmt"
	"sync"
)

// run is a Pipeline while it moves records.
type run struct {
	*Pipeline
	epoch int64
	ctx   context.Context
	fail  context.CancelCauseFunc // ends the run because of an error found outside its goroutines
	drain <-chan struct{}

	sources []*sourceRun
	dests   []*destinationRun
	dlq     *deadLetters

	amending  sync.Mutex // held while an amendment is applied
	amendable bool       // guarded by amending: the run moves records
}

func (r *run) setAmendable(amendable bool) {
	r.amending.Lock()
	defer r.amending.Unlock()
	r.amendable = amendable
}

// wire connects sources, destinations and the dead-letter queue.
func (r *run) wire() {
	r.dlq = newDeadLetters(r, r.Pipeline.dlq)
	for i, o := range r.Pipeline.destinations {
		r.dests = append(r.dests, newDestinationRun(r, i, o))
	}
	for _, o := range r.Pipeline.sources {
		r.sources = append(r.sources, newSourceRun(r, o, r.processors[o.id]))
	}
}

func (r *run) draining() bool {
	select {
	case <-r.drain:
		return true
	default:
		return false
	}
}

// move runs all goroutines of the pipeline until they have ended. The first error ends
// the run; the errors after it are its consequences.
func (r *run) move() error {
	var all, reading sync.WaitGroup
	start := func(f func(ctx context.Context) error) {
		all.Go(func() {
			if err := f(r.ctx); err != nil {
				r.fail(err)
			}
		})
	}
	for _, s := range r.sources {
		reading.Add(1)
		start(func(ctx context.Context) error {
			defer reading.Done()
			defer s.finish()
			return s.read(ctx)
		})
		start(s.acknowledge)
	}
	for _, d := range r.dests {
		start(d.write)
	}
	if err := r.stop(r.ctx, &reading); err != nil {
		r.fail(err)
	}
	all.Wait()
	return context.Cause(r.ctx)
}

// stop waits for the order to drain, stops the sources, and closes the queues once
// nothing more will be read.
func (r *run) stop(ctx context.Context, reading *sync.WaitGroup) error {
	if err := r.waitForDrain(ctx); err != nil {
		return err
	}
	var stopping sync.WaitGroup
	for _, s := range r.sources {
		stopping.Go(func() {
			if err := s.src.Stop(ctx); err != nil {
				r.fail(fmt.Errorf("cannot stop source %s: %w", s.id, err))
			}
		})
	}
	stopping.Wait()
	reading.Wait()
	for _, d := range r.dests {
		close(d.queue)
	}
	return nil
}
