// Package backoff has the pauses between tries to reach a system.
package backoff

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

// Backoff has pauses that grow exponentially, with jitter: clients that failed together do not come
// back together. The zero Backoff begins with 50 to 100 ms; no pause is longer than 30 s.
type Backoff struct {
	Tries int // how many pauses there were
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

// Wait waits for the next pause, or returns why ctx ended.
func (b *Backoff) Wait(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// Sleep waits for d, or returns why ctx ended.
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

// Repeat calls session until ctx ends or retry, which is given its error, reports that trying again does not
// help. A panic of session is an error, see sdk.Panicked. After an error it waits; the pauses begin over when session
// has called works.
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
