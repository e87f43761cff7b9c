package reconcile

import (
	"slices"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Times that are read from the store are those of the machine's clock, which may be
// set at any moment. What is to happen some time after one must not come sooner or
// later for that. So each is replaced, when it is first seen, by one that the clock
// which is never set knows of, too: then only what passed while no agent ran goes by
// the machine's clock.

// since returns t, a time in the past, so that the time that passed can be measured.
func since(t, now time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return now.Add(-max(now.Sub(t), 0))
}

// withdrawn returns when d was withdrawn. What this loop knew to be declared was
// withdrawn just now.
func (p *pipe) withdrawn(d *spec.Declaration, now time.Time) time.Time {
	switch {
	case p.desired == nil || d.Withdrawn.IsZero():
		return since(d.Withdrawn, now)
	case p.stored.Withdrawn.Equal(d.Withdrawn):
		return p.desired.Withdrawn
	}
	return now
}

// timed returns connectors as they were read, with the times that known have of them.
func (l *Loop) timed(connectors, known []spec.ConnectorState, now time.Time) []spec.ConnectorState {
	for i := range connectors {
		c, before := &connectors[i], spec.ConnectorState{}
		if k := slices.IndexFunc(known, func(k spec.ConnectorState) bool { return k.ID == c.ID }); k >= 0 {
			before = known[k]
		}
		switch {
		case c.Orphaned.IsZero() || before.Orphaned.IsZero():
			c.Orphaned = since(c.Orphaned, now)
		default:
			c.Orphaned = before.Orphaned
		}
		switch {
		case c.RetryAt.IsZero():
		case before.Attempts == c.Attempts:
			c.RetryAt = before.RetryAt
		default:
			c.RetryAt = now.Add(min(c.RetryAt.Sub(now), l.Policy.MaxDelay))
		}
	}
	return connectors
}
