package plan

import (
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// withdrawn stops observing, cleans up and at last deletes a withdrawn pipeline that does not run. During the grace
// period the pipeline is left unchanged, but not started.
func (p *planner) withdrawn(d *Desired, o *Observed, connectors []spec.ConnectorState) {
	stop := p.graceEnd(d)
	if p.before(stop) {
		return
	}
	id := d.Pipeline.ID
	if o.State.Phase != spec.PhaseStopped || !o.State.StoppedByUser {
		p.do(MarkStopped, id, unwanted(d))
	}
	if d.OwnedElsewhere || !d.Purge && p.before(stop.Add(p.policy.CleanupDelay)) {
		return
	}
	for i := range connectors {
		p.cleanUp(o, &connectors[i], time.Time{}, unwanted(d))
	}
	if len(connectors) == 0 && !o.Deleting && len(o.Cleaning) == 0 && !p.before(o.NotBefore) {
		p.do(Delete, id, "the pipeline is withdrawn and all its connectors are cleaned up")
	}
}

// orphans cleans up after connectors that the pipeline dropped, once it runs without them: until then it may be rolled
// back to a version that has them.
func (p *planner) orphans(d *Desired, o *Observed, connectors []spec.ConnectorState) {
	if !d.ShouldRun() || o.State.RunningGeneration == 0 || !o.Probation.IsZero() || o.Run.Digest != d.RunDigest {
		return
	}
	for i := range connectors {
		c := &connectors[i]
		switch {
		case declares(d, c.ID):
		case c.Orphaned.IsZero():
			p.actions = append(p.actions, Action{Kind: MarkOrphaned, ID: d.Pipeline.ID, Connector: c,
				Reason: "connector " + c.ID + " is no longer declared"})
		default:
			p.cleanUp(o, c, c.Orphaned.Add(p.policy.CleanupDelay),
				"connector "+c.ID+" is no longer declared, and pipelines.cleanup-delay has passed")
		}
	}
}

func (p *planner) cleanUp(o *Observed, c *spec.ConnectorState, due time.Time, reason string) {
	if c.RetryAt.After(due) {
		due = c.RetryAt
	}
	for _, id := range o.Cleaning {
		if id == c.ID {
			return
		}
	}
	if !p.before(due) {
		p.actions = append(p.actions, Action{Kind: CleanUp, ID: c.PipelineID, Connector: c, Reason: reason})
	}
}
