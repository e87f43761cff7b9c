package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
)

const (
	maxEnds     = 2     // ends in a row before records are written one at a time
	maxSingle   = 2     // ends at the same record, written alone, before it is refused
	forgetAfter = 20000 // settled records after which earlier ends are forgotten
)

// Guard records, over the runs of pipelines, at which records the processes of destinations ended. The zero Guard is
// ready to use.
type Guard struct {
	mu       sync.Mutex
	suspects map[string]*suspect // by qualified id of the destination; guarded by mu
}

// suspect holds the observations of a destination whose process ended.
type suspect struct {
	pipeline string // id of the pipeline

	ends    int             // in a row
	passed  int             // number of records settled since
	at      record.Position // position of the record at which it ended when written alone
	atEnds  int             // number of ends at that record
	poison  record.Position // position of the refused record
	cause   error           // of the last end
	settled bool            // another record was settled since the last refusal
}

// Forget forgets the destinations of a pipeline.
func (g *Guard) Forget(pipeline string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.suspects, func(_ string, s *suspect) bool { return s.pipeline == pipeline })
}

// single reports whether records must be written one at a time.
func (g *Guard) single(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.suspects[id]
	return s != nil && s.ends >= maxEnds
}

// ended records that the process of a destination ended; at is the position of the record that was written alone, nil
// when there were others.
func (g *Guard) ended(pipeline, id string, at record.Position, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.suspects == nil {
		g.suspects = map[string]*suspect{}
	}
	s := g.suspects[id]
	if s == nil {
		s = &suspect{pipeline: pipeline, settled: true}
		g.suspects[id] = s
	}
	s.ends, s.passed, s.cause = s.ends+1, 0, cause
	switch {
	case at == nil:
	case bytes.Equal(s.at, at):
		s.atEnds++
	default:
		s.at, s.atEnds = bytes.Clone(at), 1
	}
	// If a destination ends for every record, only one record is refused, not every record.
	if s.atEnds >= maxSingle && s.settled {
		s.poison, s.settled = s.at, false
	}
}

// passed records that a destination settled n records.
func (g *Guard) passed(id string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.suspects[id]
	if s == nil {
		return
	}
	s.settled = true
	if s.passed += n; s.passed > forgetAfter {
		delete(g.suspects, id)
	}
}

// refuses returns the error with which the record at a position is refused, nil if it is not.
func (g *Guard) refuses(id string, at record.Position) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.suspects[id]
	if s == nil || !bytes.Equal(s.poison, at) {
		return nil
	}
	return fmt.Errorf("the process of the destination ended %d times while it wrote this record alone: %w", s.atEnds,
		s.cause)
}

// Destination is a destination with a Guard.
type Destination struct {
	connector.Destination
	guard        *Guard
	pipeline     string // id of the pipeline
	id           string // qualified
	withDefaults func(settings map[string]string) map[string]string
	gathers      bool // it waits for more records, so records cannot be written one at a time

	settled func(n int, err error) // callback of the engine
	calling sync.Mutex             // held while settled is called

	once  sync.Once // guards the report that the process ended, which both results and Write detect
	mu    sync.Mutex
	alone record.Position // guarded by mu: position of the unsettled record that was written alone
	done  chan struct{}   // guarded by mu: closed when it is settled
}

// Wrap adds the guard to a destination of a pipeline. withDefaults completes its settings.
func (g *Guard) Wrap(pipeline, id string, d connector.Destination,
	withDefaults func(map[string]string) map[string]string) *Destination {
	return &Destination{Destination: d, guard: g, pipeline: pipeline, id: id, withDefaults: withDefaults}
}

// Configure implements connector.Connector.
func (d *Destination) Configure(ctx context.Context, settings map[string]string) error {
	d.gathers = engine.BatchPolicyOf(d.withDefaults(settings)).Gathers()
	return d.Destination.Configure(ctx, settings)
}

// StopAndWait implements connector.StopAndWaiter.
func (d *Destination) StopAndWait() {
	if c, ok := d.Destination.(connector.StopAndWaiter); ok {
		c.StopAndWait()
	}
}

// Open implements connector.Destination.
func (d *Destination) Open(ctx context.Context, settled func(n int, err error)) error {
	d.settled = settled
	return d.Destination.Open(ctx, d.results)
}

// results receives the results of the destination.
func (d *Destination) results(n int, err error) {
	if n == 0 {
		d.broke(err)
	} else {
		d.guard.passed(d.id, n)
	}
	d.settle(n, err)
	if n > 0 {
		d.release()
	}
}

func (d *Destination) settle(n int, err error) {
	d.calling.Lock()
	defer d.calling.Unlock()
	d.settled(n, err)
}

// release ends the wait for the record that was written alone.
func (d *Destination) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.alone != nil {
		d.alone = nil
		close(d.done)
	}
}

// broke records that the process of the destination ended, unless err has another cause.
func (d *Destination) broke(err error) {
	var lost interface{ Lost() bool }
	if !errors.As(err, &lost) || !lost.Lost() {
		return
	}
	d.once.Do(func() {
		d.mu.Lock()
		at := d.alone
		d.mu.Unlock()
		d.guard.ended(d.pipeline, d.id, at, err)
	})
}

// Write implements connector.Destination.
func (d *Destination) Write(ctx context.Context, b *record.Batch) error {
	if d.gathers || !d.guard.single(d.id) {
		err := d.Destination.Write(ctx, b)
		if err != nil {
			d.broke(err)
		}
		return err
	}
	for i := range b.Len() {
		if err := d.writeAlone(ctx, b.Slice(i, i+1)); err != nil {
			return err
		}
	}
	return nil
}

// writeAlone writes a record and waits until it is settled, or refuses it.
func (d *Destination) writeAlone(ctx context.Context, one *record.Batch) error {
	at := one.Position(0)
	if cause := d.guard.refuses(d.id, at); cause != nil {
		d.settle(1, cause)
		return nil
	}
	done := make(chan struct{})
	d.mu.Lock()
	d.alone, d.done = at, done
	d.mu.Unlock()
	if err := d.Destination.Write(ctx, one); err != nil {
		d.broke(err)
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
