package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// TimeLimitError means that a processor or a condition exceeded processors.timeout for a record.
type TimeLimitError struct{ Limit time.Duration }

// Error names the limit and suggests a fix.
func (e *TimeLimitError) Error() string {
	return fmt.Sprintf("it took longer than %s (processors.timeout) for a record: simplify the "+
		"processor or condition, or raise processors.timeout", e.Limit)
}

// WithTimeLimit returns a context for the work of a processor on one record, or on several records that it processes
// together. It ends when the work exceeds processors.timeout, with a *TimeLimitError as its cause. Without a limit it
// is ctx.
func WithTimeLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	env := EnvFrom(ctx)
	env.Progress.begin()
	if env.TimeLimit <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, env.TimeLimit, &TimeLimitError{env.TimeLimit})
}

// InTime calls work with the context that WithTimeLimit returns. If work fails because that context has ended, the
// error is a *TimeLimitError, to refuse the record with. A processor that waits for other systems calls it for each
// record:
//
//	for i, r := range b.Records(ctx) {
//		if err := sdk.InTime(ctx, func(ctx context.Context) error { return p.send(ctx, r) }); err != nil {
//			b.Refuse(i, err)
//		}
//	}
//	return ctx.Err()
func InTime(ctx context.Context, work func(ctx context.Context) error) error {
	ctx, cancel := WithTimeLimit(ctx)
	defer cancel()
	err := work(ctx)
	var late *TimeLimitError
	if err == nil || !errors.As(context.Cause(ctx), &late) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, late) {
		return late
	}
	return fmt.Errorf("%w: %w", late, err)
}

// Progress tracks a processor through the records of a batch, so that a host can tell slow work on many records from
// endless work on one record. It is for hosts. A nil Progress does nothing.
type Progress struct {
	state  atomic.Int32
	turned atomic.Int32 // records of the batch up to the last one that counted as progress
	begun  atomic.Int32 // calls of begin that may still count as progress
}

// The states of a Progress.
const (
	idle    int32 = iota // not in a call
	working              // in a call
	asked                // in a call, without progress since Ask
)

// Start notes that the processor received n records.
func (p *Progress) Start(n int) {
	p.turned.Store(0)
	p.begun.Store(int32(2*n + 1)) // each record together with others, and alone
	p.state.Store(working)
}

// End notes that the processor returned.
func (p *Progress) End() { p.state.Store(idle) }

// Ask reports whether the processor has made no progress since the last Ask.
func (p *Progress) Ask() bool {
	return !p.state.CompareAndSwap(working, asked) && p.state.Load() == asked
}

// Turn notes that the processor turned to record i. Only a record after all earlier ones is progress.
func (p *Progress) Turn(i int) {
	if p != nil && p.state.Load() == asked && p.turned.Load() <= int32(i) {
		p.turned.Store(int32(i) + 1)
		p.state.CompareAndSwap(asked, working)
	}
}

// begin notes that the processor begins work on records, perhaps on records that it turned to before.
func (p *Progress) begin() {
	if p != nil && p.state.Load() == asked && p.begun.Add(-1) >= 0 {
		p.state.CompareAndSwap(asked, working)
	}
}
