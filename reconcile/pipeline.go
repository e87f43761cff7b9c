package reconcile

import (
	"log/slog"
	"time"

	"github.com/conduit-agent/conduit/reconcile/plan"
	"github.com/conduit-agent/conduit/spec"
)

// pipelineState is the state of a pipeline in the loop. The goroutine of Loop.Run owns it and calls its methods.
type pipelineState struct {
	plan.Observed
	loop       *Loop
	desired    *plan.Desired // shares its content with the declaration in the store
	newer      *plan.Desired // the declared version, when it differs from desired
	withdrawn  time.Time     // time of the withdrawal, with a monotonic clock reading
	connectors connectorStates
	run        *run
	next       *launch
	failures   failures
	undeleted  int            // failed attempts to delete the pipeline
	reported   VersionOutcome // last value passed to Loop.OnVersionOutcome
	retriable  bool           // Retry may try Rejected again: a retry disturbs nothing, or the version was not to blame
}

// newPipeline returns the state of a pipeline that does not run.
func newPipeline(l *Loop, s spec.State) *pipelineState {
	return &pipelineState{Observed: plan.Observed{State: s}, loop: l}
}

// touch marks the pipeline for planning.
func (p *pipelineState) touch() {
	if touched := p.loop.touched; touched != nil {
		touched[p.State.PipelineID] = true
	}
}

// log returns a logger for messages about the pipeline.
func (p *pipelineState) log() *slog.Logger {
	return p.loop.Log.With("component", "reconcile", "pipeline_id", p.State.PipelineID)
}

// observed returns the observed state of the pipeline now.
func (p *pipelineState) observed() plan.Observed {
	o := p.Observed
	o.Newer = p.newer != nil
	if p.run != nil {
		o.Run, o.Stopping, o.Amending = &p.run.version, p.run.stopping, p.run.amending
	}
	if p.next != nil {
		o.Next, o.Abandoned = &p.next.version, p.next.ctx.Err() != nil
	}
	return o
}

// update changes the state of p in a copy, reports it to observers and saves it.
func (p *pipelineState) update(change func(*spec.State)) {
	s := p.State
	change(&s)
	if s.Phase != p.State.Phase {
		s.Since = time.Now()
	}
	p.State = s
	p.loop.observer.observe(s)
}

func (p *pipelineState) event(kind, reason, message string) {
	p.loop.observer.record(p.State, spec.Event{At: time.Now(), Pipeline: p.State.PipelineID, Type: kind, Reason: reason,
		Message: message})
}

// takeUp makes the declared version the desired one.
func (p *pipelineState) takeUp() {
	now := time.Now()
	p.Changes = without(p.Changes, func(at time.Time) bool { return !now.Before(at.Add(p.loop.Policy.ChangesWindow)) })
	p.Flapping = p.Flapping && len(p.Changes) > 0
	if p.newer.ShouldRun() {
		p.Changes = append(p.Changes, now)
	}
	p.Changes = p.Changes[max(len(p.Changes)-p.loop.Policy.MaxChanges, 0):]
	p.desired, p.newer = p.newer, nil
	p.touch()
}

// adopt marks the running version as the declared one.
func (p *pipelineState) adopt() {
	d := p.desired
	p.run.version, p.Rejected = plan.Version{Generation: d.Generation, Digest: d.RunDigest, Pipeline: &d.Pipeline}, 0
	p.update(func(s *spec.State) {
		s.RunningGeneration, s.Error, s.RetryAt = d.Generation, "", nil
		s.LastAttempt = &spec.Attempt{Generation: d.Generation, At: time.Now()}
	})
	if p.Probation.IsZero() {
		p.keepAsGood(p.run)
	}
}

// keepAsGood makes the version of r the last known good version.
func (p *pipelineState) keepAsGood(r *run) {
	p.Probation = time.Time{}
	p.update(func(s *spec.State) {
		s.LastGood = &spec.LastGood{Generation: r.version.Generation, Pipeline: *r.version.Pipeline}
	})
}

// stop asks the run of p to end, and cancels it if it has not ended after timeout. With a timeout of 0 it does not
// cancel the run.
func (p *pipelineState) stop(timeout time.Duration) {
	r := p.run
	if !r.stopping {
		r.stopping = true
		close(r.drain)
		p.update(func(s *spec.State) { s.Phase = spec.PhaseStopping })
	}
	if timeout > 0 && r.force == nil {
		r.force = time.AfterFunc(timeout, r.cancel)
	}
}

// connectorStates are the states of the connectors of a pipeline.
type connectorStates []spec.ConnectorState

// replace replaces the state of the connector with c's id by c.
func (all *connectorStates) replace(c spec.ConnectorState) {
	*all = append(without(*all, func(other spec.ConnectorState) bool { return other.ID == c.ID }), c)
}

// drop forgets a connector.
func (all *connectorStates) drop(connectorID string) {
	*all = without(*all, func(c spec.ConnectorState) bool { return c.ID == connectorID })
}

func without[T any](all []T, drop func(T) bool) []T {
	var kept []T
	for _, v := range all {
		if !drop(v) {
			kept = append(kept, v)
		}
	}
	return kept
}
