package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Reservations keep several members of a cluster from replaying the dead letters of a pipeline at the same time.
type Reservations interface {
	// Begin reserves the replay of a pipeline until end is called with its final status. It fails when another member
	// of a cluster has the reservation. status returns the progress, for other members. cancel is called when another
	// member cancels the replay, or with an error when the reservation is lost; it must not block, and may be called
	// again.
	Begin(ctx context.Context, pipeline string, status func() spec.Replay,
		cancel func(why error)) (end func(spec.Replay), err error)
	// RemoteReplay returns the running or last replay of a pipeline on another member of a cluster; ok is false if none
	// is known.
	RemoteReplay(ctx context.Context, pipeline string) (status spec.Replay, ok bool)
	// Cancel requests the cancellation of a replay on another member. It waits for some seconds for that member to
	// answer; RemoteReplay shows whether it has.
	Cancel(ctx context.Context, pipeline string) error
}

// DeadLetters is the dead-letter store.
type DeadLetters interface {
	// Select returns an iterator over the present dead letters of a pipeline that the request selects.
	Select(ctx context.Context, pipeline string, request spec.ReplayRequest, reserve Reserve) (Next, error)
	// Settled removes dead letters that were settled in the version that was loaded. A dead letter that was edited
	// since then stays.
	Settled(ctx context.Context, pipeline string, all []Replay) error
	// Again takes back a dead letter that was refused again. The first refusal replaces it, and further ones make
	// another dead letter.
	Again(ctx context.Context, d *spec.Declaration, id int64, l *engine.DeadLetter, first bool) error
	// Keep takes over another record that the pipeline of d refused.
	Keep(ctx context.Context, d *spec.Declaration, l *engine.DeadLetter) error
}

// Replays runs replays, at most one per pipeline. Set the exported fields before use.
type Replays struct {
	DeadLetters  DeadLetters
	Reservations Reservations // nil: no other agent replays these dead letters
	Store        engine.Store
	// Declared returns the present version of a pipeline.
	Declared func(ctx context.Context, id string) (spec.Declaration, error)
	// Assemble returns an unprepared run of d's pipeline, and a function that redacts secrets in its errors.
	Assemble func(ctx context.Context, d *spec.Declaration) (p *engine.Pipeline, redact func(error) error, err error)
	Changed  func() // called after progress; must not block
	Log      *slog.Logger

	starting sync.Mutex // one at a time

	mu     sync.Mutex
	last   map[string]*run // guarded by mu: the running or last replay, by pipeline id
	closed bool            // guarded by mu
	wg     sync.WaitGroup
}

// Start begins a replay of dead letters of a pipeline. It returns spec.ErrConflict if one is running.
func (s *Replays) Start(ctx context.Context, pipeline string, request spec.ReplayRequest) (spec.Replay, error) {
	d, err := s.Declared(ctx, pipeline)
	if err != nil {
		return spec.Replay{}, err
	}
	s.starting.Lock()
	defer s.starting.Unlock()
	if err := s.free(pipeline); err != nil {
		return spec.Replay{}, err
	}
	r := newRun(s, &d, request.From)
	r.end = func(spec.Replay) {}
	if s.Reservations != nil {
		if r.end, err = s.Reservations.Begin(ctx, pipeline, r.status, r.endEarly); err != nil {
			return spec.Replay{}, err
		}
	}
	if r.next, err = s.DeadLetters.Select(ctx, pipeline, request, sdk.Reserve); err != nil {
		r.end(r.ended(err))
		return spec.Replay{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		go r.end(r.ended(errEnding))
		return spec.Replay{}, errEnding
	}
	if s.last == nil {
		s.last = map[string]*run{}
	}
	s.last[pipeline] = r
	s.wg.Go(r.do)
	return r.status(), nil
}

// free returns an error unless this agent can replay the dead letters of a pipeline.
func (s *Replays) free(pipeline string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errEnding
	case s.last[pipeline] != nil && s.last[pipeline].status().Running:
		return fmt.Errorf("its dead letters are being replayed: %w", spec.ErrConflict)
	}
	return nil
}

var errEnding = errors.New("the agent is shutting down")

// Status returns the running or last replay of a pipeline, also on another member of a cluster; ok is false if none is
// known since the agent started.
func (s *Replays) Status(ctx context.Context, pipeline string) (status spec.Replay, ok bool) {
	if r := s.here(pipeline); r != nil {
		status, ok = r.status(), true
	}
	if status.Running || s.Reservations == nil {
		return status, ok
	}
	if other, there := s.Reservations.RemoteReplay(ctx, pipeline); there &&
		(!ok || other.Running || other.Started.After(status.Started)) {
		return other, true
	}
	return status, ok
}

// here returns the running or last replay of a pipeline on this agent, or nil.
func (s *Replays) here(pipeline string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[pipeline]
}

// Cancel ends a replay once its in-flight records are settled, on any member of a cluster, and returns the result of
// Status. It does not wait for the end, and may be called again.
func (s *Replays) Cancel(ctx context.Context, pipeline string) (status spec.Replay, ok bool, err error) {
	if r := s.here(pipeline); r != nil && r.status().Running {
		r.endEarly(nil)
		return r.status(), true, nil
	}
	if s.Reservations != nil {
		if err := s.Reservations.Cancel(ctx, pipeline); err != nil {
			return status, false, err
		}
	}
	status, ok = s.Status(ctx, pipeline)
	return status, ok, nil
}

// drainTimeout bounds how long in-flight records may take to settle when the agent ends.
const drainTimeout = 10 * time.Second

// Run enables replays until ctx ends. Then it ends them and returns when they have ended.
func (s *Replays) Run(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	for _, r := range s.last {
		r.exhausted()
		stop := time.AfterFunc(drainTimeout, func() { r.cancel(errors.New("the agent has shut down")) })
		defer stop.Stop()
	}
	s.mu.Unlock()
	s.wg.Wait()
	return nil
}

// fail sets the reason for the end of a replay.
func (s *Replays) fail(r *run, err error) {
	s.Log.Warn("a replay of dead letters has failed", "component", "dead-letters", "pipeline_id",
		r.declared.Pipeline.ID, "err", err)
}

// progress is the progress of a replay.
type progress = spec.Replay

// count changes the progress of a run.
func (r *run) count(change func(p *progress)) {
	r.mu.Lock()
	change(&r.progress)
	r.mu.Unlock()
	if r.replays.Changed != nil {
		r.replays.Changed()
	}
}

func (r *run) status() spec.Replay {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress
}

// exhausted ends the run once its in-flight records are settled.
func (r *run) exhausted() { r.drainOnce.Do(func() { close(r.drain) }) }

// endEarly ends the run as exhausted does. why is nil for a cancellation.
func (r *run) endEarly(why error) {
	r.mu.Lock()
	if r.progress.Cancelled = true; r.why == nil {
		r.why = why
	}
	r.mu.Unlock()
	r.exhausted()
}

func (r *run) do() {
	err := r.perform()
	r.mu.Lock()
	err = cmp.Or(err, r.why)
	r.mu.Unlock()
	last := r.ended(err)
	r.end(last) // before another replay may begin
	if err != nil {
		r.replays.fail(r, err)
	}
	r.count(func(p *progress) { *p = last })
}

// ended returns the final status of the run.
func (r *run) ended(err error) spec.Replay {
	last := r.status()
	last.Running, last.Ended = false, time.Now().UTC()
	if err != nil {
		last.Error = texts.TruncateError(err.Error())
	}
	return last
}

// perform assembles and runs the pipeline.
func (r *run) perform() error {
	p, redact, err := r.replays.Assemble(r.ctx, r.declared)
	if err != nil {
		return err
	}
	r.secrets = redact
	stop := r.adapt(p)
	defer stop()
	if err := p.Prepare(r.ctx); err != nil {
		return redact(fmt.Errorf("cannot start the replay: %w", err))
	}
	err = p.Run(r.ctx, r.drain, func() {})
	if cause := context.Cause(r.ctx); cause != nil && err != nil {
		err = cause
	}
	return redact(err)
}
