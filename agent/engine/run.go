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
}

// wire connects sources, destinations and the dead-letter queue.
func (r *run) wire() {
	q := r.Pipeline.dlq
	r.dlq = newDeadLetters(q.id, q.connector, &r.Stats.DeadLetters, r.Declared.DLQ.WindowSize, r.Declared.DLQ.WindowNackThreshold)
	for i, o := range r.Pipeline.destinations {
		d := newDestinationRun(r, o.id, i, o.connector)
		d.patient = gathers(o.settings) || o.settings[ratePerSecond] != ""
		r.dests = append(r.dests, d)
	}
	for _, o := range r.Pipeline.sources {
		s := newSourceRun(r, o.id, o.connector)
		s.processors = r.processors[o.id]
		r.sources = append(r.sources, s)
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
// the run; the others are goroutines noticing that it is over.
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
	start(func(ctx context.Context) error { return r.stop(ctx, &reading) })
	all.Wait()
	return context.Cause(r.ctx)
}

// stop waits for the order to drain, stops the sources, and closes the queues once
// nothing more will be read.
func (r *run) stop(ctx context.Context, reading *sync.WaitGroup) error {
	if err := r.watch(ctx); err != nil {
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
