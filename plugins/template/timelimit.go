package template

import (
	"context"
	"fmt"
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

	longest time.Duration // that one execution may take, if that is less than maxTime; 0: it is not
	late    error         // of an execution that takes longer
}

// Begin begins a batch, whose executions end with ctx.
func (b *TimeLimit) Begin(ctx context.Context) { b.ctx, b.left, b.longest = ctx, maxBatchTime, 0 }

// BeginWithin is Begin for a processor, which may take as long as limit for one record; 0 is for ever.
func (b *TimeLimit) BeginWithin(ctx context.Context, limit time.Duration) {
	b.Begin(ctx)
	if limit > 0 && limit < maxTime {
		b.longest = limit
		b.late = fmt.Errorf("it takes longer than %s (processors.timeout) for a record: give it less to do, or raise "+
			"processors.timeout", limit)
	}
}

// until returns when an execution that starts now has to end, and the error of one that does not.
func (b *TimeLimit) until(now time.Time) (time.Time, error) {
	longest, late := maxTime, errTime
	if b.longest > 0 {
		longest, late = b.longest, b.late
	}
	if b.ctx != nil && b.left < longest {
		return now.Add(b.left), errBatchTime
	}
	return now.Add(longest), late
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
