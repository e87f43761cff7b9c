package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/spec"
)

// errNotRunning is the error when there is no run to amend, or no longer one.
var errNotRunning = errors.New("it is not running")

// Amendment changes a run to another version without a restart. It holds the connectors and processors that the
// version replaces, configured and ready to open. The caller calls either Apply or Discard, once.
type Amendment struct {
	p            *Pipeline
	from, to     *version
	destinations map[string]*opened[connector.Destination] // the replaced ones, by qualified id
	deadLetters  *opened[connector.Destination]            // nil if it stays
	// the replaced ones, by the qualified id of the declaring object; nil for none
	chains map[string]connector.Chain
}

// Amend starts the plugins that another version of the pipeline changes and hands them their settings. It does not
// touch the run. After an error no new plugin is left running; spec.ErrNeedsRestart says that the run cannot become
// that version.
func (p *Pipeline) Amend(ctx context.Context, declared, resolved *spec.Pipeline) (*Amendment, error) {
	a := &Amendment{p: p, from: p.version.Load(), to: &version{declared, resolved},
		destinations: map[string]*opened[connector.Destination]{}}
	if a.effect().Severity() > spec.EffectRestartDestination.Severity() {
		return nil, spec.ErrNeedsRestart
	}
	if err := a.prepare(ctx); err != nil {
		a.Discard(ctx)
		return nil, err
	}
	return a, nil
}

// effect returns the effect of the amendment on the run. The value of a reference may have changed although the
// reference has not.
func (a *Amendment) effect() spec.Effect {
	declared, resolved := spec.EffectOf(a.from.declared, a.to.declared), spec.EffectOf(a.from.resolved, a.to.resolved)
	if declared.Severity() > resolved.Severity() {
		return declared
	}
	return resolved
}

// prepare starts the new connectors and processors.
func (a *Amendment) prepare(ctx context.Context) (err error) {
	a.layOut()
	changed, r := changedChains(a.from, a.to, a.p.order), a.p.running.Load()
	if len(changed) > 0 && (len(a.destinations) > 0 || a.deadLetters != nil) {
		return spec.ErrNeedsRestart // records queued for a destination have passed the old chains
	}
	if a.chains, err = a.p.openChains(ctx, changed, r); err != nil {
		return err
	}
	if r != nil && !a.accepted(r) {
		return spec.ErrNeedsRestart
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, o := range a.destinations {
		g.Go(func() error { return a.p.startDestination(gctx, o) })
	}
	if a.deadLetters != nil {
		g.Go(func() error { return a.p.startDeadLetterQueue(gctx, a.deadLetters) })
	}
	return g.Wait()
}

// layOut lays out the destinations and the dead-letter queue that are replaced.
func (a *Amendment) layOut() {
	tolerance := a.from.declared.DeadLetterQueue.Tolerant() != a.to.declared.DeadLetterQueue.Tolerant()
	for i, c := range a.to.declared.Connectors {
		if c.Type != spec.TypeDestination {
			continue
		}
		o := connectorOf[connector.Destination](a.to, i)
		if !sameConnector(a.from, a.to, c.ID) ||
			tolerance && !BatchPolicyOf(a.p.Plugins.WithDefaults(o.plugin, o.settings)).Gathers() {
			a.destinations[o.id] = o
		}
	}
	if !a.from.declared.DeadLetterQueue.SameQueue(&a.to.declared.DeadLetterQueue) ||
		!a.from.resolved.DeadLetterQueue.SameQueue(&a.to.resolved.DeadLetterQueue) {
		a.deadLetters = a.to.deadLetterQueue()
	}
}

// accepted reports whether the new chains can replace the old ones without a restart: a chain must not lose records or
// state that it holds.
func (a *Amendment) accepted(r *run) bool {
	return !slices.ContainsFunc(r.stages(), func(st stage) bool {
		chain, ok := a.chains[st.ID]
		return ok && !st.Accepts(chain)
	})
}

// all returns the connectors that the amendment puts in place.
func (a *Amendment) all() []*opened[connector.Destination] {
	all := slices.Collect(maps.Values(a.destinations))
	if a.deadLetters != nil {
		all = append(all, a.deadLetters)
	}
	return all
}

// sameConnector reports whether connector id is the same in both versions, as declared
// and as resolved.
func sameConnector(a, b *version, id string) bool {
	same := func(a, b *spec.Pipeline) bool {
		find := func(p *spec.Pipeline) spec.Connector {
			return p.Connectors[slices.IndexFunc(p.Connectors, func(c spec.Connector) bool { return c.ID == id })]
		}
		x, y := find(a), find(b)
		return x.SameSystem(&y)
	}
	return same(a.declared, b.declared) && same(a.resolved, b.resolved)
}

// Discard tears down what Amend started.
func (a *Amendment) Discard(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxTeardown)
	defer cancel()
	if err := errors.Join(endAll(ctx, a.all()), teardownChains(ctx, a.chains)); err != nil {
		a.p.Log.Warn("cannot tear down", "err", err)
	}
}

// Apply changes the run to the new version. The destinations that it replaces settle the records written to them and
// are torn down; then Apply calls drained, opens the new destinations and gives them the queued batches. Sources keep
// reading as far as the window allows. After an error the run ends with that error, unless it has ended or failed
// already; after spec.ErrNeedsRestart it continues unchanged. Apply does not outlast the run.
func (a *Amendment) Apply(drained func()) error {
	err := a.apply(drained)
	if err != nil {
		return fmt.Errorf("cannot change pipeline %s while it runs: %w", a.p.ID(), err)
	}
	return nil
}

func (a *Amendment) apply(drained func()) error {
	r := a.p.running.Load()
	if r == nil {
		a.Discard(context.Background())
		return errNotRunning
	}
	r.amending.Lock()
	defer r.amending.Unlock()
	if !r.amendable || a.p.version.Load() != a.from {
		a.Discard(r.ctx)
		return errNotRunning
	}
	if !a.accepted(r) { // the chain may have changed since it was prepared
		a.Discard(r.ctx)
		return spec.ErrNeedsRestart
	}
	released := make(chan struct{})
	defer close(released)
	a.pause(r, released)
	if a.deadLetters != nil {
		r.deadLetters.write.Lock()
		defer r.deadLetters.write.Unlock()
	}
	if err := context.Cause(r.ctx); err != nil {
		a.Discard(r.ctx)
		return err
	}
	a.swap(r)
	if err := context.Cause(r.ctx); err != nil {
		return err
	}
	drained()
	if err := a.open(r); err != nil {
		r.fail(err)
		return err
	}
	if err := a.adopt(r); err != nil {
		r.fail(err)
		return err
	}
	return nil
}

// pause returns when the replaced destinations have settled all records and receive no more, or the run has failed.
func (a *Amendment) pause(r *run, released <-chan struct{}) {
	var pausing sync.WaitGroup
	for _, d := range r.dests {
		if a.destinations[d.id] != nil {
			pausing.Go(func() {
				if err := d.pause(r.ctx, released); err != nil {
					r.fail(err)
				}
			})
		}
	}
	pausing.Wait()
}

// swap replaces the old connectors by the new ones and tears down the old ones. From then on the run owns the new
// ones.
func (a *Amendment) swap(r *run) {
	var old []*opened[connector.Destination]
	for i, d := range r.dests {
		if o := a.destinations[d.id]; o != nil {
			old = append(old, d.out.Swap(o))
			r.keep(i, o)
		}
	}
	if a.deadLetters != nil {
		old = append(old, a.p.deadLetters)
		a.p.deadLetters = a.deadLetters
		r.deadLetters.out.Store(newDeadLetterWriter(a.deadLetters))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), maxTeardown)
	defer cancel()
	if err := endAll(ctx, old); err != nil {
		a.p.Log.Warn("cannot tear down", "err", err)
	}
}

// open opens the new connectors.
func (a *Amendment) open(r *run) error {
	g, ctx := errgroup.WithContext(r.ctx)
	for _, d := range r.dests {
		if o := a.destinations[d.id]; o != nil {
			g.Go(func() error { return r.openDestination(ctx, a.to.declared, o, d.settledBy(o)) })
		}
	}
	if a.deadLetters != nil {
		g.Go(func() error { return r.openDeadLetters(ctx, a.to.declared) })
	}
	return g.Wait()
}

// adopt applies the changes of the new version other than those of destinations.
func (a *Amendment) adopt(r *run) error {
	before, after := &a.from.declared.DeadLetterQueue, &a.to.declared.DeadLetterQueue
	if before.WindowSize != after.WindowSize || before.WindowNackThreshold != after.WindowNackThreshold {
		r.deadLetters.setWindow(after)
	}
	r.replacing.Lock()
	a.p.minUnsettled.Store(largestBatch(a.p.destinations))
	r.replacing.Unlock()
	for _, s := range r.sources {
		s.freed.Notify()
	}
	if err := a.exchange(r); err != nil {
		return err
	}
	a.p.version.Store(a.to)
	return nil
}

// exchange replaces the old chains by the new ones, each between two batches.
func (a *Amendment) exchange(r *run) error {
	if a.to.declared.Routed() {
		r.routed.Store(true)
	}
	former := map[string]connector.Chain{}
	var err error
	for _, st := range r.stages() {
		chain, ok := a.chains[st.ID]
		if !ok {
			continue
		}
		if former[st.ID], ok = st.Install(chain); !ok {
			former[st.ID], err = chain, fmt.Errorf("cannot replace the processors of %s: they hold records",
				st.ID)
		} else if chain != nil && !slices.ContainsFunc(r.dests, func(d *destinationRun) bool { return d.stage == st }) {
			r.startTending(st)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), maxTeardown)
	defer cancel()
	if terr := teardownChains(ctx, former); terr != nil {
		a.p.Log.Warn("cannot tear down", "err", terr)
	}
	return err
}
