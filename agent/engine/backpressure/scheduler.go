package backpressure

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the time that a lease counts as active: a source may wait for records, and a destination for others. When
// all sources wait for a CPU it counts for longer.
const (
	leaseTime    = 10 * time.Millisecond // with unsettled records
	quietTime    = time.Millisecond      // without; most sources of a large number wait for their next record
	maxLeaseTime = 250 * time.Millisecond
)

// Scheduler grants read leases in the order of requests, a bounded number at a time. Without it hundreds of busy
// pipelines would hold records that wait for a CPU, and all other work, including commits, would wait behind them.
type Scheduler struct {
	limit int       // maximum number of active leases
	start time.Time // times are durations since then, because the clock of the machine may be set

	mu        sync.Mutex
	active    []*Lease        // guarded by mu
	waiters   []chan<- *Lease // guarded by mu: longest waiting first; capacity 1
	timer     *time.Timer     // guarded by mu: expires leases; nil before any source has waited
	timerLate time.Duration   // guarded by mu: last delay of the timer

	due atomic.Int64 // when the timer expires leases; 0: no source waits; written with mu held
}

// Lease is the right of a source to read some records.
type Lease struct {
	granted time.Duration
	quiet   atomic.Int64 // since when it has no unsettled records; busy: it has some
	expired atomic.Bool  // released, or its time is up; written with Scheduler.mu held
}

const busy = -1

// NewScheduler returns a scheduler with enough leases to keep every CPU busy reading and writing.
func NewScheduler() *Scheduler { return SchedulerWithLimit(4 * runtime.GOMAXPROCS(0)) }

// SchedulerWithLimit returns a scheduler with at most limit active leases.
func SchedulerWithLimit(limit int) *Scheduler { return &Scheduler{limit: limit, start: time.Now()} }

// Acquire waits for a lease. The lease is active until Release is called or its time is up.
func (s *Scheduler) Acquire(ctx context.Context) (*Lease, error) {
	s.mu.Lock()
	now := s.since(time.Now())
	s.advance(now)
	if len(s.active) < s.limit {
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
	return !l.expired.Load() && len(s.waiters) == 0
}

// Release ends a lease whose records are settled, or will not be settled any more.
func (s *Scheduler) Release(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(l)
	s.advance(s.since(time.Now()))
}

// Quiet records that the lease has no unsettled records since now.
func (s *Scheduler) Quiet(l *Lease, now time.Time) {
	since := s.since(now)
	l.quiet.Store(int64(since))
	if due := time.Duration(s.due.Load()); due == 0 || due <= since+quietTime || l.expired.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arm(since)
}

// Busy records that the lease has unsettled records.
func (l *Lease) Busy() { l.quiet.Store(busy) }

func (s *Scheduler) since(t time.Time) time.Duration { return t.Sub(s.start) }

func (s *Scheduler) grant(now time.Duration) *Lease {
	l := &Lease{granted: now}
	l.quiet.Store(int64(now))
	s.active = append(s.active, l)
	return l
}

func (s *Scheduler) expire(l *Lease) {
	if !l.expired.Swap(true) {
		s.active = slices.DeleteFunc(s.active, func(other *Lease) bool { return other == l })
	}
}

// advance expires the leases whose time is up and grants leases to waiting sources.
func (s *Scheduler) advance(now time.Duration) {
	s.active = slices.DeleteFunc(s.active, func(l *Lease) bool {
		over := s.end(l) <= now
		l.expired.Store(over)
		return over
	})
	for len(s.active) < s.limit && len(s.waiters) > 0 {
		s.waiters[0] <- s.grant(now)
		s.waiters = s.waiters[1:]
	}
	s.arm(now)
}

// arm sets the timer to the end of the lease that expires first, if a source waits for one.
func (s *Scheduler) arm(now time.Duration) {
	if len(s.waiters) == 0 {
		s.due.Store(0)
		return
	}
	// A concurrent call of Quiet either is seen below or sees this and arms again.
	s.due.Store(math.MaxInt64)
	due := time.Duration(math.MaxInt64)
	for _, l := range s.active {
		due = min(due, s.end(l))
	}
	s.due.Store(int64(due))
	if s.timer == nil {
		s.timer = time.AfterFunc(due-now, s.tick)
	} else {
		s.timer.Reset(due - now)
	}
}

// tick advances when the timer has fired.
func (s *Scheduler) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, due := s.since(time.Now()), time.Duration(s.due.Load())
	if due == 0 || due > now {
		return // no source waits any longer, or the timer was set again
	}
	s.timerLate = now - due
	s.advance(now)
}

// end returns when the time of the lease is up. Every goroutine that is ready waits for a CPU about as long as the
// timer was late, and reading and writing take several such waits.
func (s *Scheduler) end(l *Lease) time.Duration {
	late := 4 * s.timerLate
	end := l.granted + min(leaseTime+late, maxLeaseTime)
	if quiet := time.Duration(l.quiet.Load()); quiet != busy {
		end = min(end, quiet+min(quietTime+late, maxLeaseTime))
	}
	return end
}

// abandon removes a waiter from the queue and passes on a lease granted to it meanwhile.
func (s *Scheduler) abandon(granted chan *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiters, (chan<- *Lease)(granted)); i >= 0 {
		s.waiters = slices.Delete(s.waiters, i, i+1)
		return
	}
	s.expire(<-granted)
	s.advance(s.since(time.Now()))
}
