package backpressure_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/backpressure"
)

// queue records which goroutines wait for leases and which have one.
type queue struct {
	t         *testing.T
	scheduler *backpressure.Scheduler
	start     time.Time

	mu  sync.Mutex
	got map[int]*backpressure.Lease // guarded by mu
}

func newQueue(t *testing.T, most int) *queue {
	return &queue{t: t, scheduler: backpressure.SchedulerWithLimit(most), got: map[int]*backpressure.Lease{},
		start: time.Now()}
}

// acquire requests a lease in a goroutine, and returns when all goroutines are blocked.
func (q *queue) acquire(ctx context.Context, who int) {
	go func() {
		lease, err := q.scheduler.Acquire(ctx)
		if err != nil {
			return
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.got[who] = lease
	}()
	synctest.Wait()
}

func (q *queue) release(who int) {
	q.scheduler.Release(q.got[who])
	synctest.Wait()
}

func (q *queue) renewed(who int, want bool) {
	q.t.Helper()
	if got := q.scheduler.Renew(q.got[who]); got != want {
		q.t.Errorf("the lease of %d is renewed: %v", who, got)
	}
}

func (q *queue) want(after time.Duration, who ...int) {
	q.t.Helper()
	time.Sleep(after - time.Since(q.start))
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if got := slices.Sorted(maps.Keys(q.got)); !slices.Equal(got, who) {
		q.t.Errorf("after %v %v got leases, want %v", after, got, who)
	}
}

// schedulerCases are the cases of TestScheduler.
var schedulerCases = map[string]func(t *testing.T, q *queue){
	"leases are granted in the order asked for": func(t *testing.T, q *queue) {
		for who := range 5 {
			q.acquire(t.Context(), who)
		}
		q.want(0, 0, 1)
		q.release(1)
		q.want(0, 0, 1, 2)
		q.release(0)
		q.release(2)
		q.want(0, 0, 1, 2, 3, 4)
	},
	"a lease expires": func(t *testing.T, q *queue) {
		for who := range 3 {
			q.acquire(t.Context(), who)
		}
		q.want(9*time.Millisecond, 0, 1)
		q.acquire(t.Context(), 3)
		q.acquire(t.Context(), 4)
		q.want(10*time.Millisecond, 0, 1, 2, 3)
		q.release(0) // has expired
		q.want(19*time.Millisecond, 0, 1, 2, 3)
		q.want(20*time.Millisecond, 0, 1, 2, 3, 4)
	},
	"where all wait for a CPU, a lease lasts longer": func(t *testing.T, q *queue) {
		q.scheduler.TimerLate(20 * time.Millisecond)
		for who := range 3 {
			q.acquire(t.Context(), who)
		}
		q.want(89*time.Millisecond, 0, 1)
		q.want(90*time.Millisecond, 0, 1, 2)
		q.acquire(t.Context(), 3) // the timer was on time again
		q.want(91*time.Millisecond, 0, 1, 2, 3)
		q.acquire(t.Context(), 4)
		q.want(99*time.Millisecond, 0, 1, 2, 3)
		q.want(100*time.Millisecond, 0, 1, 2, 3, 4)
	},
	"but not without bound": func(t *testing.T, q *queue) {
		q.scheduler.TimerLate(time.Hour)
		for who := range 3 {
			q.acquire(t.Context(), who)
		}
		q.want(249*time.Millisecond, 0, 1)
		q.want(250*time.Millisecond, 0, 1, 2)
	},
	"a lease is renewed while no other waits": func(t *testing.T, q *queue) {
		q.acquire(t.Context(), 0)
		q.acquire(t.Context(), 1)
		time.Sleep(time.Second)
		q.renewed(0, true)
		q.acquire(t.Context(), 2)
		q.want(time.Second, 0, 1, 2) // the others took long
		q.renewed(0, false)
		q.acquire(t.Context(), 3)
		q.acquire(t.Context(), 4)
		q.renewed(2, false)
		q.release(3)
		q.want(time.Second, 0, 1, 2, 3, 4)
		q.renewed(2, true)
		q.renewed(3, false)
	},
	"a waiter that leaves gets no lease": func(t *testing.T, q *queue) {
		q.acquire(t.Context(), 0)
		q.acquire(t.Context(), 1)
		ctx, cancel := context.WithCancel(t.Context())
		q.acquire(ctx, 2)
		q.acquire(t.Context(), 3)
		cancel()
		synctest.Wait()
		q.release(0)
		q.want(0, 0, 1, 3)
	},
	"a lease granted to a waiter that left passes on": func(t *testing.T, q *queue) {
		q.acquire(t.Context(), 0)
		q.acquire(t.Context(), 1)
		ctx, cancel := context.WithCancel(t.Context())
		q.acquire(ctx, 2)
		q.acquire(t.Context(), 3)
		cancel() // concurrently with the grant: either may be seen first
		q.scheduler.Release(q.got[0])
		synctest.Wait()
		if q.got[2] != nil {
			q.release(2)
		}
		if q.got[3] == nil {
			t.Error("the lease was lost")
		}
	},
}

func TestScheduler(t *testing.T) {
	tests := schedulerCases
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newQueue(t, 2)) })
		})
	}
}
