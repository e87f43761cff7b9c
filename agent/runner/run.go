package runner

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/redact"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// run is a run of the engine that keeps its secrets. It is listed while it runs.
type run struct {
	*engine.Pipeline
	runner   *Runner
	resolved *reference.Resolution            // the values with which it begins
	declared atomic.Pointer[spec.Declaration] // the current version
	tolerant atomic.Bool                      // the current version, or the one being prepared, tolerates refusals
	version  atomic.Pointer[spec.Pipeline]    // the current version, or the one being prepared
	current  redact.Redactor                  // knows the values of the current version
	// knows those values, and the values of the last attempted amendment and of settings recalled for it
	secrets redact.Redactor
}

// Run runs the pipeline.
func (o *run) Run(ctx context.Context, drain <-chan struct{}, started func()) error {
	id := o.ID()
	o.runner.setRunning(id, o.Pipeline)
	defer o.runner.unsetRunning(id)
	return o.secrets.Error(o.Pipeline.Run(ctx, drain, func() {
		o.runner.References.Running(id, o.resolved)
		started()
	}))
}

// guard adds the guard to a destination if refusals are tolerated. The dead-letter queue itself has no guard.
func (o *run) guard(plugin, id string, d connector.Destination) connector.Destination {
	if !o.tolerant.Load() || id == o.Declared.QualifiedID(spec.QueueID) {
		return d
	}
	return o.runner.poison.Wrap(o.ID(), id, d, func(settings map[string]string) map[string]string {
		return o.Plugins.WithDefaults(plugin, settings)
	})
}

// keep hands over a dead letter.
func (o *run) keep(ctx context.Context, l *engine.DeadLetter) error {
	if o.runner.Keep == nil {
		return nil
	}
	return o.runner.Keep(ctx, o.declared.Load(), l)
}

// recall resolves the settings that a connector had in an earlier version.
func (o *run) recall(settings map[string]string) (resolved map[string]string, lost []string) {
	return o.runner.References.Recall(settings, &o.secrets)
}

// Amend prepares the amendment of the run to the version d.
func (o *run) Amend(ctx context.Context, d *spec.Declaration) (reconcile.Amendment, error) {
	resolved, err := o.runner.resolve(ctx, d)
	if err != nil {
		return nil, err
	}
	o.secrets.Set(&o.current, &resolved.Secrets)
	if err := o.runner.checkInstances(d, resolved.Pipeline); err != nil {
		return nil, o.secrets.Error(err)
	}
	divided, err := o.runner.divided(resolved.Pipeline)
	if err != nil {
		return nil, err
	}
	o.tolerant.Store(d.Pipeline.DeadLetterQueue.Tolerant())
	o.version.Store(&d.Pipeline)
	a, err := o.Pipeline.Amend(ctx, &d.Pipeline, divided)
	if errors.Is(err, spec.ErrNeedsRestart) {
		return nil, o.secrets.Error(err)
	}
	if err != nil {
		return nil, o.runner.refused(d, o.secrets.Error(err), resolved.Pipeline)
	}
	return &amendment{a, o, resolved, d}, nil
}

// amendment is an amendment of the engine that keeps its secrets.
type amendment struct {
	*engine.Amendment
	run      *run
	resolved *reference.Resolution
	declared *spec.Declaration
}

// Apply amends the run to the version.
func (a *amendment) Apply(drained func()) error {
	if err := a.Amendment.Apply(drained); err != nil {
		return a.run.secrets.Error(err)
	}
	a.run.declared.Store(a.declared)
	a.run.current.Set(&a.resolved.Secrets)
	a.run.secrets.Set(&a.resolved.Secrets)
	a.run.runner.References.Running(a.run.ID(), a.resolved)
	return nil
}
