package engine

import (
	"context"
	"fmt"

	"github.com/conduit-agent/conduit/agent/engine/failure"
	"github.com/conduit-agent/conduit/agent/engine/watchdog"
)

// waitForDrain waits for the order to drain. Meanwhile it is the watchdog of connectors
// that do not answer: destinations that hold records and settle none, and sources that do
// not return from Ack.
func (r *run) waitForDrain(ctx context.Context) error {
	var all []watchdog.Connector
	for _, d := range r.dests {
		all = append(all, watchdog.Connector{Progress: d.progress, Stalled: func() error {
			return failure.In(d.id, fmt.Errorf("destination %s has not answered for %v although records were written to it", d.id, r.AckTimeout))
		}})
	}
	for _, s := range r.sources {
		all = append(all, watchdog.Connector{Progress: s.progress, Stalled: func() error {
			return failure.In(s.id, fmt.Errorf("source %s has not answered for %v although records were acknowledged to it", s.id, r.AckTimeout))
		}})
	}
	return watchdog.Watch(ctx, r.drain, r.AckTimeout, all)
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
