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

// acquire requests a lease in a goroutine, reads a record under it, and returns when all goroutines are blocked.
func (q *queue) acquire(ctx context.Context, who int) {
	q.wait(ctx, who, (*backpressure.Lease).Busy)
}

// wait requests a lease in a goroutine, calls then with it, and returns when all goroutines are blocked.
func (q *queue) wait(ctx context.Context, who int, then func(*backpressure.Lease)) {
	go func() {
		lease, err := q.scheduler.Acquire(ctx)
		if err != nil {
			return
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.got[who] = lease
		then(lease)
	}()
	synctest.Wait()
}

func (q *queue) release(who int) {
	q.scheduler.Release(q.got[who])
	synctest.Wait()
}

// quiet settles the records read under a lease.
func (q *queue) quiet(who int) {
	q.scheduler.Quiet(q.got[who], time.Now())
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
	"a lease with settled records expires soon": func(t *testing.T, q *queue) {
		for who := range 4 {
			q.acquire(t.Context(), who)
		}
		q.want(2*time.Millisecond, 0, 1)
		q.quiet(1)
		q.want(2999*time.Microsecond, 0, 1)
		q.want(3*time.Millisecond, 0, 1, 2)
		q.want(5*time.Millisecond, 0, 1, 2)
		q.quiet(0)
		q.quiet(2)
		q.want(6*time.Millisecond, 0, 1, 2, 3)
	},
	"settled before another waits": func(t *testing.T, q *queue) {
		q.acquire(t.Context(), 0)
		q.acquire(t.Context(), 1)
		q.quiet(0)
		time.Sleep(500 * time.Microsecond)
		q.acquire(t.Context(), 2)
		q.want(999*time.Microsecond, 0, 1)
		q.want(time.Millisecond, 0, 1, 2)
	},
	"a source that reads on keeps its lease": func(t *testing.T, q *queue) {
		for who := range 3 {
			q.acquire(t.Context(), who)
		}
		for range 9 {
			q.quiet(0)
			time.Sleep(500 * time.Microsecond)
			q.got[0].Busy()
			time.Sleep(600 * time.Microsecond)
		}
		q.want(9999*time.Microsecond, 0, 1)
		q.want(10*time.Millisecond, 0, 1, 2)
	},
	"settled shortly before it expires": func(t *testing.T, q *queue) {
		for who := range 3 {
			q.acquire(t.Context(), who)
		}
		q.want(9500*time.Microsecond, 0, 1)
		q.quiet(0)
		q.quiet(1)
		q.want(10*time.Millisecond, 0, 1, 2)
	},
	"sources that wait for their first record": func(t *testing.T, q *queue) {
		idle := func(*backpressure.Lease) {}
		for who := range 6 {
			q.wait(t.Context(), who, idle)
		}
		q.want(999*time.Microsecond, 0, 1)
		q.want(time.Millisecond, 0, 1, 2, 3)
		q.want(1999*time.Microsecond, 0, 1, 2, 3)
		q.want(2*time.Millisecond, 0, 1, 2, 3, 4, 5)
	},
	"settled records of a lease that has expired": func(t *testing.T, q *queue) {
		for who := range 5 {
			q.acquire(t.Context(), who)
		}
		q.want(10*time.Millisecond, 0, 1, 2, 3)
		q.quiet(0)
		q.want(19*time.Millisecond, 0, 1, 2, 3)
		q.quiet(3)
		q.want(20*time.Millisecond, 0, 1, 2, 3, 4)
	},
	"settled, where all wait for a CPU": func(t *testing.T, q *queue) {
		q.scheduler.TimerLate(2 * time.Millisecond)
		for who := range 3 {
			q.acquire(t.Context(), who)
		}
		q.quiet(0)
		q.want(8999*time.Microsecond, 0, 1)
		q.want(9*time.Millisecond, 0, 1, 2)
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
	"a timer that nobody needs any longer is not late": func(t *testing.T, q *queue) {
		for who := range 3 {
			q.acquire(t.Context(), who)
		}
		q.release(0) // the timer is still set
		q.want(time.Second, 0, 1, 2)
		for who := range 3 {
			q.acquire(t.Context(), 3+who)
		}
		q.want(1009*time.Millisecond, 0, 1, 2, 3, 4)
		q.want(1010*time.Millisecond, 0, 1, 2, 3, 4, 5)
	},
	"nor one that fires before it is set again": func(t *testing.T, q *queue) {
		for who := range 3 {
			q.acquire(t.Context(), who)
		}
		q.scheduler.Tick()
		q.want(9999*time.Microsecond, 0, 1)
		q.want(10*time.Millisecond, 0, 1, 2)
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
