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

// notStarted: version v failed before it ran, or too soon afterwards.
func (p *pipelineState) notStarted(v plan.Version, err error) {
	if v.Instead == 0 {
		p.update(func(s *spec.State) {
			s.LastAttempt = &spec.Attempt{Generation: v.Generation, At: time.Now(), Error: err.Error()}
			if staged := Staged(nil); errors.As(err, &staged) {
				s.LastAttempt.Stage, _, _ = staged.Stage()
			}
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
		p.Rejected, p.retriable = v.Generation, environmental(err)
	default:
		p.Rejected = 0 // if this was the rollback, the declared version is next
		p.recover(v, err)
		return
	}
	if again {
		p.event(spec.EventWarning, "UpdateFailed", fmt.Sprintf("generation %d is running, but could not be "+
			"re-applied: %v",
			v.Generation, err))
		p.log().Error("cannot re-apply the pipeline, the current run continues", "generation", v.Generation, "err", err)
		return
	}
	stays := "starting the last known good version again"
	switch {
	case p.run != nil && !p.loop.Policy.Hold:
		stays = "the last known good version keeps running"
	case p.run != nil:
		stays = fmt.Sprintf("generation %d keeps running", p.run.version.Generation)
	}
	p.event(spec.EventWarning, "UpdateFailed", fmt.Sprintf("generation %d failed, %s: %v", v.Generation, stays, err))
	p.log().Error("cannot update the pipeline, "+stays, "generation", v.Generation, "err", err)
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
		p.event(spec.EventWarning, "Degraded", err.Error())
		p.log().Error("pipeline failed and is not restarted until it or a plugin changes, or it is started", "err", cause)
		return
	}
	p.update(func(s *spec.State) { s.Phase, s.Error = spec.PhaseRecovering, err.Error() })
	p.event(spec.EventWarning, "Failed", err.Error())
	p.log().Warn("pipeline failed, restarting it", "retry_at", s.RetryAt, "err", err)
}

// stalled records that a run of version v failed, until a record is delivered.
func (p *pipelineState) stalled(v plan.Version, err error) {
	if p.desired == nil {
		return
	}
	var stage string
	var kind spec.StageKind
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
		p.log().Warn("pipeline is silent", "reason", now.Reason, "stage", now.Stage, "since", now.Since, "err",
			now.Message)
	case now.Silent():
	case before.Silent() && now == nil:
		p.log().Info("pipeline is not silent any more", "reason", before.Reason, "stage", before.Stage, "since",
			before.Since)
	case now != nil && (before == nil || before.Silent()):
		p.event(spec.EventWarning, "NotDelivering", fmt.Sprintf("since %s: %s", now.Since.UTC().Format(time.RFC3339),
			now.Message))
		p.log().Warn("pipeline does not deliver", "reason", now.Reason, "stage", now.Stage, "since", now.Since, "err",
			now.Message)
	case before != nil && now == nil && p.State.Phase == spec.PhaseRunning:
		p.event(spec.EventNormal, "Delivering", "nothing holds it up any more, after "+
			time.Since(before.Since).Round(time.Second).String())
		p.log().Info("nothing holds the pipeline up any more", "reason", before.Reason, "stage", before.Stage, "since",
			before.Since)
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

// retrySoon retries failed work of the pipeline without its backoff.
func (p *pipelineState) retrySoon() {
	p.connectors = slices.Clone(p.connectors)
	for i := range p.connectors {
		p.connectors[i].RetryAt = time.Time{}
	}
	failed := p.State.Phase == spec.PhaseRecovering || p.State.Phase == spec.PhaseDegraded
	switch {
	case p.desired == nil || !p.desired.ShouldRun():
	case p.run == nil && failed:
		p.Again = plan.Restart
	case p.run != nil && p.State.Stale():
		p.Again = plan.Amend
	case p.retriable:
		p.Rejected = 0
		p.update(func(s *spec.State) { s.RetryAt = nil })
	}
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
