package backpressure

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the reads under one lease.
const (
	leaseRecords = 512
	leaseBytes   = 256 << 10
)

// Leases are the leases of a source, whose records are numbered in the order read. The goroutine that reads calls
// Acquire and Read.
type Leases struct {
	scheduler *Scheduler
	marks     func() (read, low uint64)
	current   atomic.Pointer[Lease] // the lease for the current reads
	records   int                   // that it may still read under current
	bytes     int

	mu      sync.Mutex
	pending []pending     // guarded by mu: oldest first
	first   atomic.Uint64 // last record of the first pending lease; written with mu held
}

// pending is a lease whose reads have ended, with records that are not settled yet.
type pending struct {
	*Lease
	last uint64 // number of the last record read under the lease
}

// NewLeases returns the leases of a source; without a scheduler it needs none. marks returns the numbers of the last
// record read and of the last record up to which all are settled.
func NewLeases(s *Scheduler, marks func() (read, low uint64)) *Leases {
	l := &Leases{scheduler: s, marks: marks}
	l.first.Store(math.MaxUint64)
	return l
}

// Acquire waits for a lease, unless the current one allows further reads or can be renewed.
func (l *Leases) Acquire(ctx context.Context) error {
	if l.scheduler == nil || l.records > 0 && l.bytes > 0 {
		return nil
	}
	l.records, l.bytes = leaseRecords, leaseBytes
	if current := l.current.Load(); current != nil {
		if l.scheduler.Renew(current) {
			return nil
		}
		l.retire(current)
	}
	current, err := l.scheduler.Acquire(ctx)
	l.current.Store(current)
	return err
}

// Read counts records and bytes read under the current lease.
func (l *Leases) Read(records, bytes int) {
	l.records, l.bytes = l.records-records, l.bytes-bytes
	if current := l.current.Load(); current != nil {
		current.Busy()
	}
}

func (l *Leases) retire(current *Lease) {
	read, _ := l.marks()
	l.mu.Lock()
	if l.pending = append(l.pending, pending{current, read}); len(l.pending) == 1 {
		l.first.Store(read)
	}
	l.mu.Unlock()
	_, low := l.marks()
	l.release(low)
}

// Settled records that at now all records up to number low were settled, and read were read: the current lease may have
// no unsettled records, and pending ones end.
func (l *Leases) Settled(read, low uint64, now time.Time) {
	if current := l.current.Load(); current != nil && read == low {
		l.scheduler.Quiet(current, now)
	}
	l.release(low)
}

// release releases the pending leases whose records are all settled. low is the low-water mark.
func (l *Leases) release(low uint64) {
	if low < l.first.Load() {
		return
	}
	l.mu.Lock()
	n := 0
	for n < len(l.pending) && l.pending[n].last <= low {
		n++
	}
	over := l.pending[:n]
	if l.pending = l.pending[n:]; len(l.pending) > 0 {
		l.first.Store(l.pending[0].last)
	} else {
		l.first.Store(math.MaxUint64)
	}
	l.mu.Unlock()
	for _, p := range over {
		l.scheduler.Release(p.Lease)
	}
}
