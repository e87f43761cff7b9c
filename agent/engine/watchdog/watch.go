package watchdog

import (
	"context"
	"time"
)

// Connector is one that is watched.
type Connector struct {
	// Progress returns how far it has got.
	Progress func() Progress
	// Stalled returns the error when it has not answered for as long as the limit.
	Stalled func() error

	last LastAnswer
}

// Watch waits until done is closed or ctx ends, and returns why that ended. A connector that does not answer within
// the limit is the error meanwhile; 0 stands for no limit.
func Watch(ctx context.Context, done <-chan struct{}, limit time.Duration, connectors []Connector) error {
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
