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

	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/cluster/member"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/delivery"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/commit"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/agent/host"
	"github.com/conduit-agent/conduit/agent/notification"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/agent/runner"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/files"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
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
	// Docs, when set, returns a file of the documentation by its name.
	Docs func(name string) ([]byte, bool)
	// Reload, when set, has the pipeline files read at each signal.
	Reload <-chan os.Signal
}

// Agent is an agent and its parts, which are set before it runs.
type Agent struct {
	Store     *store.DB
	Catalog   *catalog.Catalog
	Committer *commit.Committer
	Runner    *runner.Runner
	Files     *files.Reconciler
	Loop      *reconcile.Loop
	Delivery  *delivery.Watch

	options     Options
	deadLetters *deadletter.Store
	letters     member.DeadLetters // deadLetters, and in a cluster those of all members
	replays     *deadletter.Replays
	cluster     *member.Membership // nil for an agent that is alone
	references  *reference.Resolver
	taps        engine.TapPoints
	logs        *telemetry.LogTail
	schemas     *schema.Cache // for showing records
	phases      telemetry.Phases
	metrics     *telemetry.Collector
	summary     *telemetry.Summary
	rates       *telemetry.Rates
	changes     notify.Broadcast // of what is observed, or is known of files and plugins
	plugged     notify.Signal    // plugins came, went or changed
	notifier    *notification.Notifier
	silence     *notification.Silence
	syncs       measure.Histogram // of the store
	degraded    chan spec.State   // capacity 1
	address     string            // of server
	started     time.Time
}

// Run runs the agent until ctx ends, and then shuts it down gracefully: sources stop,
// what is outstanding is written and acknowledged, positions are saved. It returns an
// error when the agent cannot start or cannot go on.
func Run(ctx context.Context, o Options) error {
	lines := &telemetry.LogTail{}
	o.Log = slog.New(lines.Handler(o.Log.Handler()))
	db, err := openStore(ctx, o)
	if err != nil || db == nil {
		return err
	}
	registry, err := schemaRegistry(o.Config.Schemas, member.Schemas(o.Config.Cluster, db.Schemas()))
	if err != nil {
		return errors.Join(err, db.Close())
	}
	a := &Agent{options: o, Store: db, logs: lines, schemas: &schema.Cache{Registry: registry}, plugged: notify.NewSignal(), degraded: make(chan spec.State, 1), started: time.Now()}
	if dir := catalog.TempDir(o.Config); dir != "" {
		defer clearDir(dir, o.Log)
		clearDir(dir, o.Log) // an agent that was killed left it as it was
	}
	a.wire()
	if err := errors.Join(a.wireCluster(), wireNotifications(ctx, a)); err != nil {
		return errors.Join(err, db.Close())
	}
	a.Loop.Store = withState{a.Loop.Store, a.Runner.ForgetState}
	if o.Wired != nil {
		o.Wired(a)
	}
	return errors.Join(a.run(ctx), a.deadLetters.Close(), db.Close())
}

// clearDir removes a directory, which need not exist.
func clearDir(dir string, log *slog.Logger) {
	if err := os.RemoveAll(dir); err != nil {
		log.Warn("cannot clear the directory for sockets of plugins", "component", "agent", "err", err)
	}
}

func (a *Agent) run(ctx context.Context) error {
	declared, err := a.Store.Declarations(ctx)
	if err != nil {
		return err
	}
	a.Runner.AdoptState(declared)
	serve, err := a.serveAPI()
	if err != nil {
		return err
	}
	// Pipelines commit, and their plugins use schemas, until their very end, so what
	// serves them ends after them.
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	supervised := a.supervised()
	var services errgroup.Group
	services.Go(func() error { return a.Committer.Run(serving) })
	services.Go(func() error { return a.Catalog.Executables.Run(serving) })
	services.Go(func() error { return a.Catalog.Modules.Run(serving) })
	services.Go(func() error { return a.recorder().Run(serving) })
	services.Go(func() error { return a.storeGuard().Run(serving) })
	services.Go(func() error { return a.deadLetters.Run(serving) })
	services.Go(func() error { return (&host.Pruner{Prune: a.Store.Prune, Log: a.options.Log}).Run(serving) })
	services.Go(func() error { return a.rates.Run(serving) })
	services.Go(func() error { return a.silence.Run(serving) })
	services.Go(func() error { return a.Delivery.Run(serving) })
	services.Go(func() error { return a.notifier.Run(serving) })
	services.Go(func() error { return supervised.Watchdog(serving) })
	if a.options.Config.Pipelines.StatusFiles {
		services.Go(func() error { return a.statusFiles().Run(serving) })
	}

	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return exitOnDegraded(gctx, a.degraded) })
	g.Go(func() error { return a.Files.Run(gctx) })
	g.Go(func() error { return a.Loop.Run(gctx) })
	g.Go(func() error { return a.references.Run(gctx) })
	g.Go(func() error { return a.replays.Run(gctx) })
	g.Go(func() error { return serve(gctx) })
	g.Go(func() error { return supervised.Run(gctx) })
	if a.cluster != nil {
		services.Go(func() error { return a.cluster.Run(serving, ctx) })
	}
	if a.options.Started != nil {
		a.options.Started(a)
	}
	a.options.Log.Info("agent started", "component", "agent", "version", a.options.Version, "pipelines", a.options.Config.Pipelines.Path)
	err = g.Wait()
	if a.cluster != nil {
		a.cluster.Leave(serving)
	}
	endServing()
	err = errors.Join(err, services.Wait(), a.Catalog.Modules.Close(context.WithoutCancel(ctx)))
	a.options.Log.Info("agent stopped", "component", "agent")
	return err
}

// exitOnDegraded ends the agent when a pipeline degrades, if the settings want it so.
func exitOnDegraded(ctx context.Context, degraded <-chan spec.State) error {
	select {
	case s := <-degraded:
		return fmt.Errorf("pipeline %s is degraded and pipelines.exit-on-degraded is set: %s", s.PipelineID, s.Error)
	case <-ctx.Done():
		return nil
	}
}

// Address returns the address that the API listens on, "" when it is not served.
func (a *Agent) Address() string { return a.address }
