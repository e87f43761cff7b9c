// Package agent is the composition root: it opens the store, wires the parts and owns
// every lifetime.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/clustering"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/delivery"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/agent/notification"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/agent/runner"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/agent/telemetry/trend"
	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/files"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Options are the inputs of an agent.
type Options struct {
	Config  config.Config
	Plugins catalog.Plugins // that the binary contains
	// References are the kinds of references that the binary contains.
	References spec.ReferenceKinds
	// Cluster makes the agent a member of the cluster that its settings name. If it is nil, the agent refuses such
	// settings.
	Cluster *clustering.Cluster
	Log     *slog.Logger
	Version string
	// Started, if set, is called once the agent has started, with a view of it that is valid until Run returns.
	Started func(*Agent)
	// Wired, if set, is called once the parts are connected and before any part runs. It may change the fields of the
	// agent and its parts.
	Wired func(*Agent)
	// Profiles serves profiles of the agent. It is nil in a binary that contains none.
	Profiles http.Handler
	// Isolate returns the isolation of destinations. It is nil in a binary that contains none.
	Isolate func(runner.IsolationSetup) runner.Isolation
	// ToolServer serves tools for language models. It is nil in a binary that contains none.
	ToolServer api.ToolServer
	// Exporter returns the exporter of telemetry. It is nil in a binary that contains none, which refuses its settings.
	Exporter func(telemetry.ExporterSetup) (telemetry.Exporter, error)
	// Docs, if set, returns a file of the documentation by name.
	Docs func(name string) ([]byte, bool)
	// Reload, if set, makes the agent read the pipeline files at each signal.
	Reload <-chan os.Signal
}

// Agent is an agent with its parts, which are set before it runs.
type Agent struct {
	Store     *store.DB
	Catalog   *catalog.Catalog
	Committer *engine.Committer
	Runner    *runner.Runner
	Files     *files.Reconciler
	Loop      *reconcile.Loop
	Delivery  *delivery.Watch
	Rates     *telemetry.Rates
	Silence   *notification.Silence
	Guard     *store.Guard
	// StatusFiles writes the status of each pipeline file, unless the settings do not want it.
	StatusFiles *StatusWriter

	options        Options
	ownDeadLetters *deadletter.Store      // on the disk of this agent
	deadLetters    clustering.DeadLetters // ownDeadLetters, and in a cluster the dead letters of all members
	replays        *deadletter.Replays
	desired        clustering.OwnStore // the store for the API, and in a cluster for all members
	cluster        clustering.Member
	members        api.Member // the cluster in the API; nil outside a cluster
	references     *reference.Resolver
	taps           engine.TapPoints
	logs           *telemetry.LogTail
	exporter       telemetry.Exporter
	trends         *trend.Store
	schemas        *schema.Cache // to decode records for display
	phases         telemetry.Phases
	metrics        *telemetry.Collector
	summary        *telemetry.Summary
	changes        notify.Broadcast // closed at changes of observed state, files or plugins
	plugged        notify.Signal    // plugins were added, removed or changed
	notifier       *notification.Notifier
	syncs          measure.Histogram // durations of the syncs of the store
	degraded       chan spec.State   // capacity 1
	address        string            // address of server
	started        time.Time
}

// Run runs the agent until ctx ends, and then shuts it down gracefully: sources stop, outstanding records are written
// and acknowledged, and positions are saved. It returns an error when the agent cannot start or cannot continue.
func Run(ctx context.Context, o Options) error {
	lines := &telemetry.LogTail{}
	exporter, err := newExporter(&o, slog.New(lines.Handler(o.Log.Handler())))
	if err != nil {
		return err
	}
	o.Log = slog.New(lines.Handler(telemetry.Tee(o.Log.Handler(), exporter.Handler())))
	db, err := openStore(ctx, o)
	if err != nil || db == nil {
		return err
	}
	registry, err := schemaRegistry(o, db.Schemas())
	if err != nil {
		return errors.Join(err, db.Close())
	}
	a := &Agent{options: o, Store: db, cluster: clustering.Alone{}, logs: lines, exporter: exporter,
		schemas: &schema.Cache{Registry: registry}, plugged: notify.NewSignal(), degraded: make(chan spec.State, 1),
		started: time.Now()}
	if dir := catalog.TempDir(o.Config); dir != "" {
		defer clearDir(dir, o.Log)
		clearDir(dir, o.Log) // left behind by an agent that was killed
	}
	a.wire()
	if err := errors.Join(a.wireCluster(), wireNotifications(ctx, a)); err != nil {
		return errors.Join(err, db.Close())
	}
	a.Loop.Store = withState{a.Loop.Store, a.Runner.ForgetState}
	if o.Wired != nil {
		o.Wired(a)
	}
	return errors.Join(a.run(ctx), a.ownDeadLetters.Close(), db.Close())
}

// newExporter returns the exporter of telemetry that the settings want. log is for the exporter itself.
func newExporter(o *Options, log *slog.Logger) (telemetry.Exporter, error) {
	c := &o.Config
	if c.Telemetry.OTLP.Endpoint == "" {
		return telemetry.NoExporter{}, nil
	}
	if o.Exporter == nil {
		return nil, config.Invalid(telemetry.ErrNoExporter)
	}
	e, err := o.Exporter(telemetry.ExporterSetup{Settings: c.Telemetry, Version: o.Version, Instance: c.Cluster.Member,
		Log: log})
	return e, config.Invalid(err)
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
	a.loadTrends(declared)
	serve, err := a.serveAPI()
	if err != nil {
		return err
	}
	// Pipelines commit, and their plugins use schemas, until they end, so their services end after them.
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	service := a.service()
	var services errgroup.Group
	services.Go(func() error { return a.Committer.Run(serving) })
	services.Go(func() error { return a.Catalog.Executables.Run(serving) })
	services.Go(func() error { return a.Catalog.Modules.Run(serving) })
	services.Go(func() error { return a.recorder().Run(serving) })
	services.Go(func() error { return a.Guard.Run(serving) })
	services.Go(func() error { return a.ownDeadLetters.Run(serving) })
	services.Go(func() error { return (&store.Pruner{Prune: a.Store.Prune, Log: a.options.Log}).Run(serving) })
	services.Go(func() error { return a.Rates.Run(serving) })
	services.Go(func() error { return a.trends.Run(serving) })
	services.Go(func() error { return a.Silence.Run(serving) })
	services.Go(func() error { return a.Delivery.Run(serving) })
	services.Go(func() error { return a.notifier.Run(serving) })
	services.Go(func() error { return service.Watchdog(serving) })
	services.Go(func() error { return a.exporter.Run(serving, a.metrics.Gatherer()) })
	if a.options.Config.Pipelines.StatusFiles {
		services.Go(func() error { return a.StatusFiles.Run(serving) })
	}

	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return exitOnDegraded(gctx, a.degraded) })
	g.Go(func() error { return a.Files.Run(gctx) })
	g.Go(func() error { return a.Loop.Run(gctx) })
	g.Go(func() error { return a.references.Run(gctx) })
	g.Go(func() error { return a.replays.Run(gctx) })
	g.Go(func() error { return serve(gctx) })
	g.Go(func() error { return service.Run(gctx) })
	services.Go(func() error { return a.cluster.Run(serving, ctx) })
	if a.options.Started != nil {
		a.options.Started(a)
	}
	a.options.Log.Info("agent started", "component", "agent", "version", a.options.Version, "pipelines",
		a.options.Config.Pipelines.Path, "store", absolute(a.options.Config.DB.SQLite.Path))
	err = g.Wait()
	a.cluster.Leave(serving)
	endServing()
	err = errors.Join(err, services.Wait(), a.Catalog.Modules.Close(context.WithoutCancel(ctx)))
	a.options.Log.Info("agent stopped", "component", "agent")
	return err
}

// absolute returns an absolute form of path for the log.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// loadTrends reads the saved trends of the declared pipelines. An error does not prevent the start.
func (a *Agent) loadTrends(declared []spec.Declaration) {
	ids := map[string]bool{}
	for i := range declared {
		ids[declared[i].Pipeline.ID] = true
	}
	if err := a.trends.Load(func(id string) bool { return ids[id] }); err != nil {
		a.options.Log.Warn("cannot read the saved trends; starting empty", "component", "agent", "err", err)
	}
}

// exitOnDegraded ends the agent when a pipeline degrades, if the settings require it.
func exitOnDegraded(ctx context.Context, degraded <-chan spec.State) error {
	select {
	case s := <-degraded:
		return fmt.Errorf("pipeline %s is degraded and pipelines.exit-on-degraded is set: %s", s.PipelineID, s.Error)
	case <-ctx.Done():
		return nil
	}
}

// Exporter returns the exporter of telemetry.
func (a *Agent) Exporter() telemetry.Exporter { return a.exporter }

// Address returns the address on which the API listens, "" if it does not.
func (a *Agent) Address() string { return a.address }
