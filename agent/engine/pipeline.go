package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// Window bounds what may be under way from one source. A batch may overshoot it.
type Window struct {
	// Unacked records are read and not yet acknowledged: as many may be repeated after a
	// crash. Of the settled ones among them only the position is kept.
	Unacked int
	// Unsettled records are held in memory until every destination has settled them.
	Unsettled int
	// Bytes is the size of the records held in memory (record.Batch.Size).
	Bytes int
}

// DefaultWindow lets a source of a million small records a second run on between two
// commits, and keeps what waits for the destinations small.
var DefaultWindow = Window{Unacked: 1 << 17, Unsettled: 1 << 13, Bytes: 16 << 20}

// teardownTimeout is how long the end of a connector may take.
const teardownTimeout = 30 * time.Second

// Pipeline is one run of one version of a pipeline: Prepare, then Run or Discard, once.
type Pipeline struct {
	Declared *spec.Pipeline // as declared, references in it
	Resolved *spec.Pipeline // the same with its references resolved
	// Resolve resolves the references in settings of an earlier version.
	Resolve   func(settings map[string]string) (map[string]string, error)
	Plugins   Plugins
	Store     Store
	Committer *Committer
	Window    Window
	// AckTimeout is how long a destination may hold records without settling any, 0 for
	// ever. It does not count for one that gathers records or is to go slowly.
	AckTimeout time.Duration
	Taps       *Taps          // nil when nobody is to observe
	Stats      *PipelineStats // outlives the run; Prepare makes one when it is nil
	Log        *slog.Logger

	sources      []*opened[Source]
	destinations []*opened[Destination]
	dlq          *opened[Destination]
	processors   map[string][]Processor // by the qualified id of the source whose records they see
	running      atomic.Pointer[run]
	gathered     int // records that a destination may wait for before it writes any
}

// batchSize is the setting by which a destination gathers records and, without
// sdk.batch.delay, settles none before it has as many.
const batchSize = "sdk.batch.size"

// ratePerSecond is the setting by which a destination goes slowly.
const ratePerSecond = "sdk.rate.perSecond"

// batchDelay is the setting by which a destination gathers records for a time.
const batchDelay = "sdk.batch.delay"

// opened is a connector that was started for a run.
type opened[C Connector] struct {
	id        string // qualified
	declared  spec.Connector
	plugin    string            // resolved
	settings  map[string]string // resolved
	connector C
	lifecycle bool // gets lifecycle events
}

// Prepare starts the plugins of the pipeline and hands them their settings. After an
// error nothing is left running.
func (p *Pipeline) Prepare(ctx context.Context) error {
	if err := p.plan(ctx); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, s := range p.sources {
		g.Go(func() error { return start(gctx, s, p.Plugins.Source) })
	}
	for _, d := range append(p.destinations, p.dlq) {
		g.Go(func() error { return start(gctx, d, p.Plugins.Destination) })
	}
	if err := g.Wait(); err != nil {
		p.Discard(ctx)
		return err
	}
	return nil
}

// plan lays out what the run consists of.
func (p *Pipeline) plan(ctx context.Context) error {
	p.processors = map[string][]Processor{}
	if p.Stats == nil {
		p.Stats = &PipelineStats{}
	}
	common, err := p.startProcessors(ctx, p.ID(), p.Resolved.Processors)
	if err != nil {
		return err
	}
	for i, c := range p.Declared.Connectors {
		id := p.Declared.QualifiedID(c.ID)
		plugin, settings := p.Resolved.Connectors[i].Plugin, p.Resolved.Connectors[i].Settings
		own, err := p.startProcessors(ctx, id, p.Resolved.Connectors[i].Processors)
		if err != nil {
			return err
		}
		if c.Type == spec.TypeSource {
			p.processors[id] = append(own, common...)
			p.sources = append(p.sources, &opened[Source]{id: id, declared: c, plugin: plugin, settings: settings, lifecycle: true})
		} else {
			if len(own) > 0 {
				return permanent(fmt.Errorf("cannot start connector %s: processors of a destination are not supported, attach them to the pipeline or to a source", id))
			}
			n, _ := strconv.Atoi(settings[batchSize]) // the connector refuses what is no number
			p.gathered = max(p.gathered, n)
			p.destinations = append(p.destinations, &opened[Destination]{id: id, declared: c, plugin: plugin, settings: settings, lifecycle: true})
		}
	}
	p.dlq = &opened[Destination]{
		id:       p.Declared.QualifiedID("dead-letter-queue"),
		plugin:   p.Resolved.DLQ.Plugin,
		settings: p.Resolved.DLQ.Settings,
	}
	return nil
}

// ID returns the id of the pipeline.
func (p *Pipeline) ID() string { return p.Declared.ID }

func (p *Pipeline) startProcessors(ctx context.Context, parent string, declared []spec.Processor) ([]Processor, error) {
	var processors []Processor
	for _, d := range declared {
		processor, err := p.Plugins.Processor(ctx, parent+":"+d.ID, d)
		if err != nil {
			return nil, fmt.Errorf("cannot start processor %s:%s: %w", parent, d.ID, err)
		}
		processors = append(processors, processor)
	}
	return processors, nil
}

// start starts and configures one connector.
func start[C Connector](ctx context.Context, o *opened[C], dispense func(ctx context.Context, plugin, id string) (C, error)) error {
	c, err := dispense(ctx, o.plugin, o.id)
	if err != nil {
		return fmt.Errorf("cannot start connector %s: %w", o.id, err)
	}
	o.connector = c
	settings := maps.Clone(o.settings)
	if settings == nil {
		settings = map[string]string{}
	}
	if err := c.Configure(ctx, settings); err != nil {
		if ctx.Err() == nil {
			err = refused(err)
		}
		return fmt.Errorf("cannot configure connector %s: %w", o.id, err)
	}
	return nil
}

// Discard tears down what Prepare started.
func (p *Pipeline) Discard(ctx context.Context) {
	if err := p.teardown(ctx); err != nil {
		p.Log.Warn("cannot tear down", "err", err)
	}
}

// teardown ends every connector, all at the same time. ctx may have ended already.
func (p *Pipeline) teardown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTimeout)
	defer cancel()
	var g errgroup.Group
	for _, s := range p.sources {
		g.Go(func() error { return end(ctx, s) })
	}
	for _, d := range append(p.destinations, p.dlq) {
		g.Go(func() error { return end(ctx, d) })
	}
	return g.Wait()
}

func end[C Connector](ctx context.Context, o *opened[C]) error {
	if any(o.connector) == nil {
		return nil
	}
	if err := o.connector.Teardown(ctx); err != nil {
		return fmt.Errorf("cannot tear down connector %s: %w", o.id, err)
	}
	return nil
}

// Run moves records until drain is closed and everything read is settled and
// acknowledged, which gives nil, or until something fails or ctx ends. started is
// called once all connectors are open. When Run returns, all it started has ended.
func (p *Pipeline) Run(ctx context.Context, drain <-chan struct{}, started func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{Pipeline: p, ctx: ctx, fail: cancel, drain: drain}
	r.wire()
	p.running.Store(r)
	defer p.running.Store(nil)
	err := r.begin(started)
	if terr := p.teardown(ctx); terr != nil {
		if err == nil {
			p.Log.Warn("cannot tear down", "err", terr)
		} else {
			err = errors.Join(err, terr)
		}
	}
	// Only now no destination settles anything any more.
	for _, s := range r.sources {
		s.waitSaved()
	}
	return err
}

// begin opens the connectors and moves records.
func (r *run) begin(started func()) (err error) {
	if r.epoch, err = r.Store.BeginRun(r.ctx, r.ID()); err != nil {
		return fmt.Errorf("cannot begin a run of pipeline %s: %w", r.ID(), err)
	}
	if err := r.open(r.ctx); err != nil {
		return err
	}
	started()
	return r.move()
}

// open notifies the connectors of what happened in their lives and opens them.
func (r *run) open(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	for i, o := range r.Pipeline.destinations {
		g.Go(func() error { return r.openDestination(gctx, o, r.dests[i].settled) })
	}
	g.Go(func() error { return r.openDestination(gctx, r.Pipeline.dlq, r.dlq.settled) })
	if err := g.Wait(); err != nil {
		return err
	}
	g, gctx = errgroup.WithContext(ctx)
	for _, o := range r.Pipeline.sources {
		g.Go(func() error { return r.openSource(gctx, o) })
	}
	return g.Wait()
}

func (r *run) openDestination(ctx context.Context, o *opened[Destination], settled func(int, error)) error {
	if err := notifyLifecycle(ctx, r.Pipeline, o); err != nil {
		return err
	}
	// Where refusals are tolerated, only the records that fail are to be refused.
	if c, ok := o.connector.(Careful); ok && r.tolerant() && !gathers(o.settings) {
		c.AwaitEachWrite()
	}
	if err := o.connector.Open(ctx, settled); err != nil {
		return fmt.Errorf("cannot open destination %s: %w", o.id, err)
	}
	return nil
}

// tolerant reports whether the pipeline goes on when a record is refused.
func (r *run) tolerant() bool {
	q := r.Declared.DLQ
	return q.WindowSize == 0 || q.WindowNackThreshold > 0
}

// gathers reports whether settings make a destination gather records over writes.
func gathers(settings map[string]string) bool {
	return settings[batchSize] != "" || settings[batchDelay] != ""
}

func (r *run) openSource(ctx context.Context, o *opened[Source]) error {
	if err := notifyLifecycle(ctx, r.Pipeline, o); err != nil {
		return err
	}
	var position record.Position
	position, err := r.Store.Position(ctx, o.id)
	if err != nil {
		return fmt.Errorf("cannot read the position of source %s: %w", o.id, err)
	}
	if err := o.connector.Open(ctx, position); err != nil {
		return fmt.Errorf("cannot open source %s: %w", o.id, err)
	}
	return nil
}
