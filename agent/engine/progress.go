package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/watchdog"
)

// waitForDrain waits for the order to drain. Meanwhile it is the watchdog of connectors
// that do not answer: destinations that hold records and settle none, and sources that do
// not return from Ack.
func (r *run) waitForDrain(ctx context.Context) error {
	var tick <-chan time.Time
	if r.AckTimeout > 0 {
		ticker := time.NewTicker(max(r.AckTimeout/4, time.Millisecond))
		defer ticker.Stop()
		tick = ticker.C
	}
	dests, sources := make([]watchdog.LastAnswer, len(r.dests)), make([]watchdog.LastAnswer, len(r.sources))
	for {
		select {
		case <-r.drain:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-tick:
			for i, d := range r.dests {
				if dests[i].Stalled(d.progress, now, r.AckTimeout) {
					return fmt.Errorf("destination %s has not answered for %v although records were written to it", d.id, r.AckTimeout)
				}
			}
			for i, s := range r.sources {
				if sources[i].Stalled(s.progress, now, r.AckTimeout) {
					return fmt.Errorf("source %s has not answered for %v although records were acknowledged to it", s.id, r.AckTimeout)
				}
			}
		}
	}
}

// progress returns how many records the destination has settled, and whether it may take
// any time for the next. While its results are being processed, which may take as long as
// the dead-letter queue does, it counts as idle.
func (d *destinationRun) progress() (answers uint64, idle bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.results, d.idle() || d.settling || d.out.Load().batching.Unbounded()
}

// progress returns how many records were acknowledged to the source, and whether it has
// returned from Ack.
func (s *sourceRun) progress() (answers uint64, idle bool) {
	return s.stats.Acked.Load(), !s.acking.Load()
}
