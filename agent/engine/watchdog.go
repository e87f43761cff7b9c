package engine

import (
	"context"
	"fmt"
	"time"
)

// watchedConnector is a connector with a watchdog.
type watchedConnector struct {
	// Progress returns the current progress of the connector.
	Progress func() answerProgress
	// Stalled returns the error for a connector that has not responded within the limit.
	Stalled func() error

	last lastAnswer
}

// watchConnectors waits until done is closed or ctx ends, and returns the cause of the latter. If a connector does not
// answer within the limit meanwhile, it returns an error; a limit of 0 means none.
func watchConnectors(ctx context.Context, done <-chan struct{}, limit time.Duration,
	connectors []watchedConnector) error {
	var tick <-chan time.Time
	if limit > 0 {
		ticker := time.NewTicker(max(limit/4, time.Millisecond))
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-tick:
			for i := range connectors {
				if c := &connectors[i]; c.last.Stalled(c.Progress, now, limit) {
					return c.Stalled()
				}
			}
		}
	}
}

// answerProgress is the progress of a connector.
type answerProgress struct {
	Answers uint64        // number of answers so far
	Idle    bool          // the next answer may take any time
	Longer  time.Duration // additional time that the next answer may take
}

// lastAnswer is the progress of a connector at its last answer.
type lastAnswer struct {
	answers uint64
	at      time.Time
}

// Stalled reports whether the connector has not responded within the limit, and otherwise records its progress.
func (p *lastAnswer) Stalled(now func() answerProgress, at time.Time, limit time.Duration) bool {
	is := now()
	if is.Idle || is.Answers != p.answers || p.at.IsZero() {
		*p = lastAnswer{is.Answers, at}
		return false
	}
	return at.Sub(p.at)-limit >= is.Longer
}

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
