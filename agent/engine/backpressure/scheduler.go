package backpressure

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Bounds of the time that a lease with unsettled records counts as active: a source may wait for records, and a
// destination for others. When all sources wait for a CPU it counts for longer.
const (
	leaseTime    = 10 * time.Millisecond
	maxLeaseTime = 250 * time.Millisecond
)

// Scheduler grants read leases in the order of requests, a bounded number at a time. Without it hundreds of busy
// pipelines would hold records that wait for a CPU, and all other work, including commits, would wait behind them.
type Scheduler struct {
	limit int // maximum number of active leases

	mu        sync.Mutex
	leases    []*Lease        // guarded by mu: in the order granted, starting with the first active one
	active    int             // guarded by mu: number of active leases
	waiters   []chan<- *Lease // guarded by mu: longest waiting first; capacity 1
	armed     bool            // guarded by mu: the timer will expire the first lease
	timerLate time.Duration   // guarded by mu: last delay of the timer
}

// Lease is the right of a source to read some records.
type Lease struct {
	granted time.Time
	expired bool // guarded by Scheduler.mu: released, or its time is up
}

// NewScheduler returns a scheduler with enough leases to keep every CPU busy reading and writing.
func NewScheduler() *Scheduler { return SchedulerWithLimit(4 * runtime.GOMAXPROCS(0)) }

// SchedulerWithLimit returns a scheduler with at most limit active leases.
func SchedulerWithLimit(limit int) *Scheduler { return &Scheduler{limit: limit} }

// Acquire waits for a lease. The lease is active until Release is called or its time is up.
func (s *Scheduler) Acquire(ctx context.Context) (*Lease, error) {
	s.mu.Lock()
	now := time.Now()
	s.advance(now)
	if s.active < s.limit {
		defer s.mu.Unlock()
		return s.grant(now), nil
	}
	granted := make(chan *Lease, 1)
	s.waiters = append(s.waiters, granted)
	s.arm(now)
	s.mu.Unlock()
	select {
	case l := <-granted:
		return l, nil
	case <-ctx.Done():
		s.abandon(granted)
		return nil, context.Cause(ctx)
	}
}

// Renew reports whether the lease may be used for as many records again: it is active and no other source waits for
// one.
func (s *Scheduler) Renew(l *Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !l.expired && len(s.waiters) == 0
}

// Release ends a lease whose records are settled, or will not be settled any more.
func (s *Scheduler) Release(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(l)
	s.advance(time.Now())
}

func (s *Scheduler) grant(now time.Time) *Lease {
	l := &Lease{granted: now}
	s.leases = append(s.leases, l)
	s.active++
	return l
}

func (s *Scheduler) expire(l *Lease) {
	if !l.expired {
		l.expired = true
		s.active--
	}
}

// advance expires the leases whose time is up and grants leases to waiting sources.
func (s *Scheduler) advance(now time.Time) {
	for len(s.leases) > 0 && (s.leases[0].expired || now.Sub(s.leases[0].granted) >= s.leaseTime()) {
		s.expire(s.leases[0])
		s.leases = s.leases[1:]
	}
	for s.active < s.limit && len(s.waiters) > 0 {
		s.waiters[0] <- s.grant(now)
		s.waiters = s.waiters[1:]
	}
	s.arm(now)
}

// arm starts the timer that expires the first lease, if a source waits for one.
func (s *Scheduler) arm(now time.Time) {
	if s.armed || len(s.waiters) == 0 {
		return
	}
	s.armed = true
	due := s.leases[0].granted.Add(s.leaseTime())
	time.AfterFunc(due.Sub(now), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		now := time.Now()
		s.armed, s.timerLate = false, now.Sub(due)
		s.advance(now)
	})
}

// leaseTime returns how long a lease is active. Every goroutine that is ready waits for a CPU about as long as the
// timer was late, and reading and writing take several such waits.
func (s *Scheduler) leaseTime() time.Duration { return min(leaseTime+4*s.timerLate, maxLeaseTime) }

// abandon removes a waiter from the queue and passes on a lease granted to it meanwhile.
func (s *Scheduler) abandon(granted chan *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiters, (chan<- *Lease)(granted)); i >= 0 {
		s.waiters = slices.Delete(s.waiters, i, i+1)
		return
	}
	s.expire(<-granted)
	s.advance(time.Now())
}
