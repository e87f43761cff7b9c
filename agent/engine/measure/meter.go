package measure

import (
	"context"
	"sync/atomic"
	"time"
)

// Meter adds up the durations of calls, at most one of which is in progress at a time. It may be read at any time.
type Meter struct {
	calls   atomic.Uint64 // number of calls that began
	current atomic.Uint64 // number of the call in progress, 0 for none
	nanos   atomic.Uint64 // duration of the calls that ended, estimated from the measured ones
}

// Sum returns the duration in seconds of the calls that have ended, and the number of the call in progress, 0 for
// none.
func (m *Meter) Sum() (seconds float64, current uint64) {
	return time.Duration(m.nanos.Load()).Seconds(), m.current.Load()
}

// Wait waits for signal, and adds the duration of the wait. It returns the cause if ctx ends first.
func (m *Meter) Wait(ctx context.Context, signal <-chan struct{}) error {
	n, begin := m.begin(), time.Now()
	defer func() { m.end(n, time.Since(begin)) }()
	select {
	case <-signal:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *Meter) begin() uint64 {
	n := m.calls.Add(1)
	m.current.Store(n)
	return n
}

// end ends call n, which may belong to an abandoned run while a call of the next run is in progress.
func (m *Meter) end(n uint64, took time.Duration) {
	m.current.CompareAndSwap(n, 0)
	m.nanos.Add(uint64(took))
}

// callsPerMeasurement is the number of calls that share one measurement of the time: at one record per call, reading
// the clock would cost as much as the rest. After a call that took slowCall, the cost is negligible, and the next call
// is measured as well.
const (
	callsPerMeasurement = 8
	slowCall            = time.Millisecond
)

// Sampler times calls. It measures some calls, and counts those between as if they took as long.
type Sampler struct {
	calls int
	took  time.Duration // duration of the last measured call
}

// Time calls call, and adds its duration to m and to h, where the records that it moved share that time.
func (s *Sampler) Time(h *Histogram, m *Meter, call func() (records int, err error)) error {
	measured := s.calls%callsPerMeasurement == 0 || s.took >= slowCall
	s.calls++
	number := m.begin()
	var begin time.Time
	if measured {
		begin = time.Now()
	}
	n, err := call()
	if measured {
		s.took = time.Since(begin)
	}
	m.end(number, s.took)
	if err == nil {
		h.ObserveMean(DurationBounds, s.took.Seconds(), n)
	}
	return err
}

// Slow reports whether the last call took so long, such as a Read that waited for a record, that the next steps cost
// little in comparison.
func (s *Sampler) Slow() bool { return s.took >= slowCall }
