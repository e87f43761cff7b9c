package processor

import (
	"sync/atomic"
	"time"
)

// Buckets are the upper bounds, in seconds, of the histogram in Stats.
var Buckets = [...]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}

// Stats holds the counters of a processor. It may be read at any time.
type Stats struct {
	In       atomic.Uint64 // records that reached the processor and met its condition
	Out      atomic.Uint64 // records that left the stage, including those that its condition skipped
	Filtered atomic.Uint64
	Refused  atomic.Uint64
	Accepted atomic.Uint64                   // records that it did not refuse, and those that its condition skipped
	Nanos    atomic.Uint64                   // total time of the calls
	Current  atomic.Uint64                   // number of the running call, 0 if there is none
	Seconds  [len(Buckets) + 1]atomic.Uint64 // records by the time each took; the time of a batch is shared evenly

	// NeverFound has the fields that the processor reads and that no record had; nil: none, or too few records.
	NeverFound atomic.Pointer[[]string]

	calls atomic.Uint64 // calls begun
}

// begin begins a call and returns a function that ends it. The call may belong to an abandoned run while another call
// runs.
func (s *Stats) begin() (end func()) {
	n := s.calls.Add(1)
	s.Current.Store(n)
	return func() { s.Current.CompareAndSwap(n, 0) }
}

// observe counts n records that took d together.
func (s *Stats) observe(n int, d time.Duration) {
	s.In.Add(uint64(n))
	s.Nanos.Add(uint64(d))
	if n == 0 {
		return
	}
	each, bucket := d.Seconds()/float64(n), 0
	for bucket < len(Buckets) && each > Buckets[bucket] {
		bucket++
	}
	s.Seconds[bucket].Add(uint64(n))
}
