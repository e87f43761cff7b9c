package processor

import (
	"sync/atomic"
	"time"
)

// Buckets are the upper bounds, in seconds, of the histogram in Stats.
var Buckets = [...]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}

// Stats counts what a processor did. It may be read at any time.
type Stats struct {
	In       atomic.Uint64 // records that reached it and met its condition
	Out      atomic.Uint64 // records that went on behind it, with those that passed it by
	Filtered atomic.Uint64
	Refused  atomic.Uint64
	Nanos    atomic.Uint64                   // time it took
	Current  atomic.Uint64                   // number of the call that goes on, 0 when none does
	Seconds  [len(Buckets) + 1]atomic.Uint64 // records by the time each took, a batch shared evenly

	calls atomic.Uint64 // that began
}

// begin begins a call. It returns what ends it, which may be one of a run that was abandoned
// while another goes on.
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
