package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// guard ends the calls of a chain that make no progress. Calls run in a goroutine. If a call does not return, its
// goroutine is abandoned, because there is no other way to end a loop, a system call or C code. All stages and calls of
// a chain share one goroutine, which keeps its stack, so that single-record batches are cheap, too.
//
// The time limit of a processor restarts with each record that it turns to. The guard periodically asks each running
// worker whether it has turned to another record since the last check.
type guard struct {
	limit    time.Duration // time limit for one record; 0: none, and no goroutine
	interval time.Duration // time between two checks
	host     follow        // the chain's own work on records: conditions, schemas
	workers  []*follow
	calls    chan call   // to the goroutine; nil before the first call
	done     chan result // capacity 1
	timer    *time.Timer

	mu        sync.Mutex
	at        *stage // stage whose processor is in a call; nil: none. Guarded by mu
	abandoned bool   // guarded by mu
}

// follow is the progress of a worker.
type follow struct {
	progress sdk.Progress
	asked    time.Time // time of the first check without an answer
}

// call is a call of a chain.
type call struct {
	ctx context.Context
	do  func(ctx context.Context) (connector.Outcome, error)
}

// result is the outcome of a call.
type result struct {
	out connector.Outcome
	err error
}

const (
	// grace is the time that a processor has to return after its context has ended.
	grace = time.Second
	// longestInterval is the maximum time between two checks.
	longestInterval = time.Second
)

// errAbandoned is the error of calls after a call that did not return.
var errAbandoned = errors.New("a processor did not return from an earlier call")

func (g *guard) init(limit time.Duration) {
	g.limit, g.interval = limit, max(min(limit/8, longestInterval), time.Millisecond)
	g.done = make(chan result, 1)
}

// add returns the progress of another worker, or nil if there is no limit.
func (g *guard) add() *sdk.Progress {
	if g.limit <= 0 {
		return nil
	}
	f := &follow{}
	g.workers = append(g.workers, f)
	return &f.progress
}

// call calls do, and waits for it while it makes progress. Otherwise it returns a *sdk.TimeLimitError, even if do does
// not return.
func (g *guard) call(
	ctx context.Context, do func(ctx context.Context) (connector.Outcome, error),
) (connector.Outcome, error) {
	if g.limit <= 0 {
		return do(ctx)
	}
	if g.isAbandoned() {
		return connector.Outcome{}, errAbandoned
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if g.calls == nil {
		g.calls, g.timer = make(chan call), time.NewTimer(g.interval)
		go g.run(g.calls)
	}
	g.timer.Reset(g.interval)
	g.calls <- call{ctx, do}
	defer g.timer.Stop()
	for ctx.Err() == nil {
		select {
		case r := <-g.done:
			return r.out, r.err
		case <-ctx.Done():
		case <-g.timer.C:
			if g.isLate(time.Now()) {
				cancel(&sdk.TimeLimitError{Limit: g.limit})
				break
			}
			g.timer.Reset(g.interval)
		}
	}
	g.timer.Reset(grace)
	select {
	case r := <-g.done:
		return r.out, r.err
	case <-g.timer.C:
		return connector.Outcome{}, g.abandon(context.Cause(ctx))
	}
}

// run is the goroutine of all calls, until close.
func (g *guard) run(calls <-chan call) {
	for c := range calls {
		var r result
		r.err = contain(func() (err error) {
			r.out, err = c.do(c.ctx)
			return err
		})
		g.done <- r
	}
}

// close ends the goroutine. No call may follow.
func (g *guard) close() {
	if g.calls != nil {
		close(g.calls)
		g.calls = nil
	}
}

// isLate checks the progress of each running worker, and reports whether one has not answered within its time limit.
func (g *guard) isLate(now time.Time) (late bool) {
	late = g.host.isLate(now, g)
	for _, f := range g.workers {
		late = f.isLate(now, g) || late
	}
	return late
}

// isLate becomes true after the context of the record has ended, so that a processor with a context for each record can
// refuse the record first.
func (f *follow) isLate(now time.Time, g *guard) bool {
	if !f.progress.Ask() {
		f.asked = now
		return false
	}
	return now.Sub(f.asked) >= g.limit+g.interval
}

func (g *guard) isAbandoned() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.abandoned
}

// abandon abandons the running call, and returns its error.
func (g *guard) abandon(cause error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.abandoned = true
	if g.at == nil {
		return fmt.Errorf("cannot process records: %w", cause)
	}
	g.at.hung = true
	return fmt.Errorf("cannot process records with %s: %w", g.at.id, cause)
}

// enter records that the processor of s is about to be called. It returns an error if the call was abandoned.
func (g *guard) enter(s *stage) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.abandoned {
		return errAbandoned
	}
	g.at = s
	return nil
}

// leave records that the call has returned. If the call was abandoned, leave tears down the processor.
func (g *guard) leave(ctx context.Context, s *stage) {
	g.mu.Lock()
	g.at = nil
	hung := s.hung
	g.mu.Unlock()
	if hung {
		_ = s.endWorkers(context.WithoutCancel(ctx))
	}
}

// inCall calls f, which calls the processor of s.
func (g *guard) inCall(ctx context.Context, s *stage, f func() error) error {
	if g.limit <= 0 {
		return f()
	}
	if err := g.enter(s); err != nil {
		return err
	}
	defer g.leave(ctx, s)
	return f()
}

// isHung reports whether a call of the processor of s may still be running.
func (g *guard) isHung(s *stage) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return s.hung
}

// explain returns the cause of the end of ctx instead of an error that results from it.
func explain(ctx context.Context, err error) error {
	var late *sdk.TimeLimitError
	if err != nil && errors.As(context.Cause(ctx), &late) {
		return late
	}
	return err
}
