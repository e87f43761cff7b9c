package engine

import (
	"context"
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
