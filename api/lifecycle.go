package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

const (
	defaultWait = 60 * time.Second       // for what an action leads to
	maxWait     = 10 * time.Minute       // that a client may ask for
	lookAgain   = 250 * time.Millisecond // when nothing is told to have changed
)

// start has a pipeline run and answers when it does, or when the first attempt failed.
func (s *Server) start(w http.ResponseWriter, r *http.Request) (any, error) {
	id, since := r.PathValue("id"), time.Now()
	limit, err := waitOf(r)
	if err != nil {
		return nil, err
	}
	d, err := s.unchanged(w, r, id)
	if err != nil {
		return nil, err
	}
	switch {
	case d.Want() != spec.StatusRunning:
		err = s.setStatus(w, r, d, spec.StatusRunning)
	case s.active(d):
		err = rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineRunning, "pipeline %q is running", id).
			Suggest("it runs already; restart it if that is what you want")
	default:
		err = s.Observed.Restart(r.Context(), id)
	}
	if err != nil {
		return nil, err
	}
	return rest.Empty{}, s.wait(w, r, limit, "pipeline "+id+" is starting", func() (bool, error) { return s.started(id, since) })
}

// stop has a pipeline stop and answers when it did. One that is stopping already may be
// forced to.
func (s *Server) stop(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Stop
	if err := read(w, r, &body); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	limit, err := waitOf(r)
	if err != nil {
		return nil, err
	}
	d, err := s.unchanged(w, r, id)
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
		if err := s.Observed.CutOff(r.Context(), id); err != nil {
			return nil, err
		}
	}
	return rest.Empty{}, s.wait(w, r, limit, "pipeline "+id+" is stopping", func() (bool, error) { return s.stopped(id), nil })
}

// unchanged returns the declaration of a pipeline that is as the client knows it. The
// answer will tell its generation.
func (s *Server) unchanged(w http.ResponseWriter, r *http.Request, id string) (*spec.Declaration, error) {
	d, err := s.pipeline(r.Context(), id)
	if err != nil {
		return nil, err
	}
	tell(w, d)
	return d, matches(r, pipelineTag(&d.Pipeline))
}

func notRunning(id string) error {
	return rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineNotRunning, "pipeline %q is not running", id).Suggest("start it first")
}

// restart stops a pipeline and starts it again.
func (s *Server) restart(w http.ResponseWriter, r *http.Request) (any, error) {
	id, since := r.PathValue("id"), time.Now()
	limit, err := waitOf(r)
	if err != nil {
		return nil, err
	}
	d, err := s.unchanged(w, r, id)
	if err != nil {
		return nil, err
	}
	if d.Want() != spec.StatusRunning {
		return nil, notRunning(id)
	}
	if err := s.Observed.Restart(r.Context(), id); err != nil {
		return nil, err
	}
	return rest.Empty{}, s.wait(w, r, limit, "pipeline "+id+" is restarting", func() (bool, error) { return s.started(id, since) })
}

// setStatus changes the status that d's pipeline should be in. A file keeps what it
// declares, and is overridden until it changes.
func (s *Server) setStatus(w http.ResponseWriter, r *http.Request, d *spec.Declaration, status spec.Status) error {
	if d.Owner.Kind == spec.OwnerFile {
		p := d.Pipeline.Clone()
		p.Status = status
		if err := runnable(p); err != nil {
			return err
		}
		err := s.Desired.SetOverride(r.Context(), d.Pipeline.ID, status)
		if errors.Is(err, spec.ErrNotFound) { // gone since it was read
			_, err = s.pipeline(r.Context(), d.Pipeline.ID)
		}
		return err
	}
	_, err := s.edit(w, r, &edit{id: d.Pipeline.ID, live: true, current: pipelineTag, apply: func(p *spec.Pipeline) error {
		p.Status = status
		return runnable(p)
	}})
	return err
}

// runnable returns why a pipeline that is to run cannot.
func runnable(p *spec.Pipeline) error {
	if p.Status != spec.StatusRunning {
		return nil
	}
	err := validate(p, within(""))
	if e, ok := err.(*rest.Error); ok {
		e.Kind = rest.FailedPrecondition
	}
	return err
}

// started reports whether the pipeline runs since then, or why it does not.
func (s *Server) started(id string, since time.Time) (bool, error) {
	state, _ := s.Observed.State(id)
	if state.Since.Before(since.Round(0)) {
		return false, nil
	}
	switch state.Phase {
	case spec.PhaseRunning:
		return true, nil
	case spec.PhaseRecovering, spec.PhaseDegraded:
		e := rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineStartFailed, "cannot start pipeline %q: %s", id, state.Error)
		if state.RetryAt != nil {
			e.Suggest("it is tried again at %s", state.RetryAt.UTC().Format(time.RFC3339))
		}
		return false, e
	}
	return false, nil
}

func (s *Server) stopped(id string) bool {
	state, known := s.Observed.State(id)
	return !known || state.Phase == spec.PhaseStopped
}

// wait returns when done reports true or fails, at once if limit is 0: the client does
// not want to wait. what is going on meanwhile.
func (s *Server) wait(w http.ResponseWriter, r *http.Request, limit time.Duration, what string, done func() (bool, error)) error {
	if limit == 0 {
		return nil
	}
	ctx, cancel := s.long(w, r)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		changed := s.Observed.Changed()
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return rest.Errorf(rest.DeadlineExceeded, rest.ReasonTimeout, "%s, and still not done", what).
				Suggest("it goes on; ask for its status, or give ?wait= more time")
		}
	}
}

// waitOf returns how long the client wants to wait: seconds, or a duration such as 90s.
// It is asked before anything is done, so that what is refused was not done.
func waitOf(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return defaultWait, nil
	}
	d, err := time.ParseDuration(text)
	if seconds, serr := strconv.ParseUint(text, 10, 16); serr == nil {
		d, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || d < 0 || d > maxWait {
		return 0, fieldError(spec.CodeInvalid, "wait", "wait must be a time from 0 to "+maxWait.String())
	}
	return d, nil
}
