package engine

import (
	"context"
	"fmt"
	"time"
)

// progress is how far a destination was when it last settled something.
type progress struct {
	results uint64
	at      time.Time
}

// waitForDrain waits for the order to drain. Meanwhile it is the watchdog of destinations
// that hold records and settle none.
func (r *run) waitForDrain(ctx context.Context) error {
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

// check compares the destination's progress with that of the last check. While its results
// are being processed, which may take as long as the dead-letter queue does, it counts as
// idle.
func (d *destinationRun) check(last *progress, now time.Time) error {
	d.mu.Lock()
	results, idle := d.results, len(d.pending) == 0 || d.settling
	d.mu.Unlock()
	if d.out.Load().batching.unbounded() || idle || results != last.results || last.at.IsZero() {
		*last = progress{results, now}
		return nil
	}
	if now.Sub(last.at) < d.run.AckTimeout {
		return nil
	}
	return fmt.Errorf("destination %s has not answered for %v although records were written to it", d.id, d.run.AckTimeout)
}
