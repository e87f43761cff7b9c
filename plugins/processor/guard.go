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

// guard ends the calls of a chain that make no progress. Calls run in a goroutine, which is left to itself if one does
// not return: there is no other way to end a loop, a system call or C code. One goroutine for all stages and calls of a
// chain keeps its stack, so that a batch of one record is cheap, too.
//
// The time of a processor begins anew with each record that it turns to. From time to time the guard asks each running
// worker whether it has turned to another record since.
type guard struct {
	limit    time.Duration // of the work on one record; 0: none, and no goroutine
	interval time.Duration // between two questions
	host     follow        // the chain's own work on records: conditions, schemas
	workers  []*follow
	calls    chan call   // to the goroutine; nil until the first one
	done     chan result // capacity 1
	timer    *time.Timer

	mu        sync.Mutex
	at        *stage // whose processor is in a call; nil: none. Guarded by mu
	abandoned bool   // guarded by mu
}

// follow is the progress of a worker.
type follow struct {
	progress sdk.Progress
	asked    time.Time // when the question was put to it that has no answer
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
	// grace is how long a processor may take to return after its context has ended.
	grace = time.Second
	// longestInterval is the longest time between two questions.
	longestInterval = time.Second
)

// errAbandoned is the error of calls after a call that did not return.
var errAbandoned = errors.New("a processor did not return from an earlier call")

func (g *guard) init(limit time.Duration) {
	g.limit, g.interval = limit, max(min(limit/8, longestInterval), time.Millisecond)
	g.done = make(chan result, 1)
}

// add returns the progress of another worker, nil if there is no limit.
func (g *guard) add() *sdk.Progress {
	if g.limit <= 0 {
		return nil
	}
	f := &follow{}
	g.workers = append(g.workers, f)
	return &f.progress
}

// call calls do, and waits for it as long as it makes progress. It returns a *sdk.TimeLimitError if it makes none, also
// if do does not return.
func (g *guard) call(ctx context.Context, do func(ctx context.Context) (connector.Outcome, error)) (connector.Outcome, error) {
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

// isLate asks each running worker for progress, and reports whether one has not answered for longer than it may.
func (g *guard) isLate(now time.Time) (late bool) {
	late = g.host.isLate(now, g)
	for _, f := range g.workers {
		late = f.isLate(now, g) || late
	}
	return late
}

// isLate is true only after the context of the record has ended, if the processor has one for each: it refuses the
// record then.
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

// abandon leaves the call that runs to itself, and returns its error.
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

// enter notes that the processor of s is about to be called. It returns an error if nobody waits for it any more.
func (g *guard) enter(s *stage) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.abandoned {
		return errAbandoned
	}
	g.at = s
	return nil
}

// leave notes that the call has returned. If nobody waits for it any more, it ends the processor.
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

// explain returns the reason why ctx has ended in the place of an error that is due to it.
func explain(ctx context.Context, err error) error {
	var late *sdk.TimeLimitError
	if err != nil && errors.As(context.Cause(ctx), &late) {
		return late
	}
	return err
}
