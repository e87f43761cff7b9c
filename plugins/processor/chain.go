package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	observers []observer
	follow    schema.Parts // the parts of which the schema follows
	shapes    follower
	queue     []pending // emissions that have not passed the stages behind theirs
}

var _ connector.ChainSuccessor = (*Chain)(nil)

type observer struct {
	processor sdk.SettleObserver
	worker    *worker
}

// pending is an emission on its way to stage next.
type pending struct {
	next     int
	emission sdk.Emission
}

// group is an emission whose records pass the stages behind the one that made it. A record
// of it that is held again is named by the group and its index.
type group struct {
	settles []sdk.Held
	held    int // records, or pieces of one, that are held
}

// Process implements connector.Chain.
func (c *Chain) Process(ctx context.Context, token any, records []record.Record) (connector.Outcome, error) {
	var out connector.Outcome
	w := work{chain: c, budget: c.budget(), token: token, input: records, records: records, out: &out}
	if err := c.pass(ctx, &w, 0); err != nil {
		return out, err
	}
	out.Records, out.Origins = w.records, w.origins
	for len(c.queue) > 0 {
		next := c.queue[0]
		c.queue = c.queue[1:]
		if err := c.passEmission(ctx, next, &out); err != nil {
			return out, err
		}
	}
	c.queue = nil
	return out, nil
}

func (c *Chain) budget() int {
	if c.options.Budget > 0 {
		return c.options.Budget
	}
	return sdk.DefaultBudget
}

// pass runs the stages from number first on.
func (c *Chain) pass(ctx context.Context, w *work, first int) error {
	for i := first; i < len(c.stages); i++ {
		if err := c.stages[i].run(ctx, w, i); err != nil {
			return fmt.Errorf("cannot process records with %s: %w", c.stages[i].id, err)
		}
	}
	if c.schemas == nil || len(w.records) == 0 || !c.follow.Key && !c.follow.Payload {
		return nil
	}
	return c.shapes.follow(ctx, c.schemas, c.log, c.follow, w.records)
}

func (c *Chain) passEmission(ctx context.Context, p pending, out *connector.Outcome) error {
	c.stages[p.next-1].holding -= len(p.emission.Settles)
	g := &group{settles: flatten(p.emission.Settles)}
	w := work{chain: c, budget: c.budget(), group: g, input: p.emission.Records, records: p.emission.Records, out: out}
	if err := c.pass(ctx, &w, p.next); err != nil {
		return err
	}
	if w.refusedAll {
		return nil
	}
	e := sdk.Emission{Records: w.records}
	if g.held == 0 {
		e.Settles = g.settles
	}
	if len(e.Records) > 0 || len(e.Settles) > 0 {
		out.Emitted = append(out.Emitted, e)
	}
	return nil
}

// flatten returns the records of batches behind the given ones, of which some may be
// records that were emitted and held again. Those stand for what they were made of once
// the last of their emission is let go: destinations have all that went before by then,
// because they take records in order.
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
	for _, s := range c.stages {
		if d := s.deadline(); !d.IsZero() && (earliest.IsZero() || d.Before(earliest)) {
			earliest = d
		}
	}
	return earliest
}

// Observes implements connector.Chain.
func (c *Chain) Observes() bool { return len(c.observers) > 0 }

// Settled implements connector.Chain.
func (c *Chain) Settled(ctx context.Context, token any) error {
	for _, o := range c.observers {
		err := contain(func() error { return o.processor.Settled(sdk.WithEnv(ctx, o.worker.env), token) })
		if err != nil {
			return fmt.Errorf("cannot note in %s what is settled: %w", o.worker.env.ProcessorID, err)
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
	var errs []error
	for _, s := range c.stages {
		if err := s.teardown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("cannot end %s: %w", s.id, err))
		}
	}
	return errors.Join(errs...)
}
