package deadletter_test

import (
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/deadletter"
)

// TestJumps checks that setting the clock counts as a jump in both directions, and a small correction does not.
func TestJumps(t *testing.T) {
	const year = 365 * 24 * time.Hour
	wall, running := time.Unix(10, 0), 5*time.Hour
	w := deadletter.HostClock{Read: func() (time.Time, time.Duration) { return wall, running }}
	var since time.Duration
	for _, test := range []struct{ passes, set, want time.Duration }{
		{}, {time.Hour, 0, 0}, {time.Second, 56 * year, 56 * year}, {40 * 24 * time.Hour, 0, 0},
		{0, -50 * year, -50 * year},
		{time.Hour, 59 * time.Second, 0}, {time.Hour, 2 * time.Minute, 2 * time.Minute},
	} {
		wall, running, since = wall.Add(test.passes+test.set), running+test.passes, since+test.passes
		now, jump, began := w.Compare()
		if jump != test.want || now != wall || began != since {
			t.Errorf("after %v, set by %v: now %v, jump %v, begun %v ago; want %v, %v, %v", test.passes, test.set, now,
				jump, began, wall, test.want, since)
		}
	}
}

// TestClocksOfTheHost checks that the clocks of the host advance together.
func TestClocksOfTheHost(t *testing.T) {
	var w deadletter.HostClock
	before := time.Now()
	w.Compare()
	begin := time.Now()
	for time.Since(begin) < 5*time.Millisecond {
		continue
	}
	now, jump, since := w.Compare()
	if jump != 0 || now.Before(begin) || since < 5*time.Millisecond || since > time.Since(before) {
		t.Errorf("after %v: now %v, jump %v, %v passed", time.Since(before), now, jump, since)
	}
}
