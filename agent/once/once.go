// Package once waits until every pipeline that is to run has come to rest: its sources are at
// their end or idle and all records are settled, or it has failed for good.
package once

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/sorting"
)

// Wait waits for pipelines to come to rest. All fields must be set.
type Wait struct {
	// Idle is how long a source that does not know its end has to deliver nothing.
	Idle time.Duration
	// Scanned returns nil once the pipeline files were read and what they declare is on its way.
	Scanned func(context.Context) error
	// Declared returns what is declared.
	Declared func(context.Context) ([]spec.Declaration, error)
	// State returns what is observed of a pipeline.
	State func(id string) (spec.State, bool)
	// Lags returns how far each source of a pipeline is, nothing while it does not run.
	Lags func(id string) map[string]measure.Lag
}

// Rest is a pipeline that came to rest.
type Rest struct {
	ID    string
	State spec.State
	// Applied reports whether what rests, or failed, is what is declared: no earlier version.
	Applied bool
}

// interval is the time between two observations.
const interval = 100 * time.Millisecond

// settling is how long a source that is at its end has to stay there.
const settling = time.Second

// Run returns the pipelines that are to run, by id, once all have come to rest. It returns an error when
// ctx ends before.
func (w *Wait) Run(ctx context.Context) ([]Rest, error) {
	if err := w.Scanned(ctx); err != nil {
		return nil, fmt.Errorf("cannot wait for the pipelines: %w", err)
	}
	seen := map[string]*observation{}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		all, done, err := w.observe(ctx, seen, time.Now())
		if err != nil || done {
			return all, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot wait for the pipelines to come to rest: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// observe reports whether all pipelines rest.
func (w *Wait) observe(ctx context.Context, seen map[string]*observation, now time.Time) (all []Rest, done bool, err error) {
	declared, err := w.Declared(ctx)
	if err != nil {
		return nil, false, err
	}
	done = true
	for i := range declared {
		d := &declared[i]
		if !d.Withdrawn.IsZero() || d.Want() != spec.StatusRunning {
			continue
		}
		id := d.Pipeline.ID
		if seen[id] == nil {
			seen[id] = &observation{since: now}
		}
		state, _ := w.State(id)
		all = append(all, Rest{ID: id, State: state, Applied: state.RunningGeneration == d.Generation && !state.Stale()})
		done = w.rests(d, &state, seen[id], now) && done
	}
	sorting.By(all, func(a, b Rest) int { return cmp.Compare(a.ID, b.ID) })
	return all, done, nil
}

func (w *Wait) rests(d *spec.Declaration, state *spec.State, o *observation, now time.Time) bool {
	switch state.Phase {
	case spec.PhaseDegraded:
		return true
	case spec.PhaseRunning:
		tried := state.LastAttempt != nil && state.LastAttempt.Generation == d.Generation
		return o.rests(w.Lags(d.Pipeline.ID), w.Idle, now) && (tried || state.RunningGeneration == d.Generation)
	}
	o.since = now
	return false
}

// observation is since when a pipeline that runs moves nothing.
type observation struct {
	since           time.Time
	read, confirmed uint64
}

// rests takes how far the sources are. It reports whether nothing has moved for long enough.
func (o *observation) rests(lags map[string]measure.Lag, idle time.Duration, now time.Time) bool {
	var read, acked uint64
	atEnd, settled := true, len(lags) > 0
	for _, l := range lags {
		read, acked = read+l.Read, acked+l.Acked
		atEnd = atEnd && isEnd(&l)
		settled = settled && l.OldestUnacked == 0 && !l.OpenSince.IsZero()
	}
	if read != o.read || acked != o.confirmed || !settled {
		*o = observation{since: now, read: read, confirmed: acked}
		return false
	}
	if atEnd {
		idle = min(idle, settling)
	}
	return now.Sub(o.since) >= idle
}

// isEnd reports whether a source says that it has read all that its system holds.
func isEnd(l *measure.Lag) bool {
	b := &l.Behind
	known := b.Bytes != nil || b.Records != nil
	return known && len(b.Snapshots) == 0 && b.Warning == "" && (b.Bytes == nil || *b.Bytes == 0) && (b.Records == nil || *b.Records == 0)
}
