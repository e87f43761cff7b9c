package agent

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/delivery"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/agent/process"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/agent/runner"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/agent/telemetry/trend"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/files"
	"github.com/conduit-agent/conduit/reconcile/plan"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

var (
	_ reconcile.Store = (*store.DB)(nil)
	_ engine.Store    = (*store.DB)(nil)
)

// wire creates the parts and connects them.
func (a *Agent) wire() {
	c, log := a.options.Config, a.options.Log
	a.Store.Retention = (*store.Retention)(&c.DB.History)
	w := window(process.MemoryLimitOf(c.Memory.Limit))
	a.ownDeadLetters = &deadletter.Store{
		Memory: func() deadletter.Memory { return w.Shared.Part(backpressure.DeadLetters).Holder() },
		Path:   deadletter.PathOf(c.DB.SQLite.Path),
		Limits: deadletter.Limits(c.DeadLetters),
		Log:    log,
	}
	a.deadLetters, a.desired = a.ownDeadLetters, ownStore{a.Store, a.ownDeadLetters}
	syncs := &plugins.SyncGroup{}
	a.Committer = &engine.Committer{Store: a.Store, Before: a.ownDeadLetters.Before, CommitInterval: c.DB.CommitInterval,
		Barrier: syncs}
	a.Catalog = catalog.New(a.options.Plugins, c, a.schemas.Registry, func() {
		a.Loop.Retry()
		a.plugged.Notify()
	}, log)
	a.Catalog.Executables.Prepare() // before the first command of a connector is started
	a.Catalog.Executables.Bounds.PipelineOf = a.startedPipelineOf
	a.Catalog.Host.Syncs = syncs
	a.Catalog.Host.Buffer = buffers(w.Shared)
	a.Catalog.Host.Budget = budget(w.Shared)
	a.Catalog.Host.StateDir = func(connectorID string) string {
		return filepath.Join(c.DB.SQLite.Path+".sources", texts.PathElement(connectorID))
	}
	a.Catalog.Executables.Watch = (&watch.Trigger{Log: log}).Run
	a.references = &reference.Resolver{Apply: func(ctx context.Context, id string) error {
		return a.Loop.Reapply(ctx, id)
	}, Log: log, Watch: watch.Trigger{Log: log}}
	paths := catalog.NewPaths(c)
	a.references.Kinds = a.options.References
	a.references.Access = spec.ReferenceAccess{File: paths.Check, Credential: paths.CheckCredential}
	a.Runner = &runner.Runner{
		Catalog:    a.Catalog,
		References: a.references,
		Store:      a.Store,
		Committer:  a.Committer,
		Taps:       &a.taps,
		Tracer:     a.exporter.Tracer(),
		Keep:       a.ownDeadLetters.Keep,
		Window:     w,
		AckTimeout: c.Pipelines.AckTimeout,

		ProcessorTimeout: c.Processors.Timeout,
		Budget:           budget(w.Shared),
		StateDir:         c.DB.SQLite.Path + ".processors",
		Log:              log,
	}
	if a.options.Isolate != nil {
		a.Runner.Isolation = a.options.Isolate(runner.IsolationSetup{Store: c.DB.SQLite.Path,
			Delay: policy(c.Pipelines).Delay, Apply: a.Store.Apply})
	}
	a.replays = &deadletter.Replays{
		DeadLetters: a.ownDeadLetters,
		Store:       a.Store,
		Declared:    a.Store.Get,
		Assemble:    a.Runner.Assemble,
		Log:         log,
	}
	a.wireReconcilers()
	a.wireTelemetry()
	a.wireGuard()
	a.wireStatusFiles()
	a.wireEvents()
}

// wireReconcilers connects the reconcilers: from files to desired state, and from desired state to running pipelines.
func (a *Agent) wireReconcilers() {
	c, log := a.options.Config, a.options.Log
	a.Loop = &reconcile.Loop{
		Store:           a.Store,
		Runner:          a.Runner,
		Policy:          policy(c.Pipelines),
		Log:             log,
		RunDigest:       spec.RunDigest,
		ShutdownTimeout: c.Shutdown.Timeout,
		SaveInterval:    c.DB.CommitInterval,
	}
	a.Files = &files.Reconciler{
		Store: a.Store,
		Watch: &watch.Watcher{Dir: c.Pipelines.Path, Log: log},
		Parse: a.parser().File,
		Log:   log,
	}
}

// parser returns the parser of pipelines with the references that the binary contains.
func (a *Agent) parser() spec.Parser { return spec.Parser{References: a.options.References} }

// startedPipelineOf returns the pipeline of a connector that was started.
func (a *Agent) startedPipelineOf(ctx context.Context, connectorID string) (string, bool) {
	state, err := a.Store.ConnectorState(ctx, connectorID)
	if err != nil || state == nil {
		return "", false
	}
	return state.PipelineID, true
}

func (a *Agent) wireTelemetry() {
	a.summary = &telemetry.Summary{Store: a.Store, Loop: a.Loop, Files: a.Files}
	a.Delivery = &delivery.Watch{
		Loop:     a.Loop,
		Runs:     a.Runner,
		Silent:   func(id string) (time.Time, bool) { return a.Silence.Get(id) },
		Unplaced: func(id string) bool { return a.cluster.Unplaced(id) },
		Log:      a.options.Log,
	}
	a.trends = &trend.Store{Path: a.options.Config.DB.SQLite.Path + ".trends", Log: a.options.Log}
	a.Rates = &telemetry.Rates{Runs: a.Runner, Isolation: a.Runner.Isolation, Stages: a.Delivery.Stages, Trends: a.trends}
	a.metrics = &telemetry.Collector{
		Version:     a.options.Version,
		Store:       a.Store,
		Runs:        a.Runner,
		Isolation:   a.Runner.Isolation,
		Loop:        a.Loop,
		Files:       a.Files,
		Committer:   a.Committer,
		Syncs:       &a.syncs,
		Memory:      memory(a.Runner.Window.Shared),
		Phases:      &a.phases,
		Processes:   a.Catalog.Executables.Processes,
		DeadLetters: totalsOf(a.ownDeadLetters.Totals, a.ownDeadLetters, a.options.Log),
		Exported:    a.exporter.Counts,
	}
}

// withState is the store of the loop. It removes the state of the processors of a pipeline before the pipeline: with
// the keys of an earlier pipeline of the same id, dedupe would drop records that were never delivered.
type withState struct {
	reconcile.Store
	forgetState func(pipelineID string) error
}

// DeletePipeline implements reconcile.Store.
func (s withState) DeletePipeline(ctx context.Context, id string) error {
	if err := s.forgetState(id); err != nil {
		return err
	}
	return s.Store.DeletePipeline(ctx, id)
}

// totalsOf returns a function that reports the number of dead letters, nothing while they cannot be read.
func totalsOf(
	count func(context.Context) ([]spec.DeadLetterTotals, error), store *deadletter.Store, log *slog.Logger,
) func(context.Context) ([]spec.DeadLetterTotals, uint64) {
	return func(ctx context.Context) ([]spec.DeadLetterTotals, uint64) {
		totals, err := count(ctx)
		if err != nil {
			log.Warn("cannot read the dead-letter store for metrics", "component", "dead-letters", "err", err)
		}
		return totals, store.Replayed.Load()
	}
}

// wireEvents makes each part notify the parts that depend on it.
func (a *Agent) wireEvents() {
	a.Store.OnChange = func(c *spec.Changes) {
		a.Loop.Wake()
		a.Files.Changed(c)
		a.changes.Notify()
		a.cluster.Changed()
	}
	a.Loop.Rechecked = a.Files.Recheck
	a.Files.Notify = a.changes.Notify
	a.Store.Synced = a.syncs.Took
	a.Loop.Observed = a.observe
	a.Loop.Deleted = a.forget
}

// observe records a new state of a pipeline.
func (a *Agent) observe(s spec.State) {
	a.phases.Observe(s)
	a.changes.Notify()
	if s.Phase == spec.PhaseDegraded && a.options.Config.Pipelines.ExitOnDegraded {
		select {
		case a.degraded <- s:
		default: // one is enough
		}
	}
}

// forget removes the counters of a deleted pipeline.
func (a *Agent) forget(id string) {
	a.phases.Forget(id)
	a.Runner.Forget(id)
	a.references.Forget(id)
	a.logs.Forget(id)
	a.trends.Forget(id)
}

func (a *Agent) service() *process.Service {
	return &process.Service{
		Loop:            a.Loop,
		Files:           a.Files,
		Reload:          a.options.Reload,
		ReadFiles:       func(ctx context.Context) error { return a.reload(ctx, false) },
		Summary:         a.Summary,
		Changes:         &a.changes,
		Check:           a.alive,
		ShutdownTimeout: a.options.Config.Shutdown.Timeout,
		Log:             a.options.Log,
	}
}

// alive returns nil when the store can be written to and the loop answers.
func (a *Agent) alive(ctx context.Context) error {
	if err := a.Store.Check(ctx); err != nil {
		return err
	}
	return a.Loop.Check(ctx)
}

func (a *Agent) wireStatusFiles() {
	a.StatusFiles = &StatusWriter{
		Dir:     a.options.Config.DB.SQLite.Path + ".status",
		Store:   a.Store,
		State:   a.Loop.State,
		Changes: &a.changes,
		Log:     a.options.Log,
	}
}

func (a *Agent) wireGuard() {
	files := storage{a.Store, a.ownDeadLetters, a.options.Config.DB.SQLite.Path}
	a.Guard = &store.Guard{InPlace: a.Store.InPlace, Fault: files.fault, Past: files.past, Probe: files.probe,
		Retry: a.Loop.Retry, Changed: a.changes.Notify, Log: a.options.Log}
}

func (a *Agent) recorder() *catalog.Recorder {
	return &catalog.Recorder{
		Catalog:  a.Catalog,
		Apply:    a.Store.Apply,
		Pipeline: pipelineOf(a.Store),
		Changed:  a.plugged,
		Recorded: a.changes.Notify,
		Log:      a.options.Log,
	}
}

// pipelineOf returns a function that returns the declared pipeline of a connector or processor. It returns none for an
// instance made only for a check.
func pipelineOf(db *store.DB) func(qualified string) (id string, ok bool) {
	return func(qualified string) (string, bool) {
		for pipeline, part := range spec.Meanings(qualified) {
			d, err := db.Get(context.Background(), pipeline)
			if err == nil && (d.Pipeline.Has(part) || hasProcessor(&d.Pipeline, part)) {
				return pipeline, true
			}
		}
		return "", false
	}
}

// hasProcessor reports whether p, or one connector in it, has a processor with this id.
func hasProcessor(p *spec.Pipeline, id string) bool {
	among := func(all []spec.Processor, id string) bool {
		return slices.ContainsFunc(all, func(d spec.Processor) bool { return d.ID == id })
	}
	return among(p.Processors, id) || slices.ContainsFunc(p.Connectors, func(c spec.Connector) bool {
		own, ok := strings.CutPrefix(id, c.ID+":")
		return ok && among(c.Processors, own)
	})
}

// window bounds the outstanding records, by memory if there is a limit, 0 for none.
func window(limit int64) backpressure.Window {
	w := backpressure.Default
	w.Shared, w.Scheduler = backpressure.NewShared(), backpressure.NewScheduler()
	if limit > 0 {
		w.Shared = backpressure.Within(limit)
	}
	return w
}

// budget returns the memory in bytes that may be allocated for one record, or 0 if memory is not limited.
func budget(shared *backpressure.Shared) int {
	if !shared.Strict {
		return 0
	}
	return max(int(shared.Bytes), minBudget)
}

// minBudget is large enough for usual records on the smallest hosts.
const minBudget = 8 << 20

// buffers returns a function that returns the memory account for the buffers of a connector instance.
func buffers(shared *backpressure.Shared) func(plugin string) sdk.Buffer {
	return func(plugin string) sdk.Buffer {
		if plugin == "spool" {
			return shared.Part(backpressure.Spools).Holder()
		}
		return shared.Part(backpressure.Clients).Holder()
	}
}

func policy(p config.Pipelines) plan.Policy {
	return plan.Policy{
		Hold:          p.OnFailedUpdate == "hold",
		Probation:     p.Confirm,
		DeletionGrace: p.DeletionGrace,
		CleanupDelay:  p.CleanupDelay,
		DrainTimeout:  p.DrainTimeout,
		MaxChanges:    plan.MaxChanges,
		ChangesWindow: plan.ChangesWindow,
		Recovery:      plan.Recovery(p.ErrorRecovery),
	}
}
