package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// The parts meet here.
var (
	_ reconcile.Store     = (*store.DB)(nil)
	_ reconcile.Runner    = (*runner)(nil)
	_ reconcile.Run       = (*observedRun)(nil)
	_ reconcile.Amendment = (*observedAmendment)(nil)
	_ engine.Store        = (*store.DB)(nil)
	_ engine.Plugins      = dispenser{}
)

// runner makes runs of declared pipelines.
type runner struct {
	plugins   *plugins.Host
	Store     engine.Store
	committer *engine.Committer
	taps      *engine.Taps
	window    engine.Window
	inputs    *inputs
	files     string // where the pipeline files are

	ackTimeout time.Duration
	log        *slog.Logger

	starts tally // of connectors, by plugin

	mu      sync.Mutex
	running map[string]*engine.Pipeline      // guarded by mu; by pipeline id
	stats   map[string]*engine.PipelineStats // guarded by mu; by pipeline id
}

// Prepare makes a run of d's pipeline ready to go.
func (r *runner) Prepare(ctx context.Context, d *spec.Declaration) (reconcile.Run, error) {
	resolved, err := r.resolved(ctx, d)
	if err != nil {
		return nil, err
	}
	o := &observedRun{runner: r, resolved: resolved}
	o.secrets.include(&resolved.secrets)
	log := slog.New(discreet{r.log.Handler(), &o.secrets})
	o.Pipeline = &engine.Pipeline{
		Declared:  &d.Pipeline,
		Resolved:  resolved.pipeline,
		Recall:    func(settings map[string]string) (map[string]string, []string) { return r.recall(settings, &o.secrets) },
		Plugins:   dispenser{r.plugins, &r.starts, &o.secrets},
		Store:     r.Store,
		Committer: r.committer,
		Window:    r.window,

		AckTimeout: r.ackTimeout,
		Taps:       r.taps,
		Stats:      r.statsOf(d.Pipeline.ID),
		Redact:     o.secrets.coverIn,
		Log:        log.With("component", "engine", "pipeline_id", d.Pipeline.ID),
	}
	if err := o.Pipeline.Prepare(ctx); err != nil {
		return nil, r.located(d, o.secrets.coverIn(err), r.misfits(resolved.pipeline))
	}
	return o, nil
}

// resolved resolves the references of d's pipeline.
func (r *runner) resolved(ctx context.Context, d *spec.Declaration) (*resolution, error) {
	resolved, problems := r.inputs.resolve(ctx, d)
	if len(problems) > 0 {
		err := fmt.Errorf("cannot resolve references of pipeline %s: %w", d.Pipeline.ID, joined(problems))
		return nil, r.located(d, err, func(*spec.Pipeline) []spec.Problem { return problems })
	}
	return resolved, nil
}

// misfits returns a check of the plugins and settings of a pipeline that is declared, with
// the values that they have in resolved.
func (r *runner) misfits(resolved *spec.Pipeline) func(*spec.Pipeline) []spec.Problem {
	return func(declared *spec.Pipeline) []spec.Problem {
		p := *resolved
		p.Connectors = nil
		for _, c := range declared.Connectors { // in the order of the file
			i := slices.IndexFunc(resolved.Connectors, func(o spec.Connector) bool { return o.ID == c.ID })
			p.Connectors = append(p.Connectors, resolved.Connectors[i])
		}
		return checkPlugins(r.plugins, &p)
	}
}

// located puts before err, which keeps d from running, where in its file there is what
// check finds wrong.
func (r *runner) located(d *spec.Declaration, err error, check func(*spec.Pipeline) []spec.Problem) error {
	if d.Owner.Kind != spec.OwnerFile {
		return err
	}
	path := filepath.Join(r.files, filepath.FromSlash(d.Owner.Path))
	if info, serr := os.Stat(r.files); serr == nil && !info.IsDir() {
		path = r.files
	}
	data, rerr := readFile(path)
	if rerr != nil {
		return err
	}
	parsed, digest := spec.ParseFile(d.Owner.Path, []byte(data)), spec.Digest(&d.Pipeline)
	var places []string
	for i := range parsed.Pipelines {
		p := &parsed.Pipelines[i]
		if p.Pipeline.ID != d.Pipeline.ID || spec.Digest(&p.Pipeline) != digest {
			continue // the file says something else by now
		}
		for _, problem := range check(&p.Pipeline) {
			problem = p.Locate(problem, d.Owner.Path)
			places = append(places, fmt.Sprintf("%s:%d:%d", problem.File, problem.Line, problem.Column))
		}
	}
	if len(places) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", strings.Join(places, ", "), err)
}

// observedRun is a run that can be found while it runs.
type observedRun struct {
	*engine.Pipeline
	runner   *runner
	resolved *resolution // that it begins with
	secrets  secrets     // of what runs, and is tried in its place
}

// Run runs the pipeline.
func (o *observedRun) Run(ctx context.Context, drain <-chan struct{}, started func()) error {
	r, id := o.runner, o.ID()
	r.mu.Lock()
	r.running[id] = o.Pipeline
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.running, id)
		r.mu.Unlock()
	}()
	return o.secrets.coverIn(o.Pipeline.Run(ctx, drain, func() {
		r.inputs.runs(id, o.resolved.files)
		started()
	}))
}

// Amend makes ready what turns the run into one of d's pipeline.
func (o *observedRun) Amend(ctx context.Context, d *spec.Declaration) (reconcile.Amendment, error) {
	resolved, err := o.runner.resolved(ctx, d)
	if err != nil {
		return nil, err
	}
	o.secrets.include(&resolved.secrets)
	a, err := o.Pipeline.Amend(ctx, &d.Pipeline, resolved.pipeline)
	switch {
	case errors.Is(err, spec.ErrNeedsRestart):
		return nil, spec.ErrNeedsRestart
	case err != nil:
		return nil, o.runner.located(d, o.secrets.coverIn(err), o.runner.misfits(resolved.pipeline))
	}
	return &observedAmendment{a, o, resolved}, nil
}

// observedAmendment is an amendment of an observed run.
type observedAmendment struct {
	*engine.Amendment
	run      *observedRun
	resolved *resolution
}

// Apply has the run become the version.
func (a *observedAmendment) Apply(drained func()) error {
	err := a.Amendment.Apply(drained)
	if err != nil {
		return a.run.secrets.coverIn(err)
	}
	a.run.secrets.become(&a.resolved.secrets)
	a.run.runner.inputs.runs(a.run.ID(), a.resolved.files)
	return nil
}

// observe returns what runs and what was counted, by pipeline id.
func (r *runner) observe() (running map[string]*engine.Pipeline, stats map[string]*engine.PipelineStats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.running), maps.Clone(r.stats)
}

// statsOf returns the stats in which all runs of a pipeline count.
func (r *runner) statsOf(id string) *engine.PipelineStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stats[id] == nil {
		r.stats[id] = &engine.PipelineStats{}
	}
	return r.stats[id]
}

// Delete tells a connector that it is no more.
func (r *runner) Delete(ctx context.Context, c *spec.ConnectorState) error {
	var found secrets
	settings, lost := r.recall(c.Active, &found)
	if len(lost) > 0 {
		r.log.Warn("cannot resolve references in the settings of a connector that is gone, it is told that they are empty",
			"component", "agent", "pipeline_id", c.PipelineID, "connector_id", c.ID, "settings", lost)
	}
	connector, err := r.dispense(ctx, c, &found)
	if err != nil {
		return fmt.Errorf("cannot delete connector %s: %w", c.ID, err)
	}
	err = connector.LifecycleOnDeleted(ctx, settings)
	if terr := connector.Teardown(ctx); terr != nil {
		err = errors.Join(err, terr)
	}
	if err != nil {
		return fmt.Errorf("cannot delete connector %s: %w", c.ID, found.coverIn(err))
	}
	return nil
}

func (r *runner) dispense(ctx context.Context, c *spec.ConnectorState, found *secrets) (connector.Connector, error) {
	d := dispenser{r.plugins, &r.starts, found}
	if c.Type == spec.TypeSource {
		return d.Source(ctx, c.Plugin, c.ID)
	}
	return d.Destination(ctx, c.Plugin, c.ID)
}

// resolve replaces the references in settings, and adds what they led to to found. How long
// each may take is bounded. Problems have the paths of a pipeline with these settings in
// its first connector.
func (r *runner) resolve(ctx context.Context, settings map[string]string, found *secrets) (map[string]string, []spec.Problem) {
	p := &spec.Pipeline{Connectors: []spec.Connector{{Settings: settings}}}
	lookup := r.inputs.lookup(ctx)
	lookup.Found = found.add
	resolved, problems := spec.Resolve(p, lookup)
	if len(problems) > 0 {
		return nil, problems
	}
	return resolved.Connectors[0].Settings, nil
}

// recall replaces the references in settings that were active in an earlier version. What
// they refer to may be gone: then a setting is empty, and its name in lost. What they led
// to is added to found.
func (r *runner) recall(settings map[string]string, found *secrets) (resolved map[string]string, lost []string) {
	resolved = map[string]string{}
	for name, value := range settings {
		one, problems := r.resolve(context.Background(), map[string]string{name: value}, found)
		if len(problems) > 0 {
			lost = append(lost, name)
		}
		resolved[name] = one[name]
	}
	slices.Sort(lost)
	return resolved, lost
}

func joined(problems []spec.Problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, errors.New(p.Message))
	}
	return errors.Join(errs...)
}

// dispenser is the plugin host as the engine sees it.
type dispenser struct {
	host    *plugins.Host
	starts  *tally
	secrets *secrets
}

func (d dispenser) Source(ctx context.Context, plugin, id string) (connector.Source, error) {
	s, err := d.host.Source(ctx, plugin, id)
	if err != nil {
		return nil, err
	}
	d.dispensed(plugin, s)
	return s, nil
}

func (d dispenser) Destination(ctx context.Context, plugin, id string) (connector.Destination, error) {
	s, err := d.host.Destination(ctx, plugin, id)
	if err != nil {
		return nil, err
	}
	d.dispensed(plugin, s)
	return s, nil
}

// dispensed counts a connector. If it logs through the host it gets to log no secrets.
func (d dispenser) dispensed(plugin string, connector any) {
	d.starts.add(plugin)
	logs, ok := connector.(interface {
		LogThrough(wrap func(slog.Handler) slog.Handler)
	})
	if ok && len(d.secrets.known()) > 0 {
		logs.LogThrough(func(h slog.Handler) slog.Handler { return discreet{h, d.secrets} })
	}
}

func (d dispenser) WithDefaults(plugin string, settings map[string]string) map[string]string {
	s, err := d.host.Specification(plugin)
	if err != nil { // its executable has gone since it was started
		return settings
	}
	return s.Destination.ApplyDefaults(settings)
}

// errNoProcessors is what a pipeline with processors gets.
var errNoProcessors = errors.New("no processor plugins exist in this version; remove the processor")

func (d dispenser) Processor(_ context.Context, id string, p spec.Processor) (engine.Processor, error) {
	return nil, fmt.Errorf("processor plugin %q does not exist: %w", p.Plugin, errNoProcessors)
}
