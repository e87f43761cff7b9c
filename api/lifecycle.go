package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// runHandlers starts and stops pipelines.
type runHandlers struct {
	shared
	RetryPlugins func() // see Server
}

// Start starts a pipeline, and answers when it runs or when the first attempt failed.
func (s *runHandlers) Start(w http.ResponseWriter, r *http.Request) (any, error) {
	id, since := r.PathValue("id"), time.Now()
	d, limit, err := s.unchanged(w, r, id)
	if err != nil {
		return nil, err
	}
	s.retryPlugins()
	done := s.started
	switch {
	case d.Want() != spec.StatusRunning:
		done, err = s.running, s.setStatus(w, r, d, spec.StatusRunning)
	case s.checkRunsHere(id) != nil:
		err = s.checkRunsHere(id)
	case s.Desired.Active(d):
		err = rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineRunning, "pipeline %q is running", id).
			Suggest("the pipeline already runs; restart it if needed")
	default:
		err = s.Loop.Restart(r.Context(), id)
	}
	if err != nil {
		return nil, err
	}
	return rest.Empty{}, s.wait(w, r, limit, "pipeline "+id+" is starting", s.unlessOverruled(r, id, spec.StatusRunning,
		func() (bool, error) { return done(r, id, since) }))
}

// Stop stops a pipeline, and answers when it has stopped. A pipeline that is already stopping may be forced to stop.
func (s *runHandlers) Stop(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Stop
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	d, limit, err := s.unchanged(w, r, id)
	if err != nil {
		return nil, err
	}
	if d.Want() == spec.StatusStopped && s.stopped(id) {
		return nil, notRunning(id)
	}
	if d.Want() != spec.StatusStopped {
		if err := s.setStatus(w, r, d, spec.StatusStopped); err != nil {
			return nil, err
		}
	}
	if body.Force {
		if err := s.Loop.ForceStop(r.Context(), id); err != nil {
			return nil, err
		}
	}
	return rest.Empty{}, s.wait(w, r, limit, "pipeline "+id+" is stopping", s.unlessOverruled(r, id, spec.StatusStopped,
		func() (bool, error) { return s.stopped(id), nil }))
}

// unlessOverruled returns a function that calls done, and fails when another request meanwhile deletes, starts or stops
// the pipeline.
func (s *runHandlers) unlessOverruled(r *http.Request, id string, want spec.Status,
	done func() (bool, error)) func() (bool,
	error) {
	next := time.Now().Add(pollInterval)
	return func() (bool, error) {
		if ok, err := done(); ok || err != nil || time.Now().Before(next) {
			return ok, err
		}
		next = time.Now().Add(pollInterval)
		d, err := s.Desired.Get(r.Context(), id)
		switch {
		case errors.Is(err, spec.ErrNotFound), err == nil && !d.Withdrawn.IsZero():
			return false, rest.Errorf(rest.Aborted, rest.ReasonPipelineBeingDeleted, "another request, or its file, "+
				"has deleted pipeline %q in the meantime", id)
		case err != nil:
			return false, err
		case d.Want() != want:
			return false, rest.Errorf(rest.Aborted, rest.ReasonPipelineOverruled, "another request, or its file, "+
				"declared pipeline %q %s in the meantime", id, d.Want()).
				Suggest("repeat the request to override it")
		}
		return false, nil
	}
}

// unchanged returns the declaration of a pipeline if its ETag matches the request, and how long the client waits. It
// sets the header with the generation.
func (s *runHandlers) unchanged(
	w http.ResponseWriter, r *http.Request, id string,
) (*spec.Declaration, time.Duration, error) {
	limit, err := waitTime(r)
	if err != nil {
		return nil, 0, err
	}
	d, err := s.Desired.Pipeline(r.Context(), id)
	if err != nil {
		return nil, 0, err
	}
	setGeneration(w, d)
	return d, limit, matches(r, pipelineTag(&d.Pipeline))
}

// Restart stops a pipeline and starts it again.
func (s *runHandlers) Restart(w http.ResponseWriter, r *http.Request) (any, error) {
	id, since := r.PathValue("id"), time.Now()
	d, limit, err := s.unchanged(w, r, id)
	if err != nil {
		return nil, err
	}
	if d.Want() != spec.StatusRunning {
		return nil, notRunning(id)
	}
	if err := s.checkRunsHere(id); err != nil {
		return nil, err
	}
	s.retryPlugins()
	if err := s.Loop.Restart(r.Context(), id); err != nil {
		return nil, err
	}
	return rest.Empty{}, s.wait(w, r, limit, "pipeline "+id+" is restarting",
		s.unlessOverruled(r, id, spec.StatusRunning, func() (bool, error) { return s.started(r, id, since) }))
}

func (s *runHandlers) retryPlugins() {
	if s.RetryPlugins != nil {
		s.RetryPlugins()
	}
}

// setStatus changes the desired status of d's pipeline. A file keeps its declared status, which is overridden until the
// file changes.
func (s *runHandlers) setStatus(w http.ResponseWriter, r *http.Request, d *spec.Declaration, status spec.Status) error {
	if d.Owner.Kind == spec.OwnerFile {
		p := d.Pipeline.Clone()
		p.Status = status
		if err := runnable(s.Desired.Parser, p); err != nil {
			return err
		}
		err := s.Desired.SetOverride(r.Context(), d.Pipeline.ID, status)
		if errors.Is(err, spec.ErrNotFound) { // deleted since it was read
			_, err = s.Desired.Pipeline(r.Context(), d.Pipeline.ID)
		}
		return err
	}
	_, err := s.edit(w, r, &edit{ID: d.Pipeline.ID, Of: d, Live: true, Current: pipelineTag,
		Apply: func(p *spec.Pipeline) error {
			p.Status = status
			return runnable(s.Desired.Parser, p)
		}})
	return err
}

// runnable returns the reason why a pipeline cannot run.
func runnable(parser spec.Parser, p *spec.Pipeline) error {
	if p.Status != spec.StatusRunning {
		return nil
	}
	err := validate(parser, p, within(""))
	if e, ok := err.(*rest.Error); ok {
		e.Kind = rest.FailedPrecondition
	}
	return err
}

// started reports whether the pipeline runs since then, or returns the reason why it does not.
func (s *runHandlers) started(_ *http.Request, id string, since time.Time) (bool, error) {
	state, _ := s.Loop.State(id)
	if p := s.Placements.Assignment(id); p != nil && p.Member != "" {
		return true, nil // that member has the details
	}
	since = since.Round(0)
	a := state.LastAttempt
	failed := a != nil && a.Error != "" && !a.At.Before(since) && state.RunningGeneration != 0
	switch {
	case failed && state.RunningGeneration != a.Generation:
		return false, rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineStartFailed,
			"cannot start generation %d of pipeline %q, and generation %d runs instead: %s", a.Generation, id,
			state.RunningGeneration, a.Error)
	case failed && state.Phase == spec.PhaseRunning && state.Since.Before(since):
		return false, rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineStartFailed,
			"cannot restart pipeline %q, and its current run continues: %s", id, a.Error)
	}
	if state.Since.Before(since) {
		return false, nil
	}
	switch state.Phase {
	case spec.PhaseRunning:
		return true, nil
	case spec.PhaseRecovering, spec.PhaseDegraded:
		e := rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineStartFailed, "cannot start pipeline %q: %s", id,
			state.Error)
		if state.RetryAt != nil {
			e.Suggest("the agent retries at %s", state.RetryAt.UTC().Format(time.RFC3339))
		}
		return false, e
	}
	return false, nil
}

// running is like started, for a pipeline whose requested stop may never have begun.
func (s *runHandlers) running(r *http.Request, id string, since time.Time) (bool, error) {
	ok, err := s.started(r, id, since)
	if ok || err != nil {
		return ok, err
	}
	if state, _ := s.Loop.State(id); state.Phase != spec.PhaseRunning {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	settled := s.Loop.Check(ctx) == nil
	state, _ := s.Loop.State(id)
	return settled && state.Phase == spec.PhaseRunning, nil
}

// stopped reports whether a pipeline does not run, on any member of a cluster.
func (s *runHandlers) stopped(id string) bool {
	if p := s.Placements.Assignment(id); p != nil && p.Member != "" {
		return false
	}
	state, known := s.Loop.State(id)
	return !known || state.Phase == spec.PhaseStopped
}
