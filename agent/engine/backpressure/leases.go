package backpressure

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
)

// What a source may read under one lease.
const (
	leaseRecords = 512
	leaseBytes   = 256 << 10
)

// Leases are those of one source, whose records are numbered in the order read. Acquire
// and Read are called by the goroutine that reads.
type Leases struct {
	scheduler *Scheduler
	marks     func() (read, low uint64)
	current   *Lease // under which it reads
	records   int    // that it may still read under it
	bytes     int

	mu      sync.Mutex
	pending []pending     // guarded by mu: oldest first
	first   atomic.Uint64 // last of the first pending one; written with mu held
}

// pending is a lease under which nothing more is read, and of whose records some are not
// settled.
type pending struct {
	*Lease
	last uint64 // number of the last record read under it
}

// NewLeases returns the leases of a source; without a scheduler it needs none. marks
// returns the numbers of the last record read and of the last up to which all are settled.
func NewLeases(s *Scheduler, marks func() (read, low uint64)) *Leases {
	l := &Leases{scheduler: s, marks: marks}
	l.first.Store(math.MaxUint64)
	return l
}

// Acquire waits for a lease, unless something may still be read under the one there is, or
// that one is renewed.
func (l *Leases) Acquire(ctx context.Context) (err error) {
	if l.scheduler == nil || l.records > 0 && l.bytes > 0 {
		return nil
	}
	l.records, l.bytes = leaseRecords, leaseBytes
	if l.current != nil {
		if l.scheduler.Renew(l.current) {
			return nil
		}
		l.retire()
	}
	l.current, err = l.scheduler.Acquire(ctx)
	return err
}

// Read takes into account what was read.
func (l *Leases) Read(records, bytes int) { l.records, l.bytes = l.records-records, l.bytes-bytes }

func (l *Leases) retire() {
	read, _ := l.marks()
	l.mu.Lock()
	if l.pending = append(l.pending, pending{l.current, read}); len(l.pending) == 1 {
		l.first.Store(read)
	}
	l.mu.Unlock()
	_, low := l.marks()
	l.Settled(low)
}

// Settled releases the leases of which everything is settled: all records up to low are.
func (l *Leases) Settled(low uint64) {
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
