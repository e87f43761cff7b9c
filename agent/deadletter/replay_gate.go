package deadletter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// gate is a connector.Chain that replaces a chain of the pipeline. A dead letter passes only the remaining processors.
// All records of a batch have the same route.
type gate struct {
	place  place
	routes *routes
	parent func(r route) (connector string, declared []spec.Processor) // processors for a route
	open   func(ctx context.Context, connector string, declared []spec.Processor) (connector.Chain, error)
	chains map[part]connector.Chain
	tokens map[any]connector.Chain      // by token, for batches whose chain waits for the commit
	number func(destination string) int // in the set of the destinations of a record
}

// part is the list of processors of a connector from an index on.
type part struct {
	connector string
	from      int
}

// Process implements connector.Chain.
func (g *gate) Process(ctx context.Context, token any, records []record.Record) (connector.Outcome, error) {
	if len(records) == 0 {
		return g.wake(ctx)
	}
	r := g.routes.get(records[0].Position)
	parent, declared := g.parent(r)
	from, ok := r.through(g.place, parent, len(declared))
	switch {
	case !ok || g.place == atDestination && r.only != "" && r.only != parent && g.allGoTo(r.only, records):
		return connector.Outcome{Origins: []int32{}}, nil
	case from >= len(declared):
		return connector.Outcome{Records: records}, nil
	}
	chain, err := g.chain(ctx, part{parent, from}, declared)
	if err != nil {
		return connector.Outcome{}, err
	}
	if chain.Observes() {
		g.tokens[token] = chain
	}
	return chain.Process(ctx, token, records)
}

// allGoTo reports whether all records go to a destination.
func (g *gate) allGoTo(destination string, records []record.Record) bool {
	n := g.number(destination)
	return !slices.ContainsFunc(records, func(r record.Record) bool { return !r.GoesTo(n) })
}

// chain returns the chain of a part, and opens it for the first record.
func (g *gate) chain(ctx context.Context, p part, declared []spec.Processor) (connector.Chain, error) {
	if chain := g.chains[p]; chain != nil {
		return chain, nil
	}
	chain, err := g.open(ctx, p.connector, declared[p.from:])
	if err == nil {
		g.chains[p] = chain
	}
	return chain, err
}

// wake lets the chains emit whose deadline has passed.
func (g *gate) wake(ctx context.Context) (all connector.Outcome, err error) {
	for _, chain := range g.chains {
		out, err := chain.Process(ctx, nil, nil)
		if err != nil {
			return all, err
		}
		all.Refused = append(all.Refused, out.Refused...)
		all.Emitted = append(all.Emitted, out.Emitted...)
	}
	return all, nil
}

// Releasable implements connector.ChainReleaser.
func (g *gate) Releasable() bool {
	for _, chain := range g.chains {
		if r, ok := chain.(connector.ChainReleaser); ok && r.Releasable() {
			return true
		}
	}
	return false
}

// Release implements connector.ChainReleaser.
func (g *gate) Release(ctx context.Context) (all connector.Outcome, err error) {
	for _, chain := range g.chains {
		r, ok := chain.(connector.ChainReleaser)
		if !ok {
			continue
		}
		out, err := r.Release(ctx)
		if err != nil {
			return all, err
		}
		all.Refused = append(all.Refused, out.Refused...)
		all.Emitted = append(all.Emitted, out.Emitted...)
	}
	return all, nil
}

// Unfinished implements connector.ChainSplitter.
func (g *gate) Unfinished() bool {
	for _, chain := range g.chains {
		if c, ok := chain.(connector.ChainSplitter); ok && c.Unfinished() {
			return true
		}
	}
	return false
}

// Deadline implements connector.Chain.
func (g *gate) Deadline() (earliest time.Time) {
	for _, chain := range g.chains {
		if d := chain.Deadline(); !d.IsZero() && (earliest.IsZero() || d.Before(earliest)) {
			earliest = d
		}
	}
	return earliest
}

// Observes implements connector.Chain.
func (g *gate) Observes() bool { return len(g.tokens) > 0 }

// Committed implements connector.Chain.
func (g *gate) Committed(ctx context.Context, tokens []any) error {
	groups := map[connector.Chain][]any{}
	for _, t := range tokens {
		if chain := g.tokens[t]; chain != nil {
			delete(g.tokens, t)
			groups[chain] = append(groups[chain], t)
		}
	}
	for chain, tokens := range groups {
		if err := chain.Committed(ctx, tokens); err != nil {
			return err
		}
	}
	return nil
}

// Holding implements connector.Chain.
func (g *gate) Holding() (n int) {
	for _, chain := range g.chains {
		n += chain.Holding()
	}
	return n
}

// Teardown implements connector.Chain.
func (g *gate) Teardown(ctx context.Context) error {
	var errs []error
	for _, chain := range g.chains {
		errs = append(errs, chain.Teardown(ctx))
	}
	return errors.Join(errs...)
}
