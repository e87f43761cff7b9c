package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/reconcile/plan"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Event types.
const (
	normal  = "normal"
	warning = "warning"
)

// amendTimeout is how long a change waits for the end of an amendment rather than restarting
// the pipeline.
const amendTimeout = 5 * time.Second

var errUnasked = errors.New("the pipeline ended although nothing asked it to")

// abandoned: n was given up and has ended completely.
func (n *launch) abandoned() {
	p := n.pipeline
	if p.next == n {
		p.next = nil
	}
	p.released()
	p.touch()
}

// notPrepared: the version of n cannot run. The current run was not touched.
func (n *launch) notPrepared(err error) {
	p := n.pipeline
	n.abandoned()
	if n.ctx.Err() != nil {
		return
	}
	p.notStarted(n.version, err)
	p.retriable = true
	if n.again {
		p.retrySoon()
	}
}

// retrySoon retries failed work of the pipeline without its backoff.
func (p *pipelineState) retrySoon() {
	p.connectors = slices.Clone(p.connectors)
	for i := range p.connectors {
		p.connectors[i].RetryAt = time.Time{}
	}
	failed := p.State.Phase == spec.PhaseRecovering || p.State.Phase == spec.PhaseDegraded
	switch {
	case p.desired == nil || !p.desired.Wanted():
	case p.run == nil && failed:
		p.Again = plan.Restart
	case p.run != nil && p.State.Stale():
		p.Again = plan.Amend
	case p.retriable:
		p.Refused = 0
		p.update(func(s *spec.State) { s.RetryAt = nil })
	}
}

// begun: r takes over from n. If n was abandoned too late to prevent that, r is stopped.
func (n *launch) begun(r *run, cancel func()) {
	p := n.pipeline
	p.next, p.run, r.cancel = nil, r, cancel
	p.retriable = p.retriable && n.version.Instead != 0
	p.update(func(s *spec.State) { s.Phase = spec.PhaseStarting })
	if n.ctx.Err() != nil {
		p.stop(p.loop.Policy.DrainTimeout)
	}
	p.touch()
}

// amending: r begins to become the version of n. It returns false when n was given up or r is about to end: then n, if
// it is still wanted, starts by itself.
func (n *launch) amending(r *run) bool {
	p := n.pipeline
	if n.ctx.Err() != nil || p.run != r || r.stopping {
		return false
	}
	p.next, r.amending = nil, true
	return true
}

// unchanged: r could not become the version of n after all, and continues unchanged.
func (n *launch) unchanged(r *run) {
	r.amending = false
	n.pipeline.touch()
}

// drained: the part of r that n replaces has ended in order. From here on r is the version of n, and fails as such.
func (n *launch) drained(r *run) {
	p := n.pipeline
	r.version, r.amending, r.started, p.retriable = n.version, false, false, false
	p.Probation, p.OpensBy = time.Time{}, time.Now().Add(amendTimeout)
	p.update(func(s *spec.State) {
		s.RunningGeneration = 0
		if !r.stopping {
			s.Phase = spec.PhaseStarting
		}
	})
	p.touch()
}

// ran: r has opened its connectors, or the connectors that an amendment changed, and moves records.
func (p *pipelineState) ran(r *run, reason string) {
	r.started, p.OpensBy = true, time.Time{}
	v := r.version
	p.logRuns(v, reason)
	good, tried := p.State.LastGood, p.State.LastAttempt
	changed := good != nil && good.Generation != v.Generation
	// it ran before and is still on probation
	again := tried != nil && tried.Generation == v.Generation && tried.Error == ""
	p.update(func(s *spec.State) {
		if !r.stopping {
			s.Phase = spec.PhaseRunning
		}
		s.RunningGeneration, s.Error, s.RetryAt = v.Generation, "", nil
		if s.Stall != nil && s.Stall.Generation != v.Generation {
			s.Stall = nil // another version stalled
		}
		newer := s.LastAttempt != nil && s.LastAttempt.Generation > v.Generation // failed while v was opened
		if v.Instead == 0 && !newer {
			s.LastAttempt = &spec.Attempt{Generation: v.Generation, At: time.Now()}
		}
	})
	if v.Instead == 0 {
		p.beginProbation(r)
	}
	if changed {
		p.loop.stale = true // connectors that the version dropped may be orphans
	}
	if changed && !again {
		p.warnOfLostPositions(&good.Pipeline, v.Pipeline)
	}
	message := fmt.Sprintf("generation %d runs", v.Generation)
	if v.Instead != 0 {
		reason, message = "RolledBack", fmt.Sprintf("generation %d runs because %d failed", v.Generation, v.Instead)
	}
	p.event(normal, reason, message)
	p.touch()
}

func (p *pipelineState) logRuns(v plan.Version, reason string) {
	switch {
	case v.Instead != 0:
		p.log().Info("pipeline runs again, rolled back to the last known good version", "generation", v.Generation,
			"failed_generation", v.Instead)
	case reason == "Amended":
		p.log().Info("pipeline changed while it runs", "generation", v.Generation)
	default:
		p.log().Info("pipeline runs", "generation", v.Generation)
	}
}

// beginProbation starts the probation of r if there is another last known good version to roll back to. Otherwise r
// becomes the last known good version.
func (p *pipelineState) beginProbation(r *run) {
	good := p.State.LastGood
	if good == nil || p.loop.Policy.Probation <= 0 || p.loop.RunDigest(&good.Pipeline) == r.version.Digest {
		p.keepAsGood(r)
		return
	}
	p.Probation = time.Now().Add(p.loop.Policy.Probation)
}

// ended: r has ended completely.
func (p *pipelineState) ended(r *run, err error) {
	if r.force != nil {
		r.force.Stop()
	}
	if p.run == r {
		p.run = nil
	}
	p.released()
	p.touch()
	p.update(func(s *spec.State) { s.RunningGeneration = 0 })
	if err == nil && !r.stopping {
		err = errUnasked
	}
	onProbation := !p.Probation.IsZero()
	p.Probation, p.OpensBy = time.Time{}, time.Time{}
	switch {
	case p.next != nil:
		p.disturbed(err)
		p.update(func(s *spec.State) { s.Phase = spec.PhaseStarting })
	case r.stopping:
		p.disturbed(err)
		p.update(func(s *spec.State) { s.Phase = spec.PhaseStopped })
		p.event(normal, "Stopped", fmt.Sprintf("generation %d has stopped", r.version.Generation))
		p.log().Info("pipeline stopped")
	case r.amending:
		p.disturbed(err)
		p.update(func(s *spec.State) { s.Phase = spec.PhaseStarting })
	case !r.started || onProbation:
		p.notStarted(r.version, err)
	default:
		p.recover(r.version, err)
	}
}

// released: nothing starts connectors of the pipeline any more. The connectors of a withdrawn pipeline are read again,
// because the last one may have been started after the withdrawal.
func (p *pipelineState) released() {
	if p.desired != nil && !p.desired.Withdrawn.IsZero() {
		p.loop.stale = true
	}
}

// disturbed reports an error that has no effect on the next step.
func (p *pipelineState) disturbed(err error) {
	if err == nil {
		return
	}
	p.log().Warn("pipeline did not end cleanly, outstanding records will be delivered again", "err", err)
	p.event(warning, "StopFailed", err.Error())
}

// notStarted: version v failed before it ran, or too soon afterwards.
func (p *pipelineState) notStarted(v plan.Version, err error) {
	if v.Instead == 0 {
		p.update(func(s *spec.State) {
			s.LastAttempt = &spec.Attempt{Generation: v.Generation, At: time.Now(), Error: err.Error()}
		})
	}
	good := p.State.LastGood
	update := v.Instead == 0 && (p.run != nil || good != nil && p.loop.RunDigest(&good.Pipeline) != v.Digest)
	again := p.run != nil && p.run.version.Digest == v.Digest
	switch {
	case update && p.loop.Policy.Hold && p.run != nil && !permanent(err):
		p.backOff()
	case again: // the running version has the wanted digest already
	case update && (!p.loop.Policy.Hold || p.run != nil):
		p.Refused, p.retriable = v.Generation, environmental(err)
	default:
		p.Refused = 0 // if this was the rollback, the declared version is next
		p.recover(v, err)
		return
	}
	if again {
		p.event(warning, "UpdateFailed", fmt.Sprintf("generation %d runs, but could not be applied again: %v",
			v.Generation, err))
		p.log().Error("pipeline cannot be applied again, what runs goes on", "generation", v.Generation, "err", err)
		return
	}
	stays := "the last known good version is started again"
	switch {
	case p.run != nil && !p.loop.Policy.Hold:
		stays = "the last known good version stays"
	case p.run != nil:
		stays = fmt.Sprintf("generation %d stays for as long as it runs", p.run.version.Generation)
	}
	p.event(warning, "UpdateFailed", fmt.Sprintf("generation %d fails, %s: %v", v.Generation, stays, err))
	p.log().Error("pipeline cannot be updated, "+stays, "generation", v.Generation, "err", err)
}

// recover schedules a restart of the pipeline after a failure of version v, unless a restart is pointless.
func (p *pipelineState) recover(v plan.Version, err error) {
	retries := p.backOff()
	final := permanent(err) || p.loop.Policy.MaxRetries >= 0 && retries > p.loop.Policy.MaxRetries
	cause := err
	if final {
		err = finalError{cause, p.State.PipelineID}
	}
	p.stalled(v, err)
	s := p.State
	if final {
		p.update(func(s *spec.State) { s.Phase, s.Error, s.RetryAt = spec.PhaseDegraded, err.Error(), nil })
		p.event(warning, "Degraded", err.Error())
		p.log().Error("pipeline failed and is not tried again until something changes", "err", cause)
		return
	}
	p.update(func(s *spec.State) { s.Phase, s.Error = spec.PhaseRecovering, err.Error() })
	p.event(warning, "Failed", err.Error())
	p.log().Warn("pipeline failed, trying again", "retry_at", s.RetryAt, "err", err)
}

// stalled records that a run of version v failed, until a record is delivered.
func (p *pipelineState) stalled(v plan.Version, err error) {
	if p.desired == nil {
		return
	}
	var stage, kind string
	var processors, refused bool
	if staged := Staged(nil); errors.As(err, &staged) {
		stage, processors, refused = staged.Stage()
		kind = p.desired.Pipeline.StageKind(stage)
	}
	if processors {
		kind = spec.StageProcessor
	}
	p.update(func(s *spec.State) {
		s.Stall = spec.Failure(s.Stall, stage, kind, refused, err.Error(), time.Now())
		s.Stall.Generation = v.Generation
	})
}

// setStall records the reason why the pipeline delivers nothing, nil when it delivers.
func (p *pipelineState) setStall(now *spec.Stall) {
	before := p.State.Stall
	p.update(func(s *spec.State) { s.Stall = now })
	switch {
	case now.Silent() && !before.Silent(): // notification.Silence records the event
		p.log().Warn("pipeline reads nothing", "reason", now.Reason, "stage", now.Stage, "since", now.Since, "err",
			now.Message)
	case now.Silent():
	case before.Silent() && now == nil:
		p.log().Info("pipeline reads again, or does not run", "reason", before.Reason, "stage", before.Stage, "since",
			before.Since)
	case now != nil && (before == nil || before.Silent()):
		p.event(warning, "NotDelivering", fmt.Sprintf("since %s: %s", now.Since.UTC().Format(time.RFC3339),
			now.Message))
		p.log().Warn("pipeline does not deliver", "reason", now.Reason, "stage", now.Stage, "since", now.Since, "err",
			now.Message)
	case before != nil && now == nil && p.State.Phase == spec.PhaseRunning:
		p.event(normal, "Delivering", "it delivers again, after "+time.Since(before.Since).Round(time.Second).String())
		p.log().Info("pipeline delivers again", "reason", before.Reason, "stage", before.Stage, "since", before.Since)
	}
}

// failures are the failures of a pipeline since it ran steadily.
type failures struct {
	inARow int
	until  []time.Time // when each no longer counts as a retry
}

// backOff counts a failure and sets the time of the next attempt. It returns how many failures count as retries: fewer
// than the failures in a row once pauses are as long as the window in which they count.
func (p *pipelineState) backOff() int {
	now, f := time.Now(), &p.failures
	f.inARow++
	f.until = slices.DeleteFunc(f.until, func(until time.Time) bool { return !now.Before(until) })
	n := len(f.until) + 1
	at := now.Add(p.loop.Policy.Delay(p.State.PipelineID, f.inARow))
	p.Steady = at.Add(p.loop.Policy.MaxRetriesWindow)
	f.until = append(f.until, p.Steady)
	p.update(func(s *spec.State) { s.Failures, s.RetryAt = n, &at })
	return n
}

// finalError is the error of a pipeline that does not start again by itself. Its text says so.
type finalError struct {
	error
	pipeline string
}

func (e finalError) Error() string {
	end := spec.NotAgain(e.pipeline)
	return texts.Truncate(e.error.Error(), texts.MaxError-len(end)) + end
}

// Unwrap returns the cause.
func (e finalError) Unwrap() error { return e.error }

func environmental(err error) bool {
	var e Environmental
	return errors.As(err, &e) && e.Environment()
}

func permanent(err error) bool {
	var p Permanent
	return errors.As(err, &p) && p.Permanent()
}
