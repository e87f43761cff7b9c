package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
)

// Few fast calls are measured, and the others count as much; every slow call is measured.
func TestSamplerEstimatesTheTimeOfCalls(t *testing.T) {
	for _, each := range []time.Duration{100 * time.Microsecond, 20 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			var (
				s measure.Sampler
				h measure.Histogram
				m measure.Meter
			)
			for range 80 {
				_ = s.Time(&h, &m, func() (int, error) { time.Sleep(each); return 2, nil })
			}
			want := 80 * each.Seconds()
			if got, current := m.Sum(); got < 0.99*want || got > 1.01*want || current != 0 {
				t.Errorf("80 calls of %v: the meter says %v s, call %d goes on", each, got, current)
			}
			if n, seconds := h.Sum(); n != 160 || seconds < 0.99*want || seconds > 1.01*want {
				t.Errorf("80 calls of %v: the histogram has %d of %v s", each, n, seconds)
			}
		})
	}
}

// A slow call is not used to estimate fast ones.
func TestSamplerMeasuresAfterASlowCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			s measure.Sampler
			h measure.Histogram
			m measure.Meter
		)
		for i := range 8 {
			_ = s.Time(&h, &m, func() (int, error) {
				if i == 0 {
					time.Sleep(40 * time.Millisecond)
				}
				return 1, nil
			})
		}
		if got, _ := m.Sum(); got != 0.04 {
			t.Errorf("a call of 40 ms and seven of none took %v s", got)
		}
	})
}

func TestSamplerPassesErrorsOn(t *testing.T) {
	var (
		s measure.Sampler
		h measure.Histogram
		m measure.Meter
	)
	broken := errors.New("broken")
	if err := s.Time(&h, &m, func() (int, error) { return 1, broken }); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	if n, _ := h.Sum(); n != 0 {
		t.Errorf("%d failed calls are in the histogram", n)
	}
}

// A call in progress is visible, even when a call of an abandoned run ends meanwhile.
func TestMeterCountsTheCallThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m measure.Meter
		abandoned, end := make(chan struct{}), make(chan struct{})
		go func() { _ = m.Wait(t.Context(), abandoned) }()
		synctest.Wait()
		_, first := m.Sum()
		go func() { _ = m.Wait(t.Context(), end) }()
		synctest.Wait()
		close(abandoned)
		synctest.Wait()
		_, second := m.Sum()
		close(end)
		synctest.Wait()
		if _, last := m.Sum(); first == 0 || second == 0 || first == second || last != 0 {
			t.Errorf("the calls that go on are %d, then %d, then %d", first, second, last)
		}
	})
}
