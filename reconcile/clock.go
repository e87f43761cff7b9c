package reconcile

import (
	"cmp"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Times in the store come from the wall clock, which may be set at any moment. That must not make anything that is due
// a certain time later happen too early or too late. So each time is replaced, when it is first read, by a time with a
// monotonic clock reading. The wall clock then counts only for the time in which no agent ran.

// since returns t, a time in the past, in a form that measures the time since then.
func since(t, now time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return now.Add(-max(now.Sub(t), 0))
}

// withdrawnAt returns the time of d's withdrawal. If this loop has seen the pipeline declared, it was withdrawn just
// now.
func (p *pipelineState) withdrawnAt(d *spec.Declaration, now time.Time) time.Time {
	switch latest := cmp.Or(p.newer, p.desired); {
	case latest == nil || d.Withdrawn.IsZero():
		return since(d.Withdrawn, now)
	case latest.Withdrawn.Equal(d.Withdrawn):
		return p.withdrawn
	}
	return now
}

// timed returns c with the times that the loop knows already. A failed clean-up is tried again after longest at the
// latest.
func (all connectorStates) timed(c spec.ConnectorState, now time.Time, longest time.Duration) spec.ConnectorState {
	var known spec.ConnectorState
	if k := slices.IndexFunc(all, func(k spec.ConnectorState) bool { return k.ID == c.ID }); k >= 0 {
		known = all[k]
	}
	if c.Orphaned.IsZero() || known.Orphaned.IsZero() {
		c.Orphaned = since(c.Orphaned, now)
	} else {
		c.Orphaned = known.Orphaned
	}
	switch {
	case c.RetryAt.IsZero():
	case known.Attempts == c.Attempts:
		c.RetryAt = known.RetryAt
	default:
		c.RetryAt = now.Add(min(c.RetryAt.Sub(now), longest))
	}
	return c
}
