package deadletter

import "time"

// minClockJump is the smallest change that counts as setting the clock. Smaller ones are gradual corrections.
const minClockJump = time.Minute

// clockStart is the origin of the monotonic clock.
var clockStart = time.Now()

// HostClock reads the clock of the host and detects when it is set. A host without a battery for its clock starts in
// 1970 and jumps by decades a minute later. HostClock compares the wall clock with a steady one. The zero value is
// ready to use.
type HostClock struct {
	// Read returns the wall clock, and a steady clock that is never set and also advances while the host is suspended.
	// nil reads the clocks of the host.
	Read func() (wall time.Time, running time.Duration)

	begun bool
	first time.Duration // steady clock at the first call
	ahead time.Duration // wall clock minus steady clock at the last call
}

// Now returns the time of day.
func (w *HostClock) Now() time.Time {
	now, _ := w.clocks()
	return now
}

func (w *HostClock) clocks() (wall time.Time, running time.Duration) {
	if w.Read != nil {
		return w.Read()
	}
	return readClocks()
}

// Compare returns the time of day, the amount by which the clock was set since the previous call, and the time since
// the first call.
func (w *HostClock) Compare() (now time.Time, jump, since time.Duration) {
	now, running := w.clocks()
	ahead := time.Duration(now.UnixNano()) - running
	if !w.begun {
		w.begun, w.first, w.ahead = true, running, ahead
	}
	if jump = ahead - w.ahead; jump.Abs() < minClockJump {
		jump = 0
	}
	w.ahead = ahead
	return now, jump, running - w.first
}
