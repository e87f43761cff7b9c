package reconcile

import (
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// withdrawn stops observing, cleans up and at last deletes a withdrawn pipeline of
// which nothing runs. During the grace it is left as it is, but not started.
func (p *planner) withdrawn(d *Desired, r *Running, connectors []spec.ConnectorState) {
	stop := p.graceEnd(d)
	if p.wait(stop) {
		return
	}
	id := d.Pipeline.ID
	if r.State.Phase != spec.PhaseStopped || !r.State.StoppedByUser {
		p.do(MarkStopped, id)
	}
	if !d.Purge && p.wait(stop.Add(p.policy.CleanupDelay)) {
		return
	}
	for i := range connectors {
		p.cleanUp(r, &connectors[i], time.Time{})
	}
	if len(connectors) == 0 && !r.Deleting && len(r.Cleaning) == 0 && !p.wait(r.NotBefore) {
		p.do(Delete, id)
	}
}

// orphans cleans up after connectors that the pipeline dropped, once it runs without
// them: until then it may be rolled back to a version that has them.
func (p *planner) orphans(d *Desired, r *Running, connectors []spec.ConnectorState) {
	if !wanted(d) || r.State.RunningGeneration == 0 || !r.Confirm.IsZero() || r.Run.Digest != d.RunDigest {
		return
	}
	for i := range connectors {
		c := &connectors[i]
		switch {
		case declares(d, c.ID):
		case c.Orphaned.IsZero():
			p.actions = append(p.actions, Action{Kind: MarkOrphaned, ID: d.Pipeline.ID, Connector: c})
		default:
			p.cleanUp(r, c, c.Orphaned.Add(p.policy.CleanupDelay))
		}
	}
}

func (p *planner) cleanUp(r *Running, c *spec.ConnectorState, due time.Time) {
	if c.RetryAt.After(due) {
		due = c.RetryAt
	}
	for _, id := range r.Cleaning {
		if id == c.ID {
			return
		}
	}
	if !p.wait(due) {
		p.actions = append(p.actions, Action{Kind: CleanUp, ID: c.PipelineID, Connector: c})
	}
}
