package sdk

import (
	"context"
	"time"
)

// Clock gives processors the time. A test of a pipeline has a clock of its own, which
// moves without waiting.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or with ctx.Err() when ctx ends before.
	Sleep(ctx context.Context, d time.Duration) error
}

// Now returns the time of the clock that the host lends, or that of the machine.
func Now(ctx context.Context) time.Time {
	if c := EnvFrom(ctx).Clock; c != nil {
		return c.Now()
	}
	return time.Now()
}

// Sleep waits for d by the same clock. It returns ctx.Err() when ctx ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	if c := EnvFrom(ctx).Clock; c != nil {
		return c.Sleep(ctx, d)
	}
	return sleep(ctx, d)
}
