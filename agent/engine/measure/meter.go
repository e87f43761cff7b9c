package measure

import (
	"context"
	"sync/atomic"
	"time"
)

// Meter adds up how long calls take of which one goes on at a time. It may be read at any
// time.
type Meter struct {
	calls   atomic.Uint64 // that began
	current atomic.Uint64 // number of the call that goes on, 0 when none does
	nanos   atomic.Uint64 // that those that ended took, estimated from the measured ones
}

// Sum returns how many seconds the calls took that have ended, and the number of the one
// that goes on, 0 when none does.
func (m *Meter) Sum() (seconds float64, current uint64) {
	return time.Duration(m.nanos.Load()).Seconds(), m.current.Load()
}

// Wait waits for signal, and adds how long that takes. It returns why ctx ended if that
// comes first.
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

// end ends call n, which may be one of a run that was abandoned while another goes on.
func (m *Meter) end(n uint64, took time.Duration) {
	m.current.CompareAndSwap(n, 0)
	m.nanos.Add(uint64(took))
}

// callsPerMeasurement is how many calls share one measurement of the time: at one record a
// call, reading the clock would cost as much as the rest. After a call that took slowCall,
// that is nothing, and the next one is measured as well.
const (
	callsPerMeasurement = 8
	slowCall            = time.Millisecond
)

// Sampler times calls. Some are measured, and those between count as if they took as long.
type Sampler struct {
	calls int
	took  time.Duration // by the call measured last
}

// Time calls call, and adds how long it takes to m and to h, where the records that it moved
// share that time.
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
		h.Share(DurationBounds, s.took.Seconds(), n)
	}
	return err
}

// Slow reports whether the call before took so long that what follows it costs little in
// comparison, such as a Read that waited for a record.
func (s *Sampler) Slow() bool { return s.took >= slowCall }
