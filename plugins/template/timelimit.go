package template

import (
	"context"
	"fmt"
	"time"
)

// maxBatchTime is the time limit of all executions for one batch of records.
const maxBatchTime = 10 * time.Second

// TimeLimit bounds the executions for the records of a batch: by their total time, and by the context of the batch.
// With the zero TimeLimit, only the bounds of each execution apply. It must be used by one goroutine at a time.
type TimeLimit struct {
	ctx  context.Context // context of the batch; nil: no batch has begun
	left time.Duration

	longest time.Duration // time limit of each execution if below maxTime; 0: maxTime
	late    error         // error of an execution that exceeds longest
}

// Begin begins a batch. Its executions end with ctx.
func (b *TimeLimit) Begin(ctx context.Context) { b.ctx, b.left, b.longest = ctx, maxBatchTime, 0 }

// BeginWithin is Begin for a processor with the time limit limit for one record; 0: no limit.
func (b *TimeLimit) BeginWithin(ctx context.Context, limit time.Duration) {
	b.Begin(ctx)
	if limit > 0 && limit < maxTime {
		b.longest = limit
		b.late = fmt.Errorf("it took longer than %s (processors.timeout) for a record: simplify the template, or "+
			"raise processors.timeout", limit)
	}
}

// until returns the deadline of an execution that starts now, and the error for exceeding it.
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

// spend subtracts the time since start, when an execution began.
func (b *TimeLimit) spend(start time.Time) {
	if b.ctx != nil {
		b.left -= time.Since(start)
	}
}

// ended returns the reason why the batch is over, or nil if it is not.
func (b *TimeLimit) ended() error {
	if b.ctx == nil {
		return nil
	}
	return context.Cause(b.ctx)
}
