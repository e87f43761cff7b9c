package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/spec"
)

// onceWait waits for pipelines to come to rest. All fields must be set.
type onceWait struct {
	// Idle is how long a source that does not know its end must deliver nothing.
	Idle time.Duration
	// Scanned returns nil once the pipeline files were read and their declarations are being applied.
	Scanned func(context.Context) error
	// Declared returns the declarations.
	Declared func(context.Context) ([]spec.Declaration, error)
	// State returns the observed state of a pipeline.
	State func(id string) (spec.State, bool)
	// Lags returns the lag of each source of a pipeline, none while the pipeline does not run.
	Lags func(id string) map[string]measure.Lag
	// Complete makes a pipeline stop waiting for more records: its sources take a partial record as complete, and
	// incomplete batches and windows are written out.
	Complete func(id string)
}

// finished is a pipeline that came to rest.
type finished struct {
	ID    string
	State spec.State
	// Applied reports whether the version that rests, or failed, is the declared one, and not an earlier version.
	Applied bool
	// Unread describes the unread data of each source that knows of some.
	Unread []string
	// Endless are the sources that cannot know their end. They delivered nothing for the time of Idle.
	Endless []string
}

// interval is the time between two observations.
const interval = 100 * time.Millisecond

// settling is how long a source must stay at its end.
const settling = time.Second

// Run returns the pipelines that should run, by id, once all have come to rest. It returns an error when ctx ends
// before.
func (w *onceWait) Run(ctx context.Context) ([]finished, error) {
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
			return nil, fmt.Errorf("cannot wait for the pipelines to become idle: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// observe reports whether all pipelines rest.
func (w *onceWait) observe(
	ctx context.Context, seen map[string]*observation, now time.Time,
) (all []finished, done bool, err error) {
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
			seen[id] = &observation{since: now, still: now}
		}
		state, _ := w.State(id)
		r := finished{ID: id, State: state, Applied: state.RunningGeneration == d.Generation && !state.Stale()}
		var lags map[string]measure.Lag
		if state.Phase == spec.PhaseRunning {
			lags = w.Lags(id)
			r.Unread, r.Endless = unread(lags)
		}
		all = append(all, r)
		done = w.rests(d, &state, lags, seen[id], now) && done
	}
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	return all, done, nil
}

func (w *onceWait) rests(d *spec.Declaration, state *spec.State, lags map[string]measure.Lag, o *observation,
	now time.Time) bool {
	switch state.Phase {
	case spec.PhaseDegraded:
		return true
	case spec.PhaseRunning:
		tried := state.LastAttempt != nil && state.LastAttempt.Generation == d.Generation
		complete := func() { w.Complete(d.Pipeline.ID) }
		return o.rests(lags, w.Idle, now, complete) && (tried || state.RunningGeneration == d.Generation)
	}
	*o = observation{since: now, still: now}
	return false
}

// observation records since when a running pipeline moves no records.
type observation struct {
	since           time.Time // when it was last unsettled, or moved
	still           time.Time // when it last moved
	read, confirmed uint64
	completed       time.Time // when complete was called after still; zero: not called
}

// rests records the progress of the sources. It reports whether nothing has moved for idle, and calls complete shortly
// before, since complete may cause progress.
func (o *observation) rests(lags map[string]measure.Lag, idle time.Duration, now time.Time, complete func()) bool {
	var read, acked uint64
	atEnd, settled, opened := true, len(lags) > 0, len(lags) > 0
	for _, l := range lags {
		read, acked = read+l.Read, acked+l.Acked
		atEnd = atEnd && isEnd(&l)
		settled = settled && l.OldestUnacked == 0
		opened = opened && !l.OpenSince.IsZero()
	}
	if read != o.read || acked != o.confirmed || !opened {
		*o = observation{since: now, still: now, read: read, confirmed: acked}
		return false
	}
	if atEnd {
		idle = min(idle, settling)
	}
	// The source may find its end only after a pause as long as the current idle, so the effects of complete are
	// awaited in any case.
	notice := min(idle, settling) / 2
	if o.completed.IsZero() && now.Sub(o.still) >= idle-notice {
		o.completed = now
		complete()
	}
	if !settled {
		o.since = now
		return false
	}
	return !o.completed.IsZero() && now.Sub(o.completed) >= notice && now.Sub(o.since) >= idle
}

// unread returns the sources that know of unread data, and the sources that cannot know, in the order of their ids.
func unread(lags map[string]measure.Lag) (known, endless []string) {
	for _, id := range slices.Sorted(maps.Keys(lags)) {
		l := lags[id]
		b := &l.Behind
		current := b.Seconds != nil && *b.Seconds == 0
		switch {
		case b.Warning != "":
			known = append(known, fmt.Sprintf("source %s: %s", id, b.Warning))
		case b.Unfinished != "":
			known = append(known, fmt.Sprintf("source %s may have more to read: %s", id, b.Unfinished))
		case len(b.Snapshots) > 0:
			known = append(known, fmt.Sprintf("source %s has read only part of %s", id, b.Snapshots[0].Of))
		case b.Bytes != nil && *b.Bytes > 0 && !current:
			known = append(known, fmt.Sprintf("source %s has %d unread bytes", id, *b.Bytes))
		case b.Records != nil && *b.Records > 0 && !current:
			known = append(known, fmt.Sprintf("source %s has %d unread records", id, *b.Records))
		case b.Bytes == nil && b.Records == nil && b.Seconds != nil && !current:
			known = append(known, fmt.Sprintf("source %s is %.0f s behind", id, *b.Seconds))
		case b.Endless, b.Bytes == nil && b.Records == nil && !current:
			endless = append(endless, id)
		}
	}
	return known, endless
}

// isEnd reports whether a source has read all data in its system, according to its lag.
func isEnd(l *measure.Lag) bool {
	b := &l.Behind
	known := (b.Bytes != nil || b.Records != nil) && !b.Endless && b.Unfinished == ""
	return known && len(b.Snapshots) == 0 && b.Warning == "" && (b.Bytes == nil || *b.Bytes == 0) &&
		(b.Records == nil || *b.Records == 0)
}
