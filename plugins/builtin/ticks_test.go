package builtin_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
)

// Pauses that begin at any time end at ticks, within their bounds. Short pauses are unchanged.
func TestPausesEndAtTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct{ pause, before, after time.Duration }{
			{time.Hour, 100 * time.Millisecond, 100 * time.Millisecond},
			{time.Second, 100 * time.Millisecond, 100 * time.Millisecond},
			{300 * time.Millisecond, 50 * time.Millisecond, 10 * time.Millisecond},
			{250 * time.Millisecond, 50 * time.Millisecond, 10 * time.Millisecond},
			{100 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond},
			{50 * time.Millisecond, 10 * time.Millisecond, 0}, {49 * time.Millisecond, 0, 0}, {0, 0, 0},
		} {
			for range 200 {
				time.Sleep(1700 * time.Microsecond)
				ends := func(name string, pause, least, most, tick time.Duration) {
					if at := time.Now().Add(pause); pause < least || pause > most || tick > 0 &&
						!at.Truncate(tick).Equal(at) {
						t.Fatalf("a pause of %v %s is %v, which ends at %v", test.pause, name, pause, at)
					}
				}
				ends("at most", common.TickBefore(test.pause), test.pause-test.before, test.pause, test.before)
				ends("at least", common.TickAfter(test.pause, test.pause), test.pause, test.pause+test.after,
					test.after)
			}
		}
		if got := common.TickAfter(time.Millisecond, time.Second); got <= time.Millisecond ||
			got > 101*time.Millisecond {
			t.Errorf("the rest of a second, a millisecond, becomes %v", got)
		}
	})
}
