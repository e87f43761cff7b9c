package engine

import (
	"context"
	"fmt"
	"time"
)

// progress is how far a destination was when it was last seen to move.
type progress struct {
	results uint64
	at      time.Time
}

// watch waits for the order to drain. Meanwhile it looks for destinations that hold
// records and settle none.
func (r *run) watch(ctx context.Context) error {
	var tick <-chan time.Time
	if r.AckTimeout > 0 {
		ticker := time.NewTicker(max(r.AckTimeout/4, time.Millisecond))
		defer ticker.Stop()
		tick = ticker.C
	}
	seen := make([]progress, len(r.dests))
	for {
		select {
		case <-r.drain:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-tick:
			for i, d := range r.dests {
				if err := d.check(&seen[i], now); err != nil {
					return err
				}
			}
		}
	}
}

// check compares the destination's progress with what was seen of it. While its answers
// are attended to, which may take as long as the dead-letter queue does, it counts as idle.
func (d *destinationRun) check(seen *progress, now time.Time) error {
	d.mu.Lock()
	results, idle := d.results, len(d.pending) == 0 || d.settling
	d.mu.Unlock()
	if d.out.Load().pace.patient() || idle || results != seen.results || seen.at.IsZero() {
		*seen = progress{results, now}
		return nil
	}
	if now.Sub(seen.at) < d.run.AckTimeout {
		return nil
	}
	return fmt.Errorf("destination %s has not answered for %v although records were written to it", d.id, d.run.AckTimeout)
}
