package common

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

const (
	first   = 100 * time.Millisecond
	longest = 30 * time.Second
)

// Backoff provides exponentially growing pauses with jitter, so that clients that failed together do not retry
// together. The zero Backoff begins with 50 to 100 ms. No pause is longer than 30 s.
type Backoff struct {
	Tries int // number of pauses so far
}

// Next returns the next pause.
func (b *Backoff) Next() time.Duration {
	pause := longest
	if b.Tries < 16 { // the shift cannot overflow
		pause = min(first<<b.Tries, longest)
	}
	b.Tries++
	return pause/2 + rand.N(pause/2+1)
}

// Wait waits for the next pause, or until ctx ends, and then returns the error of ctx.
func (b *Backoff) Wait(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// Sleep waits for d, or until ctx ends, and then returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Repeat calls session until ctx ends, or until retry, called with the error of session, reports that a retry does not
// help. A panic of session counts as an error; see sdk.Panicked. After an error Repeat pauses. The pauses start again
// from the shortest one when session has called works.
func Repeat(ctx context.Context, session func(works func()) error, retry func(error) bool) {
	var b Backoff
	for ctx.Err() == nil {
		err := sdk.Contain(func() error { return session(func() { b = Backoff{} }) })
		if err == nil {
			continue
		}
		if ctx.Err() != nil || !retry(err) || b.Wait(ctx) != nil {
			return
		}
	}
}
