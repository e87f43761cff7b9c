// Package backoff has the pauses between tries to reach a system.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff waits between tries: exponentially longer, with jitter. The zero Backoff waits for
// about 100 ms first.
type Backoff struct{ next time.Duration }

const (
	first   = 100 * time.Millisecond
	longest = 30 * time.Second
)

// Wait waits, or returns why ctx ended.
func (b *Backoff) Wait(ctx context.Context) error {
	if b.next == 0 {
		b.next = first
	}
	d := b.next/2 + rand.N(b.next)
	b.next = min(2*b.next, longest)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
