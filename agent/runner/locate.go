package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec"
)

// check returns a check of the plugins and settings of a declared pipeline, with the values from resolved.
func (r *Runner) check(resolved *spec.Pipeline) func(*spec.Pipeline) []spec.Problem {
	return func(declared *spec.Pipeline) []spec.Problem {
		return r.Catalog.Check(context.Background(), ordered(resolved, declared))
	}
}

// ordered returns resolved with the connectors in the order of the file.
func ordered(resolved, declared *spec.Pipeline) *spec.Pipeline {
	p := *resolved
	p.Connectors = nil
	for _, c := range declared.Connectors {
		i := slices.IndexFunc(resolved.Connectors, func(o spec.Connector) bool { return o.ID == c.ID })
		p.Connectors = append(p.Connectors, resolved.Connectors[i])
	}
	return &p
}

// checkInstances returns an error, with places, if the pipeline of d cannot have as many instances as it declares.
// This was checked when the file was read, except for the values of references and the names of executables.
func (r *Runner) checkInstances(d *spec.Declaration, resolved *spec.Pipeline) error {
	check := func(declared *spec.Pipeline) []spec.Problem {
		p := ordered(resolved, declared)
		for i := range p.Connectors {
			if found, err := r.Catalog.Host.Find(p.Connectors[i].Plugin); err == nil &&
				found.Kind == pluginname.Standalone {
				p.Connectors[i].Plugin = found.FullName().String()
			}
		}
		return spec.CheckInstances(p, true)
	}
	if problems := check(&d.Pipeline); len(problems) > 0 {
		return r.located(d, engine.Permanent(joined(problems)), check)
	}
	return nil
}

// divided returns a resolved pipeline whose sources read the part for the instance that this agent runs.
func (r *Runner) divided(resolved *spec.Pipeline) (*spec.Pipeline, error) {
	instance, instances := r.instanceOf(resolved.ID), resolved.Instances
	if instance == 0 || !instances.Several() {
		return resolved, nil
	}
	if instances != spec.EachMember && instance > instances.Number() {
		return nil, fmt.Errorf("cannot run instance %d of pipeline %s: it now has %s", instance,
			resolved.ID, instances)
	}
	p := *resolved
	p.Connectors = slices.Clone(p.Connectors)
	for i := range p.Connectors {
		if c := &p.Connectors[i]; c.Type == spec.TypeSource {
			c.Settings = spec.DivideSource(c.Plugin, c.Settings, instance, instances)
		}
	}
	return &p, nil
}

// instanceOf returns the number of the instance of a pipeline that this agent runs, 0 if there is only one.
func (r *Runner) instanceOf(pipelineID string) int {
	if r.Instance == nil {
		return 0
	}
	return r.Instance(pipelineID)
}

// epochOf returns the epoch of the claim under which this agent runs a pipeline, "" when there is none.
func (r *Runner) epochOf(pipelineID string) string {
	if r.Epoch == nil {
		return ""
	}
	epoch, ok := r.Epoch(pipelineID)
	if !ok {
		return ""
	}
	return strconv.FormatUint(epoch, 10)
}

// waitToWriteOf returns a function that a run calls to wait before it writes, nil for none.
func waitToWriteOf(wait func(context.Context, string) error, pipelineID, epoch string) func(context.Context) error {
	if epoch == "" || wait == nil {
		return nil
	}
	return func(ctx context.Context) error { return wait(ctx, pipelineID) }
}

// refused returns err, which prevents the preparation of the pipeline of d, with places. The error is permanent if the
// pipeline names plugins or settings that do not exist: only a change of the declaration or of the plugins fixes that,
// and both cause a new attempt.
func (r *Runner) refused(d *spec.Declaration, err error, resolved *spec.Pipeline) error {
	check := r.check(resolved)
	if slices.ContainsFunc(check(&d.Pipeline), func(p spec.Problem) bool { return p.Severity == spec.SeverityError }) {
		err = engine.Permanent(err)
	}
	return r.located(d, err, check)
}

// located adds to err, which prevents the run of d, the places in its file of the problems that check finds.
func (r *Runner) located(d *spec.Declaration, err error, check func(*spec.Pipeline) []spec.Problem) error {
	if d.Owner.Places == "" {
		return err
	}
	var places []string
	for _, problem := range check(&d.Pipeline) {
		problem = d.Locate(problem)
		places = append(places, fmt.Sprintf("%s:%d:%d", problem.File, problem.Line, problem.Column))
	}
	if len(places) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", strings.Join(places, ", "), err)
}

func joined(problems []spec.Problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, errors.New(p.Message))
	}
	return errors.Join(errs...)
}
