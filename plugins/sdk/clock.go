package sdk

import (
	"context"
	"time"
)

// Clock gives processors the time. A test of a pipeline has its own clock, which advances without waiting.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or with ctx.Err() if ctx ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// Now returns the time of the host's clock, or of the machine.
func Now(ctx context.Context) time.Time {
	if c := EnvFrom(ctx).Clock; c != nil {
		return c.Now()
	}
	return time.Now()
}

// Sleep waits for d on the same clock. It returns ctx.Err() if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	if c := EnvFrom(ctx).Clock; c != nil {
		return c.Sleep(ctx, d)
	}
	return sleep(ctx, d)
}
