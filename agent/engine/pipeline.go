package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec"
)

// Pipeline is one run of a pipeline: Prepare, then Run or Discard, once. While it runs
// it can be amended to other versions.
type Pipeline struct {
	Declared *spec.Pipeline // as declared, with references; the version with which the run begins
	Resolved *spec.Pipeline // the same with its references resolved
	// Recall resolves the references in settings of an earlier version. It empties settings whose references cannot be
	// resolved any more, and returns their names.
	Recall func(settings map[string]string) (resolved map[string]string, lost []string)
	// Epoch is the epoch of the claim under which a member of a cluster runs the pipeline, for the metadata of records;
	// "" without a claim.
	Epoch string
	// WaitToWrite waits until records may be written, or returns the cause of the end of ctx. If it is nil, records may
	// always be written.
	WaitToWrite func(ctx context.Context) error
	Plugins     Plugins
	Store       Store
	Committer   *Committer
	Window      backpressure.Window
	// AckTimeout is how long a destination, including the dead-letter queue, may hold records without settling any,
	// and how long a call of the Ack of a source may take; 0 for no limit. It does not apply to a destination that
	// gathers records or has a rate limit.
	AckTimeout time.Duration
	Taps       *TapPoints        // nil for no observers
	Tracer     Tracer            // nil for no traces
	Stats      *measure.Pipeline // outlives the run; Prepare creates it if it is nil
	// Redact removes secrets from an error before it becomes part of a dead letter; nil leaves errors unchanged.
	Redact func(error) error
	// Keep takes over every refused record, including the one that ends the run. It makes the record durable before
	// any checkpoint that covers it. If Keep is nil, refused records only go to the queue.
	Keep func(ctx context.Context, l *DeadLetter) error
	Log  *slog.Logger

	version      atomic.Pointer[version] // the current version of the run, or the first one before it begins
	order        []string                // ids of the destinations, by their number
	sources      []*opened[connector.Source]
	destinations []*opened[connector.Destination] // while it runs, guarded by run.replacing
	deadLetters  *opened[connector.Destination]   // while it runs, guarded by run.amending
	// until it runs, by the qualified id of the declaring pipeline or connector
	chains  map[string]connector.Chain
	running atomic.Pointer[run]
	// largest number of records that a destination may gather before it writes any, which no window may prevent
	minUnsettled atomic.Int64
}

// version is one version of a pipeline.
type version struct{ declared, resolved *spec.Pipeline }

// opened is a connector that was started for a run.
type opened[C connector.Connector] struct {
	id        string // qualified
	declared  spec.Connector
	plugin    string            // resolved
	settings  map[string]string // resolved
	batching  BatchPolicy       // of a destination
	connector C
	lifecycle bool                      // it receives lifecycle events
	opening   atomic.Bool               // it is being opened
	since     atomic.Pointer[time.Time] // when Open of a source succeeded; nil before that
}

// keepsOriginal reports whether dead letters keep the record as it was read.
func (p *Pipeline) keepsOriginal() bool {
	return p.version.Load().declared.DeadLetterQueue.KeepOriginal
}

// Prepare starts the plugins of the pipeline and hands them their settings. After an
// error nothing is left running.
func (p *Pipeline) Prepare(ctx context.Context) error {
	if err := p.layOut(ctx); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, s := range p.sources {
		g.Go(func() error { return start(gctx, p, s, p.Plugins.Source) })
	}
	for _, d := range p.destinations {
		g.Go(func() error { return p.startDestination(gctx, d) })
	}
	g.Go(func() error { return p.startDeadLetterQueue(gctx, p.deadLetters) })
	if err := g.Wait(); err != nil {
		p.Discard(ctx)
		return err
	}
	p.minUnsettled.Store(largestBatch(p.destinations))
	return nil
}

// layOut prepares the parts of the run, and starts its processors.
func (p *Pipeline) layOut(ctx context.Context) error {
	if p.Stats == nil {
		p.Stats = &measure.Pipeline{}
	}
	v := &version{p.Declared, p.Resolved}
	for _, c := range v.declared.Connectors {
		if c.Type == spec.TypeDestination {
			p.order = append(p.order, c.ID)
		}
	}
	var err error
	if p.chains, err = p.openChains(ctx, v.chains(p.order), nil); err != nil {
		return err
	}
	for i, c := range v.declared.Connectors {
		if c.Type == spec.TypeSource {
			p.sources = append(p.sources, connectorOf[connector.Source](v, i))
		} else {
			p.destinations = append(p.destinations, connectorOf[connector.Destination](v, i))
		}
	}
	p.deadLetters = v.deadLetterQueue()
	p.version.Store(v)
	return nil
}

// connectorOf prepares connector i of v.
func connectorOf[C connector.Connector](v *version, i int) *opened[C] {
	declared, resolved := v.declared.Connectors[i], &v.resolved.Connectors[i]
	return &opened[C]{id: v.declared.QualifiedID(declared.ID), declared: declared, plugin: resolved.Plugin,
		settings: resolved.Settings, lifecycle: true}
}

func (v *version) deadLetterQueue() *opened[connector.Destination] {
	return &opened[connector.Destination]{
		id:       v.declared.QualifiedID(spec.QueueID),
		plugin:   v.resolved.DeadLetterQueue.Plugin,
		settings: v.resolved.DeadLetterQueue.Settings,
	}
}

// largestBatch returns the largest number of records that a destination may gather before it writes any.
func largestBatch(destinations []*opened[connector.Destination]) (most int64) {
	for _, o := range destinations {
		most = max(most, o.batching.Size)
	}
	return most
}

// ID returns the id of the pipeline.
func (p *Pipeline) ID() string { return p.Declared.ID }

// start starts and configures one connector.
func start[C connector.Connector](
	ctx context.Context, p *Pipeline, o *opened[C], dispense func(ctx context.Context, plugin, id string) (C, error),
) error {
	c, err := dispense(ctx, o.plugin, o.id)
	if err != nil {
		return failedIn(o.id, fmt.Errorf("cannot start connector %s: %w", o.id, err))
	}
	o.connector, o.plugin = c, p.Plugins.ByName(o.plugin)
	settings := maps.Clone(o.settings)
	if settings == nil {
		settings = map[string]string{}
	}
	if err := c.Configure(ctx, settings); err != nil {
		if ctx.Err() == nil {
			err = permanentIfRefused(err)
		}
		return failedIn(o.id, fmt.Errorf("cannot configure connector %s: %w", o.id, err))
	}
	return nil
}

// startDestination starts a destination and reads its batching policy.
func (p *Pipeline) startDestination(ctx context.Context, o *opened[connector.Destination]) error {
	if err := start(ctx, p, o, p.Plugins.Destination); err != nil {
		return err
	}
	if o.isolated() == nil || o.declared.Isolate == nil { // otherwise its log takes any number of records
		o.batching = BatchPolicyOf(p.Plugins.WithDefaults(o.plugin, o.settings))
	}
	return nil
}

// startDeadLetterQueue starts a dead-letter queue. Dead letters are written one at a time.
func (p *Pipeline) startDeadLetterQueue(ctx context.Context, o *opened[connector.Destination]) error {
	if err := p.startDestination(ctx, o); err != nil {
		return err
	}
	if o.batching.NeverAlone() {
		return failedIn(o.id, Permanent(fmt.Errorf("cannot use the dead-letter queue %s: it would wait for %d "+
			"records before it writes one, but the pipeline sends one at a time; set its sdk.batch.size to 0", o.id,
			o.batching.Size)))
	}
	return nil
}

// Discard tears down what Prepare started.
func (p *Pipeline) Discard(ctx context.Context) {
	if err := p.teardown(ctx); err != nil {
		p.Log.Warn("cannot tear down", "err", err)
	}
}

// teardown ends all connectors concurrently. ctx may have ended already.
func (p *Pipeline) teardown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxTeardown)
	defer cancel()
	var g errgroup.Group
	for _, s := range p.sources {
		g.Go(func() error { return end(ctx, s) })
	}
	g.Go(func() error { return endAll(ctx, append(p.destinations, p.deadLetters)) })
	g.Go(func() error { return teardownChains(ctx, p.chains) })
	return g.Wait()
}

func endAll(ctx context.Context, all []*opened[connector.Destination]) error {
	var g errgroup.Group
	for _, d := range all {
		g.Go(func() error { return end(ctx, d) })
	}
	return g.Wait()
}

func end[C connector.Connector](ctx context.Context, o *opened[C]) error {
	if any(o.connector) == nil {
		return nil
	}
	if err := o.connector.Teardown(ctx); err != nil {
		return fmt.Errorf("cannot tear down connector %s: %w", o.id, err)
	}
	return nil
}

// Run moves records until drain is closed and all records read are settled and acknowledged, and then returns nil; or
// until an error occurs or ctx ends. It calls started once all connectors are open. When Run returns, everything that
// it started has ended, except calls of connectors that ignore the end of their context; the error then names them.
func (p *Pipeline) Run(ctx context.Context, drain <-chan struct{}, started func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{Pipeline: p, ctx: ctx, fail: cancel, drain: drain, goroutines: newGoroutines()}
	r.wire()
	defer r.releaseTaps()
	p.running.Store(r)
	defer p.running.Store(nil)
	err := errors.Join(r.begin(started),
		abandonable(r.ctx, r.deadLetters.close, func() string { return "writing to the dead-letter queue" }))
	terr := p.teardown(ctx)
	// From here on no destination settles any records.
	for _, s := range r.sources {
		s.waitSaved()
		s.releaseMemory()
	}
	// From here on processors know all commits.
	if terr = errors.Join(terr, r.endChains(ctx)); terr != nil {
		if err == nil {
			p.Log.Warn("cannot tear down", "err", terr)
		} else {
			err = errors.Join(err, terr)
		}
	}
	r.traces.end(p.redacted(err))
	return err
}

// begin opens the connectors and moves records.
func (r *run) begin(started func()) (err error) {
	if r.epoch, err = r.Store.BeginRun(r.ctx, r.ID()); err != nil {
		return err
	}
	if err := r.open(r.ctx); err != nil {
		return err
	}
	r.setAmendable(true)
	defer r.setAmendable(false) // waits for an amendment in progress
	started()
	return r.move()
}

// open sends lifecycle events to the connectors and opens them.
func (r *run) open(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	for i, o := range r.Pipeline.destinations {
		g.Go(func() error { return r.openDestination(gctx, r.Declared, o, r.dests[i].settledBy(o)) })
	}
	g.Go(func() error { return r.openDeadLetters(gctx, r.Declared) })
	if err := g.Wait(); err != nil {
		return err
	}
	g, gctx = errgroup.WithContext(ctx)
	for _, o := range r.Pipeline.sources {
		g.Go(func() error { return r.openSource(gctx, o) })
	}
	return g.Wait()
}

// notifyLifecycle sends the connector the event due at its start, if it receives events.
func notifyLifecycle[C connector.Connector](ctx context.Context, p *Pipeline, o *opened[C]) error {
	if !o.lifecycle {
		return nil
	}
	start := lifecycleStart{
		Connector: o.connector, PipelineID: p.Declared.ID, ID: o.id, Plugin: o.plugin,
		Declared: &o.declared, Settings: o.settings, Store: p.Store, Recall: p.Recall, Log: p.Log,
	}
	if err := start.Notify(ctx); err != nil {
		return failedIn(o.id, err)
	}
	return nil
}

func (r *run) openDestination(
	ctx context.Context, declared *spec.Pipeline, o *opened[connector.Destination], settled func(int, error),
) error {
	o.opening.Store(true)
	defer o.opening.Store(false)
	if err := notifyLifecycle(ctx, r.Pipeline, o); err != nil {
		return err
	}
	// Where refusals are tolerated, the connector must refuse only the records that fail.
	if c, ok := o.connector.(connector.StopAndWaiter); ok && declared.DeadLetterQueue.Tolerant() &&
		!o.batching.Gathers() {
		c.StopAndWait()
	}
	if i := o.isolated(); i != nil {
		i.RefuseTo(r.deadLetters)
	}
	if err := o.connector.Open(ctx, settled); err != nil {
		return failedIn(o.id, fmt.Errorf("cannot open destination %s: %w", o.id, err))
	}
	return nil
}

func (r *run) openDeadLetters(ctx context.Context, declared *spec.Pipeline) error {
	out := r.deadLetters.out.Load()
	return r.openDestination(ctx, declared, out.opened, r.deadLetters.settledBy(out))
}

func (r *run) openSource(ctx context.Context, o *opened[connector.Source]) error {
	o.opening.Store(true)
	defer o.opening.Store(false)
	if err := notifyLifecycle(ctx, r.Pipeline, o); err != nil {
		return err
	}
	checkpoint, err := r.Store.Checkpoint(ctx, o.id)
	if err != nil {
		return fmt.Errorf("cannot read the position of source %s: %w", o.id, err)
	}
	if err := o.connector.Open(ctx, checkpoint.PositionFor(pluginname.Bare(o.plugin))); err != nil {
		return failedIn(o.id, fmt.Errorf("cannot open source %s: %w", o.id, err))
	}
	now := time.Now()
	o.since.Store(&now)
	return nil
}
