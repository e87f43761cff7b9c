package agent

import (
	"context"
	"maps"
	"slices"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/spec"
)

// returning returns the records that stopped the pipeline of d, whose dead letters are on the disk of this agent, and
// that its sources deliver again. When such a record is settled, its dead letter is removed.
func (a *Agent) returning(ctx context.Context, d *spec.Declaration) (all []engine.Returning, err error) {
	stopped, err := a.ownDeadLetters.Stopped(ctx, d.Pipeline.ID)
	if err != nil || len(stopped) == 0 {
		return nil, err
	}
	revisions, err := a.Store.History(ctx, d.Pipeline.ID)
	if err != nil {
		return nil, err
	}
	for _, l := range stopped {
		if sameSource(&d.Pipeline, revisions, &l) {
			all = append(all, engine.Returning{SourceID: l.SourceID, Position: l.Position,
				Settled: func() { a.ownDeadLetters.Delivered(l) }})
		}
	}
	return all, nil
}

// sameSource reports whether the source of a dead letter has had the same plugin and settings since the refusal. With
// others, the same position may belong to another record.
func sameSource(p *spec.Pipeline, revisions []spec.Revision, l *deadletter.Stopped) bool {
	source := func(p *spec.Pipeline) *spec.Connector {
		i := slices.IndexFunc(p.Connectors, func(c spec.Connector) bool { return p.QualifiedID(c.ID) == l.SourceID })
		if i < 0 {
			return nil
		}
		return &p.Connectors[i]
	}
	now, known := source(p), false
	for _, r := range revisions {
		if r.Generation < l.Generation {
			continue
		}
		if r.Spec != nil {
			was := source(r.Spec)
			if now == nil || was == nil || was.Plugin != now.Plugin || !maps.Equal(was.Settings, now.Settings) {
				return false
			}
			known = known || r.Generation == l.Generation
		}
	}
	return known
}
