package template

import (
	"context"
	"time"
)

// maxBatchTime is how long the executions for one batch of records may take together.
const maxBatchTime = 10 * time.Second

// TimeLimit bounds what executions for the records of one batch take together: time, and the
// context of the batch. The zero TimeLimit leaves each execution to its own bounds. It is used by
// one goroutine at a time.
type TimeLimit struct {
	ctx  context.Context // of the batch; nil: none has begun
	left time.Duration
}

// Begin begins a batch, whose executions end with ctx.
func (b *TimeLimit) Begin(ctx context.Context) { b.ctx, b.left = ctx, maxBatchTime }

// until returns when an execution that starts now has to end, and the error of one that does not.
func (b *TimeLimit) until(now time.Time) (time.Time, error) {
	if b.ctx != nil && b.left < maxTime {
		return now.Add(b.left), errBatchTime
	}
	return now.Add(maxTime), errTime
}

// spend takes the time since start, when an execution began.
func (b *TimeLimit) spend(start time.Time) {
	if b.ctx != nil {
		b.left -= time.Since(start)
	}
}

// ended returns why the batch is over, nil while it is not.
func (b *TimeLimit) ended() error {
	if b.ctx == nil {
		return nil
	}
	return context.Cause(b.ctx)
}
