package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/reconcile/plan"
	"github.com/conduit-agent/conduit/spec"
)

// deleteTimeout limits one attempt to clean up a connector.
const deleteTimeout = time.Minute

// act performs an action. Slow work runs in a goroutine, which posts its outcome.
func (l *Loop) act(a plan.Action) {
	p := l.pipelines[a.ID]
	p.log().Debug("plan decision", "action", a.Kind, "reason", a.Reason)
	switch a.Kind {
	case plan.TakeUp:
		p.takeUp()
	case plan.Flap:
		p.flap()
	case plan.Start, plan.Restart, plan.Amend, plan.Rollback:
		p.launch(a.Kind)
	case plan.Stop:
		p.stop(l.Policy.DrainTimeout)
	case plan.Abandon:
		p.next.cancel()
	case plan.Adopt:
		p.adopt()
	case plan.Confirm:
		p.keepAsGood(p.run)
		p.touch()
	case plan.MarkStopped, plan.MarkAway:
		p.failures, p.Again = failures{}, ""
		p.update(func(s *spec.State) {
			s.Phase, s.StoppedByUser = spec.PhaseStopped, a.Kind == plan.MarkStopped
			s.Error, s.RetryAt, s.Failures, s.Stall = "", nil, 0, nil
		})
	case plan.MarkSteady:
		p.failures = failures{}
		p.update(func(s *spec.State) { s.Failures = 0 })
	case plan.MarkOrphaned:
		p.orphan(*a.Connector)
	case plan.CleanUp:
		p.cleanUp(*a.Connector, func(error) {})
	case plan.Delete:
		l.delete(p)
	case plan.Forget:
		l.forget(a.ID)
	}
}

// flap reports that versions wait because there are too many.
func (p *pipelineState) flap() {
	p.Flapping = true
	policy := p.loop.Policy
	p.event(spec.EventWarning, "Flapping", fmt.Sprintf("%d versions within %v: further versions wait until the limit "+
		"allows one, which is the latest", policy.MaxChanges, policy.ChangesWindow))
	p.log().Warn("pipeline changes too often, further changes wait", "versions", policy.MaxChanges, "within",
		policy.ChangesWindow)
}

// orphan records when a connector was first seen undeclared. Nothing else writes the state of a connector that does not
// run.
func (p *pipelineState) orphan(c spec.ConnectorState) {
	c.Orphaned = time.Now()
	p.connectors.replace(c)
	var err error
	p.loop.mail.async(func() { err = p.loop.Store.SaveConnectorState(p.loop.base, &c) }, func() {
		if err != nil {
			p.log().Error("cannot save the state of a connector", "connector_id", c.ID, "err", err)
		}
		p.touch()
	})
}

// cleanUp deletes a connector and calls then with the outcome. A failure is saved, with the time of the next attempt.
func (p *pipelineState) cleanUp(c spec.ConnectorState, then func(error)) {
	p.Cleaning = append(p.Cleaning[:len(p.Cleaning):len(p.Cleaning)], c.ID)
	var err error
	p.loop.mail.async(func() {
		ctx, cancel := context.WithTimeout(p.loop.base, deleteTimeout)
		defer cancel()
		if err = p.loop.Runner.Delete(ctx, &c); err == nil {
			err = p.loop.Store.DeleteConnector(ctx, c.ID)
		}
		if err == nil {
			return
		}
		c.Attempts, c.Error = c.Attempts+1, err.Error()
		c.RetryAt = time.Now().Add(p.loop.Policy.Delay(c.ID, c.Attempts))
		if err := p.loop.Store.SaveConnectorState(p.loop.base, &c); err != nil {
			p.log().Error("cannot save the state of a connector", "connector_id", c.ID, "err", err)
		}
	}, func() { p.cleaned(c, err); then(err) })
}

// cleaned records the outcome of an attempt to delete a connector.
func (p *pipelineState) cleaned(c spec.ConnectorState, err error) {
	p.Cleaning = without(p.Cleaning, func(other string) bool { return other == c.ID })
	if err != nil {
		p.connectors.replace(c)
		p.log().Warn("cannot clean up after a connector, trying again", "connector_id", c.ID, "retry_at", c.RetryAt,
			"err", err)
		p.event(spec.EventWarning, "CleanupFailed", "cannot clean up after connector "+c.ID+": "+err.Error())
	} else {
		p.connectors.drop(c.ID)
		p.event(spec.EventNormal, "CleanedUp", "connector "+c.ID+" is deleted")
	}
	p.touch()
}

// delete forgets a withdrawn pipeline, here and in the store.
func (l *Loop) delete(p *pipelineState) {
	id := p.State.PipelineID
	p.Deleting = true
	var err error
	l.mail.async(func() { err = l.observer.saver.delete(l.base, id) }, func() {
		p.Deleting = false
		l.reread() // the pipeline may be declared again
		if err != nil {
			p.undeleted++
			p.NotBefore = time.Now().Add(l.Policy.Delay(id, p.undeleted) + time.Second)
			p.touch()
			p.log().Error("cannot delete a pipeline, trying again", "err", err)
			return
		}
		p.log().Info("pipeline deleted")
		l.forget(id)
		if l.Deleted != nil {
			l.Deleted(id)
		}
	})
}

// forget stops observing a pipeline.
func (l *Loop) forget(id string) {
	delete(l.pipelines, id)
	l.observer.forget(id)
}
