package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/access"
	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/clustering"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/dryrun"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/agent/planner"
	"github.com/conduit-agent/conduit/agent/redact"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/agent/runner"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/schemas"
	"github.com/conduit-agent/conduit/spec"
)

var (
	_ clustering.OwnStore    = ownStore{}
	_ api.Loop               = (*reconcile.Loop)(nil)
	_ api.Placements         = clustering.Member(nil)
	_ api.KnownPlugins       = pluginList{}
	_ clustering.DeadLetters = (*deadletter.Store)(nil)
	_ api.Answers            = (*store.DB)(nil)
)

// serveAPI listens, so that the agent fails to start if it cannot listen. It returns a function that serves until its
// context ends.
func (a *Agent) serveAPI() (func(ctx context.Context) error, error) {
	c := a.options.Config.API
	if !c.Enabled {
		return func(context.Context) error { return nil }, nil
	}
	server := &api.Server{
		Desired:       a.desired,
		Parser:        a.parser(),
		Loop:          a.Loop,
		Placements:    a.cluster,
		Changed:       a.changes.Next,
		Position:      a.position,
		CleanUp:       a.cleanUp,
		PluginChanges: a.pluginChanges,
		RetryPlugins:  func() { a.Catalog.Executables.Retry() },
		Ready:         a.Ready,
		Directory:     a.directory,
		Plugins:       pluginList{a.Catalog, a.Runner, a.references},
		Taps:          &a.taps,
		Memory:        a.Runner.Window.Shared.Part(backpressure.Inspectors),
		Answers:       a.Store,
		Show:          a.show,
		Metrics:       a.Metrics(),
		Log:           a.options.Log,
		Version:       a.options.Version,
		Debug:         c.Debug,
		Profiles:      a.options.Profiles,
		ToolServer:    a.options.ToolServer,
		Tools:         c.MCP,
		Reload:        a.reload,
		Plan:          a.plan,
		WriteFile:     a.writeFile,
		DryRun:        dryRun(a),
		Rates:         a.Rates.All,
		Trend:         a.trends.Get,
		Insight:       a.insight(),
		DeadLetters:   a.deadLetters,
		Replays:       a.replays,
		Logs:          a.logs,
		Positions:     a.desired,
		Notify:        testNotifications(a.notifier),
		Docs:          a.options.Docs,
		Cluster:       a.members,
	}
	serve, err := a.listen(server)
	if err == nil {
		a.metrics.API = server.Stats
		a.options.Log.Info("API ready", "component", "api", "address", a.address)
	}
	return serve, err
}

// listen returns a function that serves the API until its context ends.
func (a *Agent) listen(server *api.Server) (func(ctx context.Context) error, error) {
	listeners, err := access.Listen(server, a.options.Config.API, a.options.Log)
	if err != nil {
		return nil, err
	}
	a.address = listeners.Address()
	return listeners.Serve, nil
}

// Metrics returns the handler of /metrics.
func (a *Agent) Metrics() http.Handler { return a.metrics.Handler() }

// Summary returns one line with the number of pipelines and pipeline files in each state.
func (a *Agent) Summary(ctx context.Context) string { return a.summary.Text(ctx) }

// plan compares pipeline files, with the files of the request saved among them, with desired state. It also reports
// problems that would keep the pipelines from running: plugins that do not exist, settings that plugins refuse,
// references that cannot be resolved.
func (a *Agent) plan(ctx context.Context, request spec.PlanRequest) (*spec.Plan, error) {
	declared, err := a.Store.Declarations(ctx)
	if err != nil {
		return nil, err
	}
	known, err := a.Store.FileStates(ctx)
	if err != nil {
		return nil, err
	}
	p := planner.New(a.options.Config.Pipelines, a.parser())
	p.Guarded = a.Files.Guarded
	rescan := sync.OnceFunc(func() { a.Catalog.Rescan(ctx) })
	p.Check = func(pipeline *spec.Pipeline) []spec.Problem {
		_, lost := spec.Resolve(pipeline, a.references.Lookup(ctx))
		return slices.Concat(a.Catalog.CheckAfterRescan(ctx, pipeline, rescan), lost, a.cluster.Problems(pipeline))
	}
	p.RawLane = func(pipeline *spec.Pipeline) map[string]string { return a.Catalog.RawLane(ctx, pipeline) }
	p.Notes = func(pipeline *spec.Pipeline) map[string][]string { return a.Catalog.Notes(ctx, pipeline) }
	if a.Runner.Isolation != nil {
		p.Isolated = a.Runner.Isolation.Plan
	}
	return p.Plan(ctx, request, declared, known)
}

// dryRunTimeout is the maximum time that a processor may take for a record of a dry run.
const dryRunTimeout = 10 * time.Second

// dryRun returns a function that runs records through the processors of a pipeline. Schemas that they make exist for
// this run only.
func dryRun(a *Agent) func(ctx context.Context, request spec.DryRunRequest) (*spec.DryRun, error) {
	o := dryrun.Options{Registry: a.Catalog.Processors, Timeout: dryRunTimeout}
	return func(ctx context.Context, request spec.DryRunRequest) (*spec.DryRun, error) {
		return dryrun.Do(ctx, request, o, a.references.Lookup(ctx))
	}
}

// Ready returns the reason why the agent is not ready, nil if it is.
func (a *Agent) Ready(ctx context.Context) error {
	if a.Files.Status().At.IsZero() {
		return api.ErrStarting
	}
	if err := a.Store.InPlace(); err != nil {
		return err
	}
	if err := (storage{store: a.Store, deadLetters: a.ownDeadLetters}).fault(); err != nil {
		return err
	}
	if err := a.Loop.Unsaved(); err != nil {
		return err
	}
	if err := a.cluster.Joined(); err != nil {
		return err
	}
	_, err := a.Store.Declarations(ctx)
	return err
}

// reload examines failed plugin files again, and reads the pipeline files. It returns an error if all files are gone
// and the agent therefore keeps their pipelines.
func (a *Agent) reload(ctx context.Context, prune bool) error {
	if a.Catalog.Executables.Retry() {
		a.Catalog.Rescan(ctx)
		if err := a.Loop.Check(ctx); err != nil { // pipelines that failed without the plugins have been planned
			return err
		}
	}
	if err := a.Files.Reload(ctx, prune); err != nil {
		return err
	}
	if d := a.Files.Status().Directory; d.State == spec.DirectoryHeld {
		return errors.New(d.Message)
	}
	return nil
}

// position returns the position of a source, nil if it has none.
func (a *Agent) position(ctx context.Context, connectorID string) (record.Position, error) {
	c, err := a.Store.Checkpoint(ctx, connectorID)
	if c == nil {
		return nil, err
	}
	return c.Position, err
}

// cleanUp deletes a removed connector. Connectors of pipelines of a cluster are left to the next owner.
func (a *Agent) cleanUp(ctx context.Context, connectorID string) error {
	if id, started := a.startedPipelineOf(ctx, connectorID); started && a.cluster.KeepsConnectors(id) {
		return nil
	}
	return a.Loop.CleanUp(ctx, connectorID)
}

// pluginChanges returns the connectors and processors that a restart would start differently, or not at all.
func (a *Agent) pluginChanges() []spec.PluginChange { return a.Catalog.Changes(pipelineOf(a.Store)) }

// directory returns the state of the directory of the pipeline files.
func (a *Agent) directory() spec.Directory { return a.Files.Status().Directory }

// pluginList is the list of plugins as the API needs it.
type pluginList struct {
	catalog    *catalog.Catalog
	runner     *runner.Runner
	references *reference.Resolver
}

// Plugins describes all plugins, by name.
func (l pluginList) Plugins() []rest.Plugin { return l.catalog.Described() }

// Processors describes all processor plugins, by name.
func (l pluginList) Processors() []rest.ProcessorPlugin { return l.catalog.DescribedProcessors() }

// CheckProcessors returns the problems of processors.
func (l pluginList) CheckProcessors(ctx context.Context, at string, declared []spec.Processor) []spec.Problem {
	return l.catalog.Processors.Check(ctx, at, declared)
}

// Check lets a new instance accept or refuse the settings.
func (l pluginList) Check(
	ctx context.Context, typ spec.ConnectorType, plugin string, settings map[string]string,
) error {
	params, err := l.catalog.Parameters(ctx, plugin, typ)
	if err != nil {
		l.catalog.Rescan(ctx)
		params, err = l.catalog.Parameters(ctx, plugin, typ)
	}
	if _, other := l.catalog.Parameters(ctx, plugin, otherType(typ)); err != nil && other == nil {
		return err // the plugin exists, and cannot do that
	}
	if err != nil {
		return fmt.Errorf("%w: %w", api.ErrPluginNotFound, err)
	}
	var secrets redact.Redactor
	if settings, err = l.resolve(ctx, settings, &secrets); err != nil {
		return err
	}
	// A plugin may accept settings that it does not describe. Only a refusal by the plugin is a problem; the
	// description only supplies the place.
	if err = l.runner.Configure(ctx, typ, plugin, settings, &secrets); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	all := catalog.Wrong(typ, params, settings)
	var wrong []error
	for _, s := range all[:min(len(all), maxProblems)] {
		wrong = append(wrong, &api.SettingError{Setting: s.Setting, Message: secrets.Text(s.Message)})
	}
	if more := len(all) - maxProblems; more > 0 {
		wrong = append(wrong, fmt.Errorf("and %d more problems", more))
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	return secrets.Error(err)
}

func otherType(typ spec.ConnectorType) spec.ConnectorType {
	if typ == spec.TypeSource {
		return spec.TypeDestination
	}
	return spec.TypeSource
}

// maxProblems is the maximum number of reported problems of a connector; readers need no more.
const maxProblems = 100

// resolve returns settings with their references resolved, or a SettingError for each setting with a reference that
// cannot be resolved. It adds the resolved values to secrets.
func (l pluginList) resolve(
	ctx context.Context, settings map[string]string, secrets *redact.Redactor,
) (map[string]string, error) {
	resolved, problems := l.references.Settings(ctx, settings, secrets)
	var wrong []error
	for _, problem := range problems {
		path := strings.TrimPrefix(problem.Path, "/connectors/0/settings/")
		name := schemas.UnescapePointer(path)
		message := strings.TrimPrefix(problem.Message, fmt.Sprintf("setting %q of connector %q: ", name, ""))
		wrong = append(wrong, &api.SettingError{Setting: name, Message: message})
	}
	return resolved, errors.Join(wrong...)
}

// show decodes the parts of a record that have schemas. A record that does not fit its schemas is shown unchanged.
func (a *Agent) show(r *record.Record) {
	for _, part := range []schema.Parts{{Key: true}, {Payload: true}} {
		_ = a.schemas.DecodeRecord(context.Background(), r, part)
	}
}
