package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/conduit-agent/conduit/plugins/connector"
)

// run is a Pipeline while it moves records.
type run struct {
	*Pipeline
	epoch int64
	ctx   context.Context
	fail  context.CancelCauseFunc // ends the run because of an error found outside its goroutines
	drain <-chan struct{}

	sources     []*sourceRun
	stage       stage // for the processors of the pipeline
	dests       []*destinationRun
	deadLetters *deadLetterQueue

	goroutines *goroutines
	// a checkpoint could not be saved: no later one may be saved, since it may depend on the failed one
	unsaved atomic.Bool

	traces traces // of batches that are not committed

	routed atomic.Bool // processors choose the destinations of records, or did

	checking sync.Mutex // held while checking whether only held records are outstanding

	amending  sync.Mutex // held while an amendment is applied
	amendable bool       // guarded by amending: the run moves records

	replacing sync.Mutex // guards the destinations of the pipeline
}

// keep records o as the current connector of destination i.
func (r *run) keep(i int, o *opened[connector.Destination]) {
	r.replacing.Lock()
	defer r.replacing.Unlock()
	r.Pipeline.destinations[i] = o
}

func (r *run) setAmendable(amendable bool) {
	r.amending.Lock()
	defer r.amending.Unlock()
	r.amendable = amendable
}

// wire connects sources, destinations and the dead-letter queue.
func (r *run) wire() {
	r.deadLetters = newDeadLetterQueue(r, r.Pipeline.deadLetters)
	var ids []string
	for _, d := range r.Declared.Processors {
		ids = append(ids, r.Declared.QualifiedID(d.ID))
	}
	for _, c := range r.Declared.Connectors {
		id := r.Declared.QualifiedID(c.ID)
		ids = append(ids, id)
		for _, d := range c.Processors {
			ids = append(ids, id+":"+d.ID)
		}
	}
	r.Stats.Retain(ids)
	for i, o := range r.Pipeline.destinations {
		r.dests = append(r.dests, newDestinationRun(r, i, o))
	}
	for _, o := range r.Pipeline.sources {
		r.sources = append(r.sources, newSourceRun(r, o))
	}
	r.stage = newStage(r.ID())
	r.routed.Store(r.Declared.Routed())
	for _, st := range r.stages() {
		if chain := r.chains[st.ID]; chain != nil {
			st.Install(chain)
		}
	}
	r.chains = nil
}

// releaseTaps releases the taps that wire acquired.
func (r *run) releaseTaps() {
	for _, s := range r.sources {
		r.Taps.Release(s.id)
	}
	for _, d := range r.dests {
		r.Taps.Release(d.id)
		r.Taps.Release(TapIn(d.id))
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

// move runs all goroutines of the pipeline until they have ended. The first error ends the run; later errors are its
// consequences.
func (r *run) move() error {
	var reading sync.WaitGroup
	start := r.start
	for _, st := range r.upstream() {
		if st.Active() {
			r.startTending(st)
		}
	}
	for _, s := range r.sources {
		reading.Add(1)
		s.ended = reading.Done
		s.startReading()
		if !s.ignoresAcks {
			start("acknowledging to source "+s.id, s.acknowledge)
		}
	}
	for _, d := range r.dests {
		start(d.doing(), d.write)
	}
	// Nothing else needs this goroutine until the run drains, and every goroutine takes memory.
	if err := r.waitForDrain(r.ctx); err != nil {
		r.fail(err)
	} else {
		start("stopping sources", func(ctx context.Context) error { return r.stop(ctx, &reading) })
	}
	abandoned := r.goroutines.Wait(r.ctx)
	return errors.Join(context.Cause(r.ctx), abandoned)
}

// start runs f in a goroutine of the run. An error of f ends the run.
func (r *run) start(name string, f func(ctx context.Context) error) {
	r.goroutines.Start(name, func() {
		if err := f(r.ctx); err != nil {
			r.fail(err)
		}
	})
}

// stop stops the sources, and closes the queues once all reading has ended.
func (r *run) stop(ctx context.Context, reading *sync.WaitGroup) error {
	r.recheck() // sources without space need not wait for records that processors hold
	var stopping sync.WaitGroup
	for _, s := range r.sources {
		stopping.Go(func() {
			if err := s.src.Stop(ctx); err != nil {
				r.fail(failedIn(s.id, fmt.Errorf("cannot stop source %s: %w", s.id, err)))
			}
		})
	}
	stopping.Wait()
	reading.Wait()
	r.stage.Close()
	for _, s := range r.sources {
		s.stage.Close()
	}
	for _, d := range r.dests {
		close(d.queue)
	}
	for _, d := range r.dests {
		select {
		case <-d.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, s := range r.sources {
		s.drain()
	}
	for _, s := range r.sources {
		if s.ignoresAcks { // no goroutine waits for its last commit
			if err := s.acknowledge(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
