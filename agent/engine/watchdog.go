package engine

import (
	"context"
	"time"
)

// watchedConnector is one that is watched.
type watchedConnector struct {
	// Progress returns how far it has got.
	Progress func() answerProgress
	// Stalled returns the error when it has not answered for as long as the limit.
	Stalled func() error

	last lastAnswer
}

// watchConnectors waits until done is closed or ctx ends, and returns why that ended. A connector that does not answer
// within the limit is the error meanwhile; 0 stands for no limit.
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

// answerProgress is how far a connector has got.
type answerProgress struct {
	Answers uint64        // that it gave
	Idle    bool          // it may take any time for the next
	Longer  time.Duration // how much longer than others it may take for the next
}

// lastAnswer is how far a connector was when it last answered.
type lastAnswer struct {
	answers uint64
	at      time.Time
}

// Stalled reports whether the connector has not answered for as long as the limit, and
// otherwise keeps how far it is.
func (p *lastAnswer) Stalled(now func() answerProgress, at time.Time, limit time.Duration) bool {
	is := now()
	if is.Idle || is.Answers != p.answers || p.at.IsZero() {
		*p = lastAnswer{is.Answers, at}
		return false
	}
	return at.Sub(p.at)-limit >= is.Longer
}
