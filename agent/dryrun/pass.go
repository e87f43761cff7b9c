package dryrun

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// item is a record in the pipeline, with the record that was read.
type item struct {
	record record.Record
	origin *origin
}

// origin is a record as it was read.
type origin struct {
	before *record.Record // as it was before a split; nil: not split
	dead   bool           // it went to the dead-letter queue
}

// batch is the token of a run of items.
type batch struct {
	origins []*origin
	records []record.Record
	refused map[*origin]bool // records with a piece refused in this pass: their other pieces go no further
}

// pass runs the items through a chain and returns the output.
func (r *Run) pass(ctx context.Context, chain *processor.Chain, items []item) ([]item, error) {
	b := &batch{}
	for _, it := range items {
		b.records, b.origins = append(b.records, it.record), append(b.origins, it.origin)
	}
	var token any
	if len(items) > 0 {
		token = b
	}
	out, err := chain.Process(ctx, token, b.records)
	if err != nil {
		return nil, err
	}
	r.finishSteps()
	b.split(out)
	for _, refused := range out.Refused {
		r.refuse(b, refused)
	}
	on := b.goOn(out)
	if chain.Unfinished() {
		rest, err := r.pass(ctx, chain, nil)
		return append(on, rest...), err
	}
	return on, nil
}

// split records, for inputs that were split or are held, the record as it was before.
func (b *batch) split(out connector.Outcome) {
	count := make([]int, len(b.records))
	for _, i := range out.Origins {
		count[i]++
	}
	for _, i := range out.Held {
		count[i] += 2
	}
	for i, n := range count {
		if n > 1 && b.origins[i].before == nil {
			before := b.records[i].Clone()
			b.origins[i].before = &before
		}
	}
}

func (b *batch) goOn(out connector.Outcome) []item {
	var on []item
	for i, rec := range out.Records {
		o := int32(i)
		if out.Origins != nil {
			o = out.Origins[i]
		}
		if !b.refused[b.origins[o]] {
			on = append(on, item{rec, b.origins[o]})
		}
	}
	for _, e := range out.Emitted {
		for _, rec := range e.Records {
			on = append(on, item{rec, &origin{}})
		}
	}
	return on
}

// refuse sends a record to the dead-letter queue, once.
func (r *Run) refuse(b *batch, refused connector.Refusal) {
	if refused.Index >= 0 {
		o := b.origins[refused.Index]
		if b.refused == nil {
			b.refused = map[*origin]bool{}
		}
		b.refused[o] = true
		r.addDeadLetter(o, refused.Record, refused)
		return
	}
	for _, h := range refused.Settles {
		if held, ok := h.Batch.(*batch); ok {
			r.addDeadLetter(held.origins[h.Index], held.records[h.Index], refused)
		}
	}
}

func (r *Run) addDeadLetter(o *origin, rec record.Record, refused connector.Refusal) {
	if o.dead {
		return
	}
	o.dead = true
	if o.before != nil {
		rec = *o.before
	}
	r.deadLetters = append(r.deadLetters, DeadLetter{rec.Clone(), refused.Processor, refused.Err})
}

// tap collects the input and output of each processor.
func (r *Run) tap(id string, out bool, records []record.Record) {
	if out {
		if r.steps != nil {
			step := r.pending[id]
			step.Processor, step.Out = id, cloneAll(records)
			delete(r.pending, id)
			r.steps(step)
		}
		return
	}
	r.coverage[id].seen += uint64(len(records))
	if r.steps != nil {
		r.finishSteps()
		r.pending[id] = Step{Processor: id, In: cloneAll(records)}
	}
}

// finishSteps reports the processors without output.
func (r *Run) finishSteps() {
	for id, step := range r.pending {
		delete(r.pending, id)
		r.steps(step)
	}
}

func cloneAll(records []record.Record) []record.Record {
	clones := make([]record.Record, len(records))
	for i := range records {
		clones[i] = records[i].Clone()
	}
	return clones
}

// clock moves only through Advance, or when a processor sleeps.
type clock struct{ now time.Time }

var _ sdk.Clock = (*clock)(nil)

// Now returns the time.
func (c *clock) Now() time.Time { return c.now }

// Sleep moves the clock.
func (c *clock) Sleep(_ context.Context, d time.Duration) error {
	c.now = c.now.Add(d)
	return nil
}

func (c *clock) set(t time.Time) {
	if t.After(c.now) {
		c.now = t
	}
}
