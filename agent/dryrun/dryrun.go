// Package dryrun runs the processors of a pipeline over records, without its connectors and with a simulated clock. It
// is the basis of pipeline tests and dry runs.
package dryrun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/spec"
)

// Options are the parameters of a dry run.
type Options struct {
	Registry *processor.Registry
	Schemas  schema.Registry // nil: schemas that exist for this run only
	Start    time.Time       // initial time of the clock
	Timeout  time.Duration   // maximum time for a processor
	Steps    func(Step)      // called for the input and output of each processor; nil: not called
}

// Step is the input and output of a processor for a run of records. The records are copies.
type Step struct {
	Processor string // qualified id
	In, Out   []record.Record
}

// DeadLetter is a record that went to the dead-letter queue.
type DeadLetter struct {
	Record    record.Record
	Processor string
	Err       error
}

// Run is a dry run of a pipeline. Its methods must not be called concurrently.
type Run struct {
	pipeline     *spec.Pipeline
	clock        *clock
	sources      map[string]*processor.Chain
	shared       *processor.Chain
	destinations []*destination
	deadLetters  []DeadLetter
	coverage     map[string]*Coverage
	pending      map[string]Step // by processor: its input
	steps        func(Step)
}

type destination struct {
	id      string
	chain   *processor.Chain
	records []record.Record
}

// Coverage is the observed work of a processor.
type Coverage struct {
	Processor    string `json:"processor"`
	HasCondition bool   `json:"hasCondition"`
	Processed    uint64 `json:"processed"` // number of records that met its condition
	Skipped      uint64 `json:"skipped"`   // number of records that did not

	stats *processor.Stats
	seen  uint64
}

// Open starts the processors of p. The references in their settings must be resolved.
func Open(ctx context.Context, p *spec.Pipeline, o Options) (*Run, error) {
	r := &Run{pipeline: p, clock: &clock{now: o.Start}, sources: map[string]*processor.Chain{},
		coverage: map[string]*Coverage{}, pending: map[string]Step{}, steps: o.Steps}
	if o.Schemas == nil {
		o.Schemas = &schema.Memory{}
	}
	err := r.open(ctx, o)
	if err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	return r, nil
}

func (r *Run) open(ctx context.Context, o Options) (err error) {
	options := processor.Options{Registry: o.Registry, Schemas: o.Schemas, Clock: r.clock, Timeout: o.Timeout,
		Tap:   r.tap,
		Stats: func(id, _ string) *processor.Stats { return r.coverage[id].stats }}
	chain := func(parent string, declared []spec.Processor) (*processor.Chain, error) {
		for _, d := range declared {
			id := parent + ":" + d.ID
			r.coverage[id] = &Coverage{Processor: id, HasCondition: d.Condition != "", stats: &processor.Stats{}}
		}
		return processor.Open(ctx, parent, declared, options)
	}
	if r.shared, err = chain(r.pipeline.ID, r.pipeline.Chain(nil)); err != nil {
		return err
	}
	for _, c := range r.pipeline.Connectors {
		opened, err := chain(r.pipeline.ID+":"+c.ID, c.Processors)
		if err != nil {
			return err
		}
		if c.Type == spec.TypeSource {
			r.sources[c.ID] = opened
		} else {
			r.destinations = append(r.destinations, &destination{id: c.ID, chain: opened})
		}
	}
	return nil
}

// Close ends the processors.
func (r *Run) Close(ctx context.Context) error {
	var errs []error
	for _, c := range r.chains() {
		if c != nil {
			errs = append(errs, c.Teardown(ctx))
		}
	}
	return errors.Join(errs...)
}

func (r *Run) chains() []*processor.Chain {
	all := []*processor.Chain{r.shared}
	for _, c := range r.pipeline.Connectors {
		if chain := r.sources[c.ID]; chain != nil {
			all = append(all, chain)
		}
	}
	for _, d := range r.destinations {
		all = append(all, d.chain)
	}
	return all
}

// Feed lets the source read a record, and passes it through the pipeline.
func (r *Run) Feed(ctx context.Context, source string, rec record.Record) error {
	chain := r.sources[source]
	if chain == nil {
		return fmt.Errorf("pipeline %q has no source %q", r.pipeline.ID, source)
	}
	out, err := r.pass(ctx, chain, []item{{rec, &origin{}}})
	if err != nil {
		return err
	}
	return r.onward(ctx, out)
}

// onward passes the output of a source through the processors of the pipeline and of the destinations.
func (r *Run) onward(ctx context.Context, items []item) error {
	if len(items) == 0 {
		return nil
	}
	items, err := r.pass(ctx, r.shared, items)
	if err != nil {
		return err
	}
	return r.deliver(ctx, items)
}

func (r *Run) deliver(ctx context.Context, items []item) error {
	for n, d := range r.destinations {
		var own []item
		for _, it := range items {
			if it.record.GoesTo(n) {
				own = append(own, item{it.record.Clone(), it.origin})
			}
		}
		out, err := r.pass(ctx, d.chain, own)
		if err != nil {
			return err
		}
		d.take(out)
	}
	return nil
}

func (d *destination) take(items []item) {
	for _, it := range items {
		d.records = append(d.records, it.record)
	}
}

// Advance advances the clock and lets processors emit at their deadlines.
func (r *Run) Advance(ctx context.Context, d time.Duration) error {
	end := r.clock.now.Add(d)
	for {
		chain, at := r.next()
		if chain == nil || at.After(end) {
			r.clock.set(end)
			return nil
		}
		r.clock.set(at)
		out, err := r.pass(ctx, chain, nil)
		if err == nil {
			err = r.emitted(ctx, chain, out)
		}
		if err != nil {
			return err
		}
		if !chain.Deadline().IsZero() && !chain.Deadline().After(at) {
			return fmt.Errorf("a processor of pipeline %q asks for a time in the past", r.pipeline.ID)
		}
	}
}

// next returns the chain with the earliest deadline.
func (r *Run) next() (first *processor.Chain, at time.Time) {
	for _, c := range r.chains() {
		if d := c.Deadline(); !d.IsZero() && (first == nil || d.Before(at)) {
			first, at = c, d
		}
	}
	return first, at
}

// emitted passes on emissions of a chain at its deadline.
func (r *Run) emitted(ctx context.Context, chain *processor.Chain, items []item) error {
	if chain == r.shared {
		return r.deliver(ctx, items)
	}
	for _, d := range r.destinations {
		if d.chain == chain {
			d.take(items)
			return nil
		}
	}
	return r.onward(ctx, items)
}

// Delivered returns the records that a destination got. The bool is false if there is no destination with this id.
func (r *Run) Delivered(id string) ([]record.Record, bool) {
	for _, d := range r.destinations {
		if d.id == id {
			return d.records, true
		}
	}
	return nil, false
}

// DeadLetters returns the records in the dead-letter queue.
func (r *Run) DeadLetters() []DeadLetter { return r.deadLetters }

// Coverage returns the coverage of each processor, in the order of the pipeline.
func (r *Run) Coverage() []Coverage {
	var all []Coverage
	add := func(parent string, declared []spec.Processor) {
		for _, d := range declared {
			c := *r.coverage[parent+":"+d.ID]
			c.Processed = c.stats.In.Load()
			c.Skipped = c.seen - c.Processed
			all = append(all, c)
		}
	}
	for _, typ := range []spec.ConnectorType{spec.TypeSource, "", spec.TypeDestination} {
		if typ == "" {
			add(r.pipeline.ID, r.pipeline.Chain(nil))
		}
		for _, c := range r.pipeline.Connectors {
			if c.Type == typ {
				add(r.pipeline.ID+":"+c.ID, c.Processors)
			}
		}
	}
	return all
}
