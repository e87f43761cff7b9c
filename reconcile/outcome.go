package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Event types.
const (
	normal  = "normal"
	warning = "warning"
)

var errUnasked = errors.New("the pipeline ended although nothing asked it to")

// abandoned: n is given up, nothing of it is left.
func (l *Loop) abandoned(p *pipe, n *launch) {
	if p.next == n {
		p.next = nil
	}
	l.touch(p.State.PipelineID)
}

// notPrepared: the version of n cannot run. What runs was not touched.
func (l *Loop) notPrepared(p *pipe, n *launch, err error) {
	l.abandoned(p, n)
	if n.ctx.Err() != nil {
		return
	}
	l.notStarted(p, n.version, err)
	p.untouched = true
	if n.again {
		l.retryNow(p)
	}
}

// retryAll has everything that failed tried again at once.
func (l *Loop) retryAll() {
	for _, p := range l.pipes {
		if p.next != nil {
			p.next.again = true
			continue
		}
		l.retryNow(p)
	}
	l.touched = nil
}

func (l *Loop) retryNow(p *pipe) {
	p.connectors = slices.Clone(p.connectors)
	for i := range p.connectors {
		p.connectors[i].RetryAt = time.Time{}
	}
	failed := p.State.Phase == spec.PhaseRecovering || p.State.Phase == spec.PhaseDegraded
	switch {
	case p.desired == nil || !wanted(p.desired):
	case p.run == nil && failed:
		p.Again = Restart
	case p.run != nil && p.State.Stale():
		p.Again = Amend
	case p.untouched:
		p.Refused = 0
		l.update(p, func(s *spec.State) { s.RetryAt = nil })
	}
}

// begun: r takes over from n, which was not abandoned or is so too late.
func (l *Loop) begun(p *pipe, n *launch, r *run, cancel func()) {
	p.next, p.run, r.cancel = nil, r, cancel
	p.untouched = p.untouched && n.version.Instead != 0
	l.update(p, func(s *spec.State) { s.Phase = spec.PhaseStarting })
	if n.ctx.Err() != nil {
		l.stop(p, l.Policy.DrainTimeout)
	}
	l.touch(p.State.PipelineID)
}

// amending: r begins to become the version of n. It returns false when n was given up or
// r is about to end: then n, if it is still wanted, starts by itself.
func (l *Loop) amending(p *pipe, n *launch, r *run) bool {
	if n.ctx.Err() != nil || p.run != r || r.stopping {
		return false
	}
	p.next, r.amending = nil, true
	return true
}

// drained: what n replaces of r has ended in order. From here on r is the version of n,
// and fails as such.
func (l *Loop) drained(p *pipe, n *launch, r *run) {
	r.version, r.amending, r.started, p.untouched = n.version, false, false, false
	p.Confirm, p.Patience = time.Time{}, time.Now().Add(amendPatience)
	l.update(p, func(s *spec.State) {
		s.RunningGeneration = 0
		if !r.stopping {
			s.Phase = spec.PhaseStarting
		}
	})
	l.touch(p.State.PipelineID)
}

// ran: r has opened its connectors, or those that an amendment changed, and moves records.
func (l *Loop) ran(p *pipe, r *run, reason string) {
	r.started, p.Patience = true, time.Time{}
	v := r.version
	message := map[string]string{"Started": "pipeline runs", "Amended": "pipeline changed while it runs"}[reason]
	l.Log.Info(message, "component", "reconcile", "pipeline_id", p.State.PipelineID, "generation", v.Generation)
	good, tried := p.State.LastGood, p.State.LastAttempt
	changed := good != nil && good.Generation != v.Generation
	again := tried != nil && tried.Generation == v.Generation && tried.Error == "" // it ran before, and has yet to prove itself
	l.update(p, func(s *spec.State) {
		if !r.stopping {
			s.Phase = spec.PhaseRunning
		}
		s.RunningGeneration, s.Error, s.RetryAt = v.Generation, "", nil
		newer := s.LastAttempt != nil && s.LastAttempt.Generation > v.Generation // failed while v was opened
		if v.Instead == 0 && !newer {
			s.LastAttempt = &spec.Attempt{Generation: v.Generation, At: time.Now()}
		}
	})
	if v.Instead == 0 {
		l.prove(p, r)
	}
	if changed {
		l.orphans = true
	}
	if changed && !again {
		l.warnOfLostPositions(p, &good.Pipeline, v.Pipeline)
	}
	message = fmt.Sprintf("generation %d runs", v.Generation)
	if v.Instead != 0 {
		reason, message = "RolledBack", fmt.Sprintf("generation %d runs because %d failed", v.Generation, v.Instead)
	}
	l.event(p, normal, reason, message)
	l.touch(p.State.PipelineID)
}

// prove lets r show for a while that it works before it takes the place of the last
// good version, if there is another one to go back to.
func (l *Loop) prove(p *pipe, r *run) {
	good := p.State.LastGood
	if good == nil || l.Policy.Confirm <= 0 || l.RunDigest(&good.Pipeline) == r.version.Digest {
		l.good(p, r)
		return
	}
	p.Confirm = time.Now().Add(l.Policy.Confirm)
}

// ended: nothing of r is left.
func (l *Loop) ended(p *pipe, r *run, err error) {
	if r.force != nil {
		r.force.Stop()
	}
	if p.run == r {
		p.run = nil
	}
	l.touch(p.State.PipelineID)
	l.update(p, func(s *spec.State) { s.RunningGeneration = 0 })
	if err == nil && !r.stopping {
		err = errUnasked
	}
	unproved := !p.Confirm.IsZero()
	p.Confirm, p.Patience = time.Time{}, time.Time{}
	switch {
	case p.next != nil:
		l.disturbed(p, err)
		l.update(p, func(s *spec.State) { s.Phase = spec.PhaseStarting })
	case r.stopping:
		l.disturbed(p, err)
		l.update(p, func(s *spec.State) { s.Phase = spec.PhaseStopped })
		l.event(p, normal, "Stopped", fmt.Sprintf("generation %d has stopped", r.version.Generation))
		l.Log.Info("pipeline stopped", "component", "reconcile", "pipeline_id", p.State.PipelineID)
	case r.amending:
		l.disturbed(p, err)
		l.update(p, func(s *spec.State) { s.Phase = spec.PhaseStarting })
	case !r.started || unproved:
		l.notStarted(p, r.version, err)
	default:
		l.recover(p, err)
	}
}

// disturbed notes an error that changes nothing about what comes next.
func (l *Loop) disturbed(p *pipe, err error) {
	if err == nil {
		return
	}
	l.Log.Warn("pipeline did not end cleanly, records in flight will be delivered again", "component", "reconcile", "pipeline_id", p.State.PipelineID, "err", err)
	l.event(p, warning, "StopFailed", err.Error())
}

// notStarted: version v failed before it ran, or too soon afterwards.
func (l *Loop) notStarted(p *pipe, v Version, err error) {
	if v.Instead == 0 {
		l.update(p, func(s *spec.State) {
			s.LastAttempt = &spec.Attempt{Generation: v.Generation, At: time.Now(), Error: err.Error()}
		})
	}
	good := p.State.LastGood
	update := v.Instead == 0 && (p.run != nil || good != nil && l.RunDigest(&good.Pipeline) != v.Digest)
	again := p.run != nil && p.run.version.Digest == v.Digest
	switch {
	case update && l.Policy.Hold && p.run != nil && !permanent(err):
		l.retry(p)
	case again: // what runs is as good as it gets
	case update && (!l.Policy.Hold || p.run != nil):
		p.Refused = v.Generation
	default:
		p.Refused = 0 // if this was the rollback, the declared version is next
		l.recover(p, err)
		return
	}
	if again {
		l.event(p, warning, "UpdateFailed", fmt.Sprintf("generation %d runs, but could not be applied again: %v", v.Generation, err))
		l.Log.Error("pipeline cannot be applied again, what runs goes on", "component", "reconcile", "pipeline_id", p.State.PipelineID, "generation", v.Generation, "err", err)
		return
	}
	stays := "the last good version stays"
	if l.Policy.Hold {
		stays = fmt.Sprintf("generation %d stays for as long as it runs", p.run.version.Generation)
	}
	l.event(p, warning, "UpdateFailed", fmt.Sprintf("generation %d fails, %s: %v", v.Generation, stays, err))
	l.Log.Error("pipeline cannot be updated, "+stays, "component", "reconcile", "pipeline_id", p.State.PipelineID, "generation", v.Generation, "err", err)
}

// recover has the pipeline started again later, or not when that is pointless.
func (l *Loop) recover(p *pipe, err error) {
	retries := l.retry(p)
	id, s := p.State.PipelineID, p.State
	if permanent(err) || l.Policy.MaxRetries >= 0 && retries > l.Policy.MaxRetries {
		l.update(p, func(s *spec.State) { s.Phase, s.Error, s.RetryAt = spec.PhaseDegraded, err.Error(), nil })
		l.event(p, warning, "Degraded", err.Error())
		l.Log.Error("pipeline failed and is not tried again until something changes", "component", "reconcile", "pipeline_id", id, "err", err)
		return
	}
	l.update(p, func(s *spec.State) { s.Phase, s.Error = spec.PhaseRecovering, err.Error() })
	l.event(p, warning, "Failed", err.Error())
	l.Log.Warn("pipeline failed, trying again", "component", "reconcile", "pipeline_id", id, "retry_at", s.RetryAt, "err", err)
}

// retry counts a failure and sets the time of the next attempt. It returns how many
// failures count.
func (l *Loop) retry(p *pipe) int {
	now := time.Now()
	p.failures = slices.DeleteFunc(p.failures, func(until time.Time) bool { return !now.Before(until) })
	n := len(p.failures) + 1
	at := now.Add(l.Policy.Delay(p.State.PipelineID, n))
	p.Steady = at.Add(l.Policy.MaxRetriesWindow)
	p.failures = append(p.failures, p.Steady)
	l.update(p, func(s *spec.State) { s.Failures, s.RetryAt = n, &at })
	return n
}

func permanent(err error) bool {
	var p Permanent
	return errors.As(err, &p) && p.Permanent()
}

// update changes the state of p in a copy, shows it to observers and has it saved.
func (l *Loop) update(p *pipe, change func(*spec.State)) {
	s := p.State
	change(&s)
	if s.Phase != p.State.Phase {
		s.Since = time.Now()
	}
	p.State = s
	l.show(p)
	l.saver.put(s)
}

func (l *Loop) show(p *pipe) {
	l.mu.Lock()
	l.states[p.State.PipelineID] = p.State
	l.mu.Unlock()
	if l.Observed != nil {
		l.Observed(p.State)
	}
}

func (l *Loop) event(p *pipe, kind, reason, message string) {
	l.saver.put(p.State, spec.Event{At: time.Now(), Pipeline: p.State.PipelineID, Type: kind, Reason: reason, Message: message})
}
