package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Chain is a running sequence of processors. It is a connector.Chain.
type Chain struct {
	options   Options
	log       *slog.Logger
	schemas   *schema.Cache // nil: none
	stages    []*stage
	guard     guard
	observers []observer
	follow    schema.Parts // parts whose schema follows their shape
	shapes    follower
	queues    [][]queued // by the stage that emitted or postponed it
	// by token of an uncommitted batch: the emissions made from its records, for the observers
	covering map[any][]*group
}

var (
	_ connector.ChainSuccessor = (*Chain)(nil)
	_ connector.ChainReleaser  = (*Chain)(nil)
	_ connector.ChainSplitter  = (*Chain)(nil)
)

type observer struct {
	processor sdk.CommitObserver
	stage     *stage
}

// group is an emission whose records pass the remaining stages. A record that a stage holds again is named by the group
// and its index in the group.
type group struct {
	settles   []sdk.Held
	held      int // held records or pieces
	uncovered int // number of uncommitted batches with records of the emission
}

// queued is an emission of a stage, or a record that the stage postponed.
type queued struct {
	sdk.Emission
	holder    int  // the stage that holds the records in Settles
	first     int  // the first stage to pass
	postponed bool // the dead-letter queue may get the records as they are
}

// Process implements connector.Chain. A call that does not return in time is abandoned: it may still read and change
// the records.
func (c *Chain) Process(ctx context.Context, token any, records []record.Record) (connector.Outcome, error) {
	return c.guard.call(ctx, func(ctx context.Context) (connector.Outcome, error) {
		return c.process(ctx, token, records)
	})
}

func (c *Chain) process(ctx context.Context, token any, records []record.Record) (connector.Outcome, error) {
	var out connector.Outcome
	w := work{chain: c, budget: c.budget(), token: token, input: records, records: records, out: &out}
	if err := c.pass(ctx, &w, 0); err != nil {
		return out, err
	}
	out.Records, out.Origins = w.records, w.origins
	return out, c.passEmissions(ctx, &out, w.total)
}

// Unfinished implements connector.ChainSplitter.
func (c *Chain) Unfinished() bool {
	return slices.ContainsFunc(c.queues, func(q []queued) bool { return len(q) > 0 })
}

// Releasable implements connector.ChainReleaser.
func (c *Chain) Releasable() bool { return slices.ContainsFunc(c.stages, (*stage).releasable) }

// Release implements connector.ChainReleaser. The released records of a processor pass the later processors, which
// release their own afterwards.
func (c *Chain) Release(ctx context.Context) (connector.Outcome, error) {
	return c.guard.call(ctx, c.release)
}

func (c *Chain) release(ctx context.Context) (connector.Outcome, error) {
	var out connector.Outcome
	for i, s := range c.stages {
		if !s.releasable() {
			continue
		}
		if err := s.release(ctx, c, i); err != nil {
			return out, fmt.Errorf("cannot release the records held by %s: %w", s.id, explain(ctx, err))
		}
		if err := c.passEmissions(ctx, &out, 0); err != nil {
			return out, err
		}
	}
	return out, nil
}

// passEmissions passes the queued emissions through their remaining stages. Emissions of the last stages go first: they
// are older than records that arrive from earlier stages. Once out takes as much memory as a batch may, the remaining
// emissions wait for the next call. made is the memory allocated before the call.
func (c *Chain) passEmissions(ctx context.Context, out *connector.Outcome, made int) error {
	for last := len(c.queues) - 1; last >= 0; {
		q := c.queues[last]
		if len(q) == 0 {
			c.queues[last] = nil
			last--
			continue
		}
		if made >= batchMemory(c.budget()) {
			return nil
		}
		c.queues[last] = q[1:]
		n, err := c.passEmission(ctx, q[0], out)
		if err != nil {
			return err
		}
		q[0] = queued{} // frees its records
		made += n
		last = len(c.queues) - 1 // later stages may have emitted
	}
	return nil
}

// emitted queues the emissions of stage n.
func (c *Chain) emitted(n int, emissions []sdk.Emission) {
	for _, e := range emissions {
		c.queue(n, queued{Emission: e, holder: n, first: n + 1})
	}
}

func (c *Chain) queue(n int, q queued) {
	if c.queues == nil {
		c.queues = make([][]queued, len(c.stages))
	}
	c.queues[n] = append(c.queues[n], q)
}

func (c *Chain) budget() int {
	if c.options.Budget > 0 {
		return c.options.Budget
	}
	return sdk.DefaultBudget
}

// pass runs the stages, starting with number first.
func (c *Chain) pass(ctx context.Context, w *work, first int) error {
	for i := first; i < len(c.stages); i++ {
		if err := c.stages[i].run(ctx, w, i); err != nil {
			return fmt.Errorf("cannot process records with %s: %w", c.stages[i].id, explain(ctx, err))
		}
	}
	if len(c.stages) > 0 {
		c.stages[len(c.stages)-1].refuseMetadata(w)
	}
	if c.schemas == nil || len(w.records) == 0 || !c.follow.Key && !c.follow.Payload {
		return nil
	}
	return explain(ctx, c.shapes.follow(ctx, c.schemas, c.log, c.follow, &c.guard.host.progress, w.records))
}

// passEmission passes q through its remaining stages. It returns the number of bytes allocated.
func (c *Chain) passEmission(ctx context.Context, q queued, out *connector.Outcome) (made int, err error) {
	c.stages[q.holder].holding -= len(q.Settles)
	g := &group{settles: flatten(q.Settles)}
	if q.postponed {
		for i := range q.Records {
			q.Records[i] = q.Records[i].Clone()
			made += q.Records[i].Memory()
		}
	}
	w := work{chain: c, budget: c.budget(), group: g, input: q.Records, records: q.Records, out: out, total: made}
	if c.cover(g) {
		w.token = g
	}
	if err := c.pass(ctx, &w, q.first); err != nil {
		return w.total, err
	}
	if w.refusedAll {
		return w.total, nil
	}
	e := sdk.Emission{Records: w.records}
	if g.held == 0 {
		e.Settles = g.settles
	}
	if len(e.Records) > 0 || len(e.Settles) > 0 {
		out.Emitted = append(out.Emitted, e)
	}
	return w.total, nil
}

// flatten replaces emitted records that were held again by the records of batches they were made from. This happens
// when the last record of their emission settles: destinations take records in order, so they have all earlier records
// by then.
func flatten(settles []sdk.Held) []sdk.Held {
	var flat []sdk.Held
	for _, h := range settles {
		g, ok := h.Batch.(*group)
		if !ok {
			flat = append(flat, h)
			continue
		}
		if g.held--; g.held == 0 {
			flat = append(flat, g.settles...)
		}
	}
	return flat
}

// Deadline implements connector.Chain.
func (c *Chain) Deadline() (earliest time.Time) {
	if c.Unfinished() {
		return time.Unix(1, 0)
	}
	for _, s := range c.stages {
		if d := s.deadline(); !d.IsZero() && (earliest.IsZero() || d.Before(earliest)) {
			earliest = d
		}
	}
	return earliest
}

// Observes implements connector.Chain.
func (c *Chain) Observes() bool { return len(c.observers) > 0 }

// cover records for the observers which batches must be committed before an emission counts as committed. It returns
// false if this is unknown: the emission settles no record, because later emissions are made from the same records.
func (c *Chain) cover(g *group) bool {
	if len(c.observers) == 0 || len(g.settles) == 0 {
		return false
	}
	if c.covering == nil {
		c.covering = map[any][]*group{}
	}
	for _, h := range g.settles {
		if groups := c.covering[h.Batch]; len(groups) == 0 || groups[len(groups)-1] != g {
			c.covering[h.Batch] = append(groups, g)
			g.uncovered++
		}
	}
	return true
}

// Committed implements connector.Chain.
func (c *Chain) Committed(ctx context.Context, tokens []any) error {
	for _, t := range tokens {
		for _, g := range c.covering[t] {
			if g.uncovered--; g.uncovered == 0 {
				tokens = append(tokens, g)
			}
		}
		delete(c.covering, t)
	}
	if len(c.observers) == 0 {
		return nil
	}
	_, err := c.guard.call(ctx, func(ctx context.Context) (connector.Outcome, error) {
		return connector.Outcome{}, c.notify(ctx, tokens)
	})
	return err
}

// notify notifies the observers of committed batches.
func (c *Chain) notify(ctx context.Context, tokens []any) error {
	for _, o := range c.observers {
		err := c.guard.inCall(ctx, o.stage, func() error {
			k := o.stage.workers[0]
			return k.follow(0, func() error { return o.processor.Committed(sdk.WithEnv(ctx, k.env), tokens) })
		})
		if err != nil {
			return fmt.Errorf("cannot notify %s of committed records: %w", o.stage.id, explain(ctx, err))
		}
	}
	return nil
}

// Holding implements connector.Chain.
func (c *Chain) Holding() (n int) {
	for _, s := range c.stages {
		n += s.holding
	}
	return n
}

// Len returns the number of processors.
func (c *Chain) Len() int { return len(c.stages) }

// Teardown implements connector.Chain.
func (c *Chain) Teardown(ctx context.Context) error {
	c.guard.close()
	var errs []error
	for _, s := range c.stages {
		if err := s.teardown(ctx, &c.guard); err != nil {
			errs = append(errs, fmt.Errorf("cannot end %s: %w", s.id, err))
		}
	}
	return errors.Join(errs...)
}
