package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A write is not taken over before the limit, and taken over once after it.
func TestLongWritesAreTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := 0
		h := handover{TakeOver: func() { taken++ }}
		broken := errors.New("broken")
		for _, test := range []struct {
			takes time.Duration
			over  bool
			err   error
		}{
			{0, false, nil}, {handoverLimit - 1, false, broken}, {handoverLimit - 1, false, nil},
			{handoverLimit + 1, true, broken}, {time.Hour, true, nil}, {0, false, nil},
		} {
			before := taken
			over, err := h.Do(func() error { time.Sleep(test.takes); synctest.Wait(); return test.err })
			if over != test.over || err != test.err || (taken > before) != test.over || taken > before+1 {
				t.Errorf("after a write of %v: over %v, error %v, taken over %d times", test.takes, over, err,
					taken-before)
			}
			time.Sleep(time.Hour)
		}
	})
}

// A write is not taken over because the previous one ended at the limit, when its timer had fired.
func TestTimerOfAnEarlierWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handover{TakeOver: func() {}}
		for range 1000 {
			_, _ = h.Do(func() error { time.Sleep(handoverLimit); return nil })
			if over, _ := h.Do(func() error { time.Sleep(handoverLimit - 1); return nil }); over {
				t.Fatal("a write was taken over before the limit")
			}
		}
	})
}
