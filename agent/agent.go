// Package agent is the composition root: it opens the store, wires the parts and owns
// every lifetime.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/fair"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

// Options are what the agent needs to run.
type Options struct {
	Config  config.Config
	Log     *slog.Logger
	Version string
	// Started, when set, is called once the agent is up, with a view of it that is valid
	// until Run returns.
	Started func(*Agent)
	// Wired, when set, is called once the parts are connected and before any of them
	// runs. It may change their fields, and those of the agent's parts.
	Wired func(*Agent)
	// Reload, when set, has the pipeline files read at each signal.
	Reload <-chan os.Signal
}

// Agent is an agent and its parts, which are set before it runs.
type Agent struct {
	Store       *store.DB
	Plugins     *plugins.Host
	Executables *plugins.Executables
	Committer   *engine.Committer
	Runner      *runner
	Files       *reconcile.Files
	Loop        *reconcile.Loop

	options Options
	taps    engine.Taps
	schemas *schema.Cache // for showing records
	phases  phases
	changes changes
	server  *api.Server // nil when the API is not served
	address string      // of server
	inputs  *inputs

	degraded chan spec.State // capacity 1
	plugged  chan struct{}   // capacity 1: plugins came, went or changed
}

// Run runs the agent until ctx ends, and then shuts it down gracefully: sources stop,
// what is in flight is written and acknowledged, positions are saved. It returns an
// error when the agent cannot start or cannot go on.
func Run(ctx context.Context, o Options) error {
	db, err := store.Open(ctx, o.Config.DB.SQLite.Path)
	if err != nil {
		return err
	}
	a := &Agent{options: o, Store: db, degraded: make(chan spec.State, 1)}
	a.wire()
	if o.Wired != nil {
		o.Wired(a)
	}
	return errors.Join(a.run(ctx), db.Close())
}

func (a *Agent) run(ctx context.Context) error {
	serve, err := a.serveAPI()
	if err != nil {
		return err
	}
	// Pipelines commit, and their plugins use schemas, until their very end, so what
	// serves them ends after them.
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	var services errgroup.Group
	services.Go(func() error { return a.Committer.Run(serving) })
	services.Go(func() error { return a.Executables.Run(serving) })
	if a.options.Config.Pipelines.StatusFiles {
		status := &statusFiles{dir: a.options.Config.DB.SQLite.Path + ".status", db: a.Store, loop: a.Loop, changes: &a.changes, log: a.options.Log}
		services.Go(func() error { return status.Run(serving) })
	}
	services.Go(func() error { return a.watchdog(serving) })
	services.Go(func() error { return a.guardStore(serving) })
	services.Go(func() error { return a.tellPluginChanges(serving) })

	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.exitOnDegraded(gctx) })
	g.Go(func() error { return a.Files.Run(gctx) })
	g.Go(func() error { return a.Loop.Run(gctx) })
	g.Go(func() error { return a.inputs.Run(gctx) })
	g.Go(func() error { return serve(gctx) })
	g.Go(func() error { return a.supervise(gctx) })
	if a.options.Started != nil {
		a.options.Started(a)
	}
	a.options.Log.Info("agent started", "component", "agent", "version", a.options.Version, "pipelines", a.options.Config.Pipelines.Path)
	err = g.Wait()
	endServing()
	err = errors.Join(err, services.Wait())
	a.options.Log.Info("agent stopped", "component", "agent")
	return err
}

// placeInterval is the time between two looks at whether the store is in its place.
const placeInterval = 2 * time.Second

// guardStore says when the files of the store were deleted or replaced. What runs goes on:
// that is no worse, and somebody may want to save what they hold.
func (a *Agent) guardStore(ctx context.Context) error {
	tick := time.NewTicker(placeInterval)
	defer tick.Stop()
	moved := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := a.Store.InPlace()
		if (err != nil) == moved {
			continue
		}
		moved = err != nil
		if moved {
			a.options.Log.Error("the store is in danger, the pipelines go on", "component", "agent", "err", err)
		} else {
			a.options.Log.Info("the store is in its place again", "component", "agent")
		}
		a.changes.notify()
	}
}

// wire makes the parts and connects them.
func (a *Agent) wire() {
	c, log := a.options.Config, a.options.Log
	a.Committer = &engine.Committer{Store: a.Store, Interval: c.DB.CommitInterval}
	a.schemas = &schema.Cache{Registry: a.Store.Schemas()}
	a.Executables = newExecutables(c, a.Store.Schemas(), os.Environ(), log)
	a.plugged = make(chan struct{}, 1)
	a.Executables.Changed = func() {
		a.Loop.Retry()
		select {
		case a.plugged <- struct{}{}:
		default:
		}
	}
	a.Plugins = newHost(a.Executables, a.Store.Schemas(), log)
	a.inputs = &inputs{apply: func(ctx context.Context, id string) error { return a.Loop.Reapply(ctx, id) }, log: log}
	window := engine.DefaultWindow
	window.Shared, window.Scheduler = engine.NewShared(), fair.NewScheduler()
	a.Runner = &runner{plugins: a.Plugins, Store: a.Store, committer: a.Committer, taps: &a.taps, window: window, inputs: a.inputs, files: c.Pipelines.Path, ackTimeout: c.Pipelines.AckTimeout, log: log,
		running: map[string]*engine.Pipeline{}, stats: map[string]*engine.PipelineStats{}}
	a.Loop = &reconcile.Loop{
		Store:           a.Store,
		Runner:          a.Runner,
		Policy:          policy(c.Pipelines),
		Log:             log,
		RunDigest:       spec.RunDigest,
		ShutdownTimeout: c.Shutdown.Timeout,
		SaveInterval:    c.DB.CommitInterval,
	}
	a.Files = &reconcile.Files{
		Store: a.Store,
		Watch: &watch.Watcher{Dir: c.Pipelines.Path, Log: log},
		Parse: spec.ParseFile,
		Log:   log,
	}
	a.Files.Changed = a.changes.notify
	a.Loop.Observed = a.observed
	a.Loop.Deleted = a.Files.Wake
	a.Store.OnChange = func() { a.Loop.Wake(); a.Files.Wake(); a.changes.notify() }
}

// observed is told every new state of a pipeline.
func (a *Agent) observed(s spec.State) {
	a.phases.observe(s)
	a.changes.notify()
	if s.Phase == spec.PhaseDegraded && a.options.Config.Pipelines.ExitOnDegraded {
		select {
		case a.degraded <- s:
		default: // one is enough
		}
	}
}

// exitOnDegraded ends the agent when a pipeline degrades, if the settings want it so.
func (a *Agent) exitOnDegraded(ctx context.Context) error {
	select {
	case s := <-a.degraded:
		return fmt.Errorf("pipeline %s is degraded and pipelines.exit-on-degraded is set: %s", s.PipelineID, s.Error)
	case <-ctx.Done():
		return nil
	}
}

// Address returns the address that the API listens on, "" when it is not served.
func (a *Agent) Address() string { return a.address }

func policy(p config.Pipelines) reconcile.Policy {
	return reconcile.Policy{
		Hold:             p.OnFailedUpdate == "hold",
		Confirm:          p.Confirm,
		DeletionGrace:    p.DeletionGrace,
		CleanupDelay:     p.CleanupDelay,
		DrainTimeout:     p.DrainTimeout,
		MaxChanges:       reconcile.DefaultPolicy().MaxChanges,
		ChangesWindow:    reconcile.DefaultPolicy().ChangesWindow,
		MinDelay:         p.ErrorRecovery.MinDelay,
		MaxDelay:         p.ErrorRecovery.MaxDelay,
		BackoffFactor:    p.ErrorRecovery.BackoffFactor,
		MaxRetries:       p.ErrorRecovery.MaxRetries,
		MaxRetriesWindow: p.ErrorRecovery.MaxRetriesWindow,
	}
}
