// Package runner makes runs of declared pipelines: it resolves references, starts plugins through the host, and gives
// both to the engine. Values of references stay out of the logs and reports of a run.
package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/agent/redact"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

var (
	_ reconcile.Runner    = (*Runner)(nil)
	_ reconcile.Run       = (*run)(nil)
	_ reconcile.Amendment = (*amendment)(nil)
	_ engine.Plugins      = dispenser{}
)

// Runner makes runs. Set the exported fields before use.
type Runner struct {
	Catalog    *catalog.Catalog
	References *reference.Resolver
	Store      engine.Store
	Committer  *engine.Committer
	Taps       *engine.TapPoints
	Tracer     engine.Tracer // nil for no traces
	// Keep takes over the records that the version d of a pipeline refuses; nil: they are not kept.
	Keep func(ctx context.Context, d *spec.Declaration, l *engine.DeadLetter) error
	// Instance returns the number, from 1, of the instance of a pipeline that this agent runs; nil: there is only one.
	Instance func(pipelineID string) int
	// Epoch returns the epoch of the claim under which this agent runs a pipeline, false when there is none; nil:
	// there never is one.
	Epoch func(pipelineID string) (epoch uint64, ok bool)
	// WaitToWrite waits until a run that began with a claim may write its next records, or ctx has ended; nil: the run
	// may always write.
	WaitToWrite func(ctx context.Context, pipelineID string) error
	Window      backpressure.Window
	AckTimeout  time.Duration
	// ProcessorTimeout is how long a processor may take for a record; 0 for no limit.
	ProcessorTimeout time.Duration
	// Budget is the memory in bytes that processors may allocate for one record; 0 means sdk.DefaultBudget.
	Budget   int
	StateDir string // state of processors, a directory for each pipeline; "" for none
	Log      *slog.Logger
	// Isolation makes destinations that hold up no other destination; nil: the binary contains none.
	Isolation Isolation

	starts   tally // of connectors, by plugin
	restarts tally // of connectors that ran before, by plugin

	mu      sync.Mutex
	running map[string]*engine.Pipeline  // by pipeline id; guarded by mu
	stats   map[string]*measure.Pipeline // by pipeline id; guarded by mu

	processors map[string]*processorStats // by pipeline id; guarded by mu

	logged map[string]*deadLetterLog // by pipeline id; guarded by mu

	poison Guard
}

// Prepare prepares a run of the pipeline of d.
func (r *Runner) Prepare(ctx context.Context, d *spec.Declaration) (reconcile.Run, error) {
	o, err := r.assemble(ctx, d)
	if err != nil {
		return nil, err
	}
	if err := r.checkInstances(d, o.resolved.Pipeline); err != nil {
		return nil, o.secrets.Error(err)
	}
	if o.Pipeline.Resolved, err = r.divided(o.resolved.Pipeline); err != nil {
		return nil, err
	}
	if err := o.Pipeline.Prepare(ctx); err != nil {
		return nil, r.refused(d, o.secrets.Error(err), o.resolved.Pipeline)
	}
	return o, nil
}

// Assemble returns an unprepared run of the engine for the pipeline of d, and the redactor for its errors. The
// processors of the run keep no state, its destinations have no logs, and the run continues without a claim.
func (r *Runner) Assemble(ctx context.Context, d *spec.Declaration) (*engine.Pipeline, func(error) error, error) {
	o, err := r.assemble(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	plugins := o.Pipeline.Plugins.(dispenser)
	plugins.chains.StateDir, plugins.isolated = "", nil
	o.Pipeline.Plugins, o.Pipeline.WaitToWrite = plugins, nil
	return o.Pipeline, o.secrets.Error, nil
}

// assemble makes a run that is not prepared.
func (r *Runner) assemble(ctx context.Context, d *spec.Declaration) (*run, error) {
	resolved, err := r.resolve(ctx, d)
	if err != nil {
		return nil, err
	}
	o := &run{runner: r, resolved: resolved}
	o.declared.Store(d)
	o.current.Set(&resolved.Secrets)
	o.secrets.Set(&resolved.Secrets)
	log := slog.New(o.secrets.Handler(r.Log.Handler()))
	stats, epoch := r.statsOf(d.Pipeline.ID), r.epochOf(d.Pipeline.ID)
	o.tolerant.Store(d.Pipeline.DeadLetterQueue.Tolerant())
	o.version.Store(&d.Pipeline)
	o.Pipeline = &engine.Pipeline{
		Declared: &d.Pipeline,
		Resolved: resolved.Pipeline,
		Recall:   o.recall,
		Plugins: dispenser{r.Catalog.Host, &o.secrets, func(plugin, id string) { r.started(plugin, stats.Ran(id)) },
			r.chains(&d.Pipeline, log), o.guard, r.instanceOf(d.Pipeline.ID), r.deadLetterLogOf(d.Pipeline.ID), stats,
			o.isolated},
		Store:       r.Store,
		Epoch:       epoch,
		WaitToWrite: waitToWriteOf(r.WaitToWrite, d.Pipeline.ID, epoch),
		Committer:   r.Committer,
		Window:      r.Window,

		AckTimeout: r.AckTimeout,
		Taps:       r.Taps,
		Tracer:     r.Tracer,
		Stats:      stats,
		Redact:     o.secrets.Error,
		Keep:       o.keep,
		Log:        log.With("component", "engine", "pipeline_id", d.Pipeline.ID),
	}
	return o, nil
}

// resolve resolves the references of the pipeline of d.
func (r *Runner) resolve(ctx context.Context, d *spec.Declaration) (*reference.Resolution, error) {
	resolved, problems := r.References.Resolve(ctx, d)
	if len(problems) > 0 {
		err := fmt.Errorf("cannot resolve references of pipeline %s: %w", d.Pipeline.ID, joined(problems))
		if resolved.Permanent {
			err = engine.Permanent(err)
		}
		return nil, r.located(d, err, func(*spec.Pipeline) []spec.Problem { return problems })
	}
	return resolved, nil
}

// Delete sends LifecycleOnDeleted to a connector that was removed, or whose plugin was replaced.
func (r *Runner) Delete(ctx context.Context, c *spec.ConnectorState) error {
	id, superseded := c.ConnectorID()
	if superseded {
		switch current, err := r.Store.ConnectorState(ctx, id); {
		case err != nil:
			return err
		case current != nil && pluginname.Bare(current.Plugin) == pluginname.Bare(c.Plugin):
			return nil // its former plugin is in use again
		}
	}
	var secrets redact.Redactor
	settings, lost := r.References.Recall(c.Active, &secrets)
	if len(lost) > 0 {
		r.Log.Warn("cannot resolve references in the settings of a removed connector, its deletion event has "+
			"them empty",
			"component", "agent", "pipeline_id", c.PipelineID, "connector_id", c.ID, "settings", lost)
	}
	gone, err := r.dispense(ctx, c.Type, c.Plugin, id, &secrets, r.instanceOf(c.PipelineID))
	if err != nil {
		return fmt.Errorf("cannot delete connector %s: %w", c.ID, err)
	}
	err = gone.LifecycleOnDeleted(ctx, settings)
	if err = errors.Join(err, gone.Teardown(ctx)); err != nil {
		return fmt.Errorf("cannot delete connector %s: %w", c.ID, secrets.Error(err))
	}
	if r.Isolation == nil {
		return nil
	}
	return r.Isolation.Discard(c, r.Log)
}

// Configure lets a new instance of a plugin accept settings without references, and tears it down. It returns the
// error of a plugin that refuses them.
func (r *Runner) Configure(
	ctx context.Context, typ spec.ConnectorType, plugin string, settings map[string]string, secrets *redact.Redactor,
) error {
	c, err := r.dispense(ctx, typ, plugin, "validate-"+string(typ)+"-config", secrets, 0)
	if err != nil {
		return err
	}
	err = c.Configure(ctx, settings)
	if terr := c.Teardown(ctx); err == nil {
		err = terr
	}
	return err
}

// started counts a started connector; again says that it ran before.
func (r *Runner) started(plugin string, again bool) {
	r.starts.add(plugin)
	if again {
		r.restarts.add(plugin)
	}
}

// Running returns the running pipelines, by id.
func (r *Runner) Running() map[string]*engine.Pipeline {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.running)
}

// Stats returns the counters of each pipeline over all its runs, by id.
func (r *Runner) Stats() map[string]*measure.Pipeline {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.stats)
}

// Pipeline returns a pipeline if it runs, and its counters over all its runs. Either is nil if it does not exist.
func (r *Runner) Pipeline(id string) (*engine.Pipeline, *measure.Pipeline) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running[id], r.stats[id]
}

// Starts returns how many connectors were started, by plugin.
func (r *Runner) Starts() map[string]uint64 { return r.starts.all() }

// Restarts returns how many connectors that had run before were started for a run, by plugin.
func (r *Runner) Restarts() map[string]uint64 { return r.restarts.all() }

// Forget discards the counters of a deleted pipeline.
func (r *Runner) Forget(id string) {
	r.poison.Forget(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.stats, id)
	delete(r.processors, id)
	delete(r.logged, id)
}

// statsOf returns the counters for all runs of a pipeline.
func (r *Runner) statsOf(id string) *measure.Pipeline {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stats == nil {
		r.stats = map[string]*measure.Pipeline{}
	}
	if r.stats[id] == nil {
		r.stats[id] = &measure.Pipeline{}
	}
	return r.stats[id]
}

// deadLetterLogOf returns the bound of the log lines about dead letters of a pipeline, nil when they are kept nowhere
// else.
func (r *Runner) deadLetterLogOf(id string) *deadLetterLog {
	if r.Keep == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logged == nil {
		r.logged = map[string]*deadLetterLog{}
	}
	if r.logged[id] == nil {
		r.logged[id] = newDeadLetterLog()
	}
	return r.logged[id]
}

func (r *Runner) setRunning(id string, p *engine.Pipeline) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == nil {
		r.running = map[string]*engine.Pipeline{}
	}
	r.running[id] = p
}

func (r *Runner) unsetRunning(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, id)
}
