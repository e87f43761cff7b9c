package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// deleteTimeout bounds one attempt to clean up a connector.
const deleteTimeout = time.Minute

// act performs one action. What takes time is done by a goroutine that tells its end.
func (l *Loop) act(a Action) {
	p := l.pipes[a.ID]
	switch a.Kind {
	case TakeUp:
		l.takeUp(p)
	case Flap:
		p.Flapping = true
		message := fmt.Sprintf("%d versions within %v: more of them wait until there is room, and the latest counts", l.Policy.MaxChanges, l.Policy.ChangesWindow)
		l.event(p, warning, "Flapping", message)
		l.Log.Warn("pipeline changes too often, changes wait", "component", "reconcile", "pipeline_id", a.ID, "versions", l.Policy.MaxChanges, "within", l.Policy.ChangesWindow)
	case Start, Restart, Amend, Rollback:
		l.launch(p, a.Kind)
	case Stop:
		l.stop(p, l.Policy.DrainTimeout)
	case Abandon:
		p.next.cancel()
	case Adopt:
		l.adopt(p)
	case Confirm:
		l.good(p, p.run)
		l.touch(a.ID)
	case MarkStopped:
		p.failures, p.Again = nil, ""
		l.update(p, func(s *spec.State) {
			s.Phase, s.StoppedByUser = spec.PhaseStopped, true
			s.Error, s.RetryAt, s.Failures = "", nil, 0
		})
	case MarkSteady:
		p.failures = nil
		l.update(p, func(s *spec.State) { s.Failures = 0 })
	case MarkOrphaned:
		l.orphan(p, *a.Connector)
	case CleanUp:
		l.cleanUp(p, *a.Connector, func(error) {})
	case Delete:
		l.delete(p)
	case Forget:
		l.forget(a.ID)
	}
}

// beside runs f outside the loop and done in the loop afterwards.
func (l *Loop) beside(f func(), done func()) {
	l.workers++
	go func() {
		f()
		l.notes <- func() { l.workers--; done() }
	}()
}

// tell has note run in the goroutine of Run and returns afterwards.
func (l *Loop) tell(note func()) {
	done := make(chan struct{})
	l.notes <- func() { defer close(done); note() }
	<-done
}

// takeUp makes the declared version the desired one.
func (l *Loop) takeUp(p *pipe) {
	now := time.Now()
	p.Changes = without(p.Changes, func(at time.Time) bool { return !now.Before(at.Add(l.Policy.ChangesWindow)) })
	p.Flapping = p.Flapping && len(p.Changes) > 0
	if wanted(p.newer) {
		p.Changes = append(p.Changes, now)
	}
	p.Changes = p.Changes[max(len(p.Changes)-l.Policy.MaxChanges, 0):]
	p.desired, p.newer = p.newer, nil
	l.touch(p.State.PipelineID)
}

// adopt takes note that what runs is what is declared.
func (l *Loop) adopt(p *pipe) {
	d := p.desired
	p.run.version, p.Refused = Version{Generation: d.Generation, Digest: d.RunDigest, Pipeline: &d.Pipeline}, 0
	l.update(p, func(s *spec.State) {
		s.RunningGeneration, s.Error, s.RetryAt = d.Generation, "", nil
		s.LastAttempt = &spec.Attempt{Generation: d.Generation, At: time.Now()}
	})
	if p.Confirm.IsZero() {
		l.good(p, p.run)
	}
}

// good takes note that what r runs is worth going back to.
func (l *Loop) good(p *pipe, r *run) {
	p.Confirm = time.Time{}
	l.update(p, func(s *spec.State) {
		s.LastGood = &spec.LastGood{Generation: r.version.Generation, Pipeline: *r.version.Pipeline}
	})
}

// orphan notes since when a connector is declared no more. Nothing else writes the
// state of a connector that does not run.
func (l *Loop) orphan(p *pipe, c spec.ConnectorState) {
	c.Orphaned = time.Now()
	p.replace(c)
	var err error
	l.beside(func() { err = l.Store.SaveConnectorState(l.base, &c) }, func() {
		if err != nil {
			l.Log.Error("cannot save the state of a connector", "component", "reconcile", "pipeline_id", c.PipelineID, "connector_id", c.ID, "err", err)
		}
		l.touch(c.PipelineID)
	})
}

// cleanUp deletes a connector and tells then how it went. A failure is saved, with the
// time of the next attempt.
func (l *Loop) cleanUp(p *pipe, c spec.ConnectorState, then func(error)) {
	p.Cleaning = append(p.Cleaning[:len(p.Cleaning):len(p.Cleaning)], c.ID)
	var err error
	l.beside(func() {
		ctx, cancel := context.WithTimeout(l.base, deleteTimeout)
		defer cancel()
		if err = l.Runner.Delete(ctx, &c); err == nil {
			err = l.Store.DeleteConnector(ctx, c.ID)
		}
		if err == nil {
			return
		}
		c.Attempts, c.Error = c.Attempts+1, err.Error()
		c.RetryAt = time.Now().Add(l.Policy.Delay(c.ID, c.Attempts))
		if err := l.Store.SaveConnectorState(l.base, &c); err != nil {
			l.Log.Error("cannot save the state of a connector", "component", "reconcile", "pipeline_id", c.PipelineID, "connector_id", c.ID, "err", err)
		}
	}, func() { l.cleaned(p, c, err); then(err) })
}

func (l *Loop) cleaned(p *pipe, c spec.ConnectorState, err error) {
	id := c.PipelineID
	p.Cleaning = without(p.Cleaning, func(other string) bool { return other == c.ID })
	if err != nil {
		p.replace(c)
		l.Log.Warn("cannot clean up after a connector, trying again", "component", "reconcile", "pipeline_id", id, "connector_id", c.ID, "retry_at", c.RetryAt, "err", err)
		l.event(p, warning, "CleanupFailed", "cannot clean up after connector "+c.ID+": "+err.Error())
	} else {
		p.connectors = without(p.connectors, func(other spec.ConnectorState) bool { return other.ID == c.ID })
		l.event(p, normal, "CleanedUp", "connector "+c.ID+" is deleted")
	}
	l.touch(id)
}

// delete forgets a withdrawn pipeline, here and in the store.
func (l *Loop) delete(p *pipe) {
	id := p.State.PipelineID
	p.Deleting = true
	var err error
	l.beside(func() { err = l.saver.delete(l.base, id) }, func() {
		p.Deleting = false
		l.stale, l.orphans, l.upTo = true, true, 0 // it may have been declared again meanwhile
		if err != nil {
			p.undeleted++
			p.NotBefore = time.Now().Add(l.Policy.Delay(id, p.undeleted) + time.Second)
			l.touch(id)
			l.Log.Error("cannot delete a pipeline, trying again", "component", "reconcile", "pipeline_id", id, "err", err)
			return
		}
		l.Log.Info("pipeline deleted", "component", "reconcile", "pipeline_id", id)
		l.forget(id)
		if l.Deleted != nil {
			l.Deleted(id)
		}
	})
}

func (l *Loop) forget(id string) {
	delete(l.pipes, id)
	delete(l.going, id)
	l.mu.Lock()
	delete(l.states, id)
	l.mu.Unlock()
}

func (p *pipe) replace(c spec.ConnectorState) {
	p.connectors = append(without(p.connectors, func(other spec.ConnectorState) bool { return other.ID == c.ID }), c)
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
