package reconcile

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/reconcile/plan"
	"github.com/conduit-agent/conduit/spec"
)

// reread makes the loop read all desired state again.
func (l *Loop) reread() { l.stale, l.declared, l.started = true, 0, 0 }

// refresh reads desired state when it may have changed. It returns false when the read has to be tried again.
func (l *Loop) refresh(ctx context.Context) bool {
	if !l.stale {
		return true
	}
	err := l.read(ctx)
	if ctx.Err() == nil {
		l.reading.Observe(l.Log.With("component", "reconcile"), err)
	}
	if err != nil {
		return false
	}
	l.stale = false
	if !l.known {
		l.known, l.touched = true, nil
	}
	return true
}

// read reads the changes of desired state and of the connectors that were started.
func (l *Loop) read(ctx context.Context) error {
	declarations, err := l.Store.DeclarationsSince(ctx, l.declared)
	if err != nil {
		return err
	}
	connectors, err := l.Store.ConnectorStatesSince(ctx, l.started)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, d := range declarations.Rows {
		l.declare(d, now)
	}
	for _, id := range gone(l.pipelines, &declarations) {
		if p := l.pipelines[id]; p != nil && p.desired != nil {
			p.desired, p.newer = nil, nil
			p.touch()
		}
	}
	l.takeConnectors(&connectors, now)
	l.declared, l.started = declarations.Revision, connectors.Revision
	return nil
}

// gone returns the pipelines that are no longer declared.
func gone(pipelines map[string]*pipelineState, delta *spec.Delta[spec.Declaration]) []string {
	if !delta.All {
		return delta.Gone
	}
	left := make(map[string]bool, len(delta.Rows))
	for _, d := range delta.Rows {
		left[d.Pipeline.ID] = true
	}
	var gone []string
	for id := range pipelines {
		if !left[id] {
			gone = append(gone, id)
		}
	}
	return gone
}

// declare applies the declaration of a pipeline.
func (l *Loop) declare(d *spec.Declaration, now time.Time) {
	id := d.Pipeline.ID
	p := l.pipelines[id]
	if p == nil {
		p = newPipeline(l, spec.State{PipelineID: id, Phase: spec.PhaseStopped, Since: now})
		l.pipelines[id] = p
		l.observer.publish(p.State)
	}
	before, latest := p.desired, cmp.Or(p.newer, p.desired)
	if latest != nil && sameToRun(&latest.Declaration, d) {
		p.relocate(d)
		return
	}
	p.touch()
	p.withdrawn = p.withdrawnAt(d, now)
	declared := &plan.Desired{Declaration: *d}
	if latest != nil && latest.Digest != "" && latest.Digest == d.Digest {
		declared.RunDigest = latest.RunDigest
	} else {
		declared.RunDigest = l.RunDigest(&d.Pipeline)
		p.failures = failures{}
	}
	if before == nil || before.RunDigest == declared.RunDigest {
		p.desired, p.newer = declared, nil
		return
	}
	wished := *before
	wished.Pipeline.Status, wished.Override, wished.Withdrawn, wished.Purge = d.Pipeline.Status, d.Override,
		d.Withdrawn, d.Purge
	p.desired, p.newer = &wished, declared
}

// sameToRun reports whether a and b are equal in everything that affects the running pipeline.
func sameToRun(a, b *spec.Declaration) bool {
	return a.Generation == b.Generation && a.Digest == b.Digest && a.Override == b.Override && a.Purge == b.Purge &&
		a.Withdrawn.Equal(b.Withdrawn) && a.UpdatedAt.Equal(b.UpdatedAt)
}

// relocate updates the place of the latest declaration in its file.
func (p *pipelineState) relocate(d *spec.Declaration) {
	latest := *cmp.Or(p.newer, p.desired)
	if latest.Owner == d.Owner {
		return
	}
	latest.Owner = d.Owner
	if p.newer != nil {
		p.newer = &latest
	} else {
		p.desired = &latest
	}
}

// takeConnectors applies the changes of the connectors that were started.
func (l *Loop) takeConnectors(delta *spec.Delta[spec.ConnectorState], now time.Time) {
	if delta.All {
		takeAllConnectors(l.pipelines, delta.Rows, now)
		return
	}
	for _, c := range delta.Rows {
		if p := l.pipelines[c.PipelineID]; p != nil {
			p.connectors.replace(p.connectors.timed(*c, now, p.loop.Policy.MaxDelay))
			p.touch()
		}
	}
	for _, id := range delta.Gone {
		for i := range id { // either may have colons
			if p := l.pipelines[id[:i]]; p != nil && strings.HasPrefix(id[i:], ":") {
				p.connectors.drop(id)
				p.touch()
			}
		}
	}
}

func takeAllConnectors(pipelines map[string]*pipelineState, all []*spec.ConnectorState, now time.Time) {
	byPipeline := map[*pipelineState][]spec.ConnectorState{}
	for _, c := range all {
		if p := pipelines[c.PipelineID]; p != nil {
			byPipeline[p] = append(byPipeline[p], p.connectors.timed(*c, now, p.loop.Policy.MaxDelay))
		}
	}
	for _, p := range pipelines {
		if len(p.connectors)+len(byPipeline[p]) > 0 {
			p.connectors = byPipeline[p]
			p.touch()
		}
	}
}
