package engine

import (
	"context"
	"fmt"
)

// waitForDrain waits for the order to drain. Meanwhile it is the watchdog of connectors that do not respond:
// destinations that hold records and settle none, and sources that do not return from Ack.
func (r *run) waitForDrain(ctx context.Context) error {
	var all []watchedConnector
	for _, d := range r.dests {
		all = append(all, watchedConnector{Progress: d.progress, Stalled: func() error {
			return failedIn(d.id, fmt.Errorf("destination %s has not responded for %v, although records were written "+
				"to it", d.id, r.AckTimeout))
		}})
	}
	for _, s := range r.sources {
		all = append(all, watchedConnector{Progress: s.progress, Stalled: func() error {
			return failedIn(s.id, fmt.Errorf("source %s has not responded for %v, although records were acknowledged "+
				"to it", s.id, r.AckTimeout))
		}})
	}
	return watchConnectors(ctx, r.drain, r.AckTimeout, all)
}

// progress returns how many of the records written to the destination are settled. The destination counts as idle
// while its results are being processed, which may take as long as the dead-letter queue does, while its log has no
// room, and while it waits for more records to fill a batch. Accepting records for a batch is an answer, too.
func (d *destinationRun) progress() answerProgress {
	policy := d.out.Load().batching
	d.mu.Lock()
	defer d.mu.Unlock()
	outstanding := d.written - d.results
	p := answerProgress{Answers: d.results, Idle: d.idle() || d.settling || d.waitsForRoom(),
		Longer: policy.Takes(outstanding)}
	if policy.Waits(outstanding) {
		p.Answers += d.written
		p.Idle = p.Idle || !d.writing.Load()
	}
	return p
}

// progress returns how many records were acknowledged to the source, and whether it has
// returned from Ack.
func (s *sourceRun) progress() answerProgress {
	return answerProgress{Answers: s.stats.Acked.Load(), Idle: !s.acking.Load()}
}
