package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// pollInterval is the time between two checks of a condition when no change is notified.
const pollInterval = 250 * time.Millisecond

// ErrStarting is returned by Server.Ready while the agent is starting.
var ErrStarting = errors.New("the agent is starting")

// Loop runs the pipelines of the agent.
type Loop interface {
	// State returns the state of a pipeline, and false when none has been observed.
	State(id string) (spec.State, bool)
	// Restart restarts a pipeline, or starts it at once if it waits after a failure. It returns when the request is
	// recorded.
	Restart(ctx context.Context, id string) error
	// Check returns once the loop has acted on all earlier declarations.
	Check(ctx context.Context) error
	// ForceStop ends a stopping pipeline without waiting for the outstanding records. It returns when the request is
	// recorded.
	ForceStop(ctx context.Context, id string) error
}

// Placements describes the pipelines of a cluster. Outside a cluster, its methods return nil.
type Placements interface {
	// Placement returns the placement of a pipeline that another member of the cluster has to run, nil for a pipeline
	// that this agent has to run.
	Assignment(id string) *spec.Assignment
	// Terms returns the cluster terms of a pipeline.
	Terms(id string) *spec.EffectiveTerms
	// Instances returns the instances of a pipeline that declares several, nil for a pipeline with a single instance.
	Instances(d *spec.Declaration) *spec.RunningInstances
	// DeadLettersElsewhere returns the numbers of dead letters of a pipeline on the disks of other members.
	DeadLettersElsewhere(id string) []spec.MemberDeadLetters
}

// shared holds the dependencies that all resources share.
type shared struct {
	Desired    *desired
	Loop       Loop
	Placements Placements
	Changed    func() <-chan struct{} // see Server
	Guard      *guard.Guard
	Rates      func() []spec.PipelineRates // of running pipelines; nil: rates are not measured
	Closing    <-chan struct{}             // closed to end long-running responses
}

// view returns the view of settings that the client may see.
func (s *shared) view(r *http.Request) *view {
	return s.Desired.View(s.Guard.RoleOf(r) < guard.Admin)
}

// edit performs e for the request. The answer has the resulting generation in a header.
func (s *shared) edit(w http.ResponseWriter, r *http.Request, e *edit) (*spec.Declaration, error) {
	d, err := s.Desired.Edit(r, e)
	if err == nil {
		setGeneration(w, d)
	}
	return d, err
}

// vacant returns an error if a pipeline with this id exists, even if it is being deleted.
func (s *shared) vacant(r *http.Request, id string) error {
	d, err := s.Desired.Get(r.Context(), id)
	switch {
	case errors.Is(err, spec.ErrNotFound):
		return nil
	case err != nil:
		return err
	case d.Purge:
		return beingDeleted(id)
	case d.Withdrawn.IsZero():
		return pipelineExists(id)
	}
	return rest.Errorf(rest.NotOwner, rest.ReasonOwnedByFile,
		"pipeline %q was declared in %s until recently and keeps its position in case the file returns", id,
		d.Owner.Path).
		Suggest("choose another id, or DELETE /v1/pipelines/%s to end the wait", id)
}

func beingDeleted(id string) error {
	return rest.Errorf(rest.Aborted, rest.ReasonPipelineBeingDeleted, "pipeline %q is being deleted",
		id).Suggest("try again after the deletion")
}

func pipelineExists(id string) error {
	return rest.Errorf(rest.AlreadyExists, rest.ReasonPipelineExists, "pipeline %q exists already", id).
		With("configPath", "id").Suggest("choose another id, or leave it out to get one")
}

// wait returns when done reports true or fails. It returns at once if limit is 0, which means that the client does not
// want to wait. what names the operation in progress.
func (s *shared) wait(
	w http.ResponseWriter, r *http.Request, limit time.Duration, what string, done func() (bool, error),
) error {
	if limit == 0 {
		return nil
	}
	ctx, cancel := s.Long(w, r)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		changed := s.Changed()
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return rest.Errorf(rest.DeadlineExceeded, rest.ReasonTimeout, "%s, but not completed after %v", what,
				limit).
				Suggest("the operation continues; query its status, or set a longer ?wait=")
		}
	}
}

// replaceable returns the declaration of the API that a whole pipeline replaces, nil if there is none.
func (s *shared) replaceable(r *http.Request, id string) (*spec.Declaration, error) {
	d, err := s.Desired.Pipeline(r.Context(), id)
	if err != nil {
		return nil, s.vacant(r, id)
	}
	return d, owned(d)
}

// checkRunsHere returns the error for an operation that only the member running the pipeline can perform, nil if this
// agent runs it.
func (s *shared) checkRunsHere(id string) error {
	p := s.Placements.Assignment(id)
	switch {
	case p == nil:
		return nil
	case p.Member == "":
		return rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineElsewhere,
			"no member of the cluster currently runs pipeline %q", id).
			Suggest("GET /v1/cluster shows which member runs each pipeline")
	}
	return rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineElsewhere,
		"pipeline %q runs on cluster member %q", id, p.Member).
		Suggest("send the request to that member")
}

// notRunning returns the error for an operation that requires a running pipeline.
func notRunning(id string) error {
	return rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineNotRunning, "pipeline %q is not running",
		id).Suggest("start it first")
}

// Long returns a context that ends with r's or when the server ends. It removes the limit on the time for reading r,
// which would also end a long response.
func (s *shared) Long(w http.ResponseWriter, r *http.Request) (context.Context, context.CancelFunc) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // some writers have no deadlines
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		select {
		case <-s.Closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// read reads the body of a request for an operation. If the server does not offer the operation, it returns the error
// for an unknown path.
func read(w http.ResponseWriter, r *http.Request, body any, offered bool) error {
	if err := readJSON(w, r, body); err != nil {
		return err
	}
	if !offered {
		return notFound()
	}
	return nil
}
