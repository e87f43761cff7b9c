package deadletters

import "time"

// leastClockJump is what a clock must be set by to count. What is less is a clock that is corrected
// gradually.
const leastClockJump = time.Minute

// clockStart is what the monotonic clock is measured from.
var clockStart = time.Now()

// WallClock notices when the clock of the host is set: a host without a battery for it begins in 1970, and is decades
// older a minute later. It compares the wall clock with one that only measures. The zero Watch is ready to use.
type WallClock struct {
	// Read returns the time of day, and a time that goes on evenly and is never set, also while
	// the host is suspended. nil reads the clocks of the host.
	Read func() (wall time.Time, running time.Duration)

	begun bool
	first time.Duration // of the even time
	ahead time.Duration // of the wall clock of the even time, when they were compared last
}

// Now returns the time of day.
func (w *WallClock) Now() time.Time {
	now, _ := w.clocks()
	return now
}

func (w *WallClock) clocks() (wall time.Time, running time.Duration) {
	if w.Read != nil {
		return w.Read()
	}
	return readClocks()
}

// Compare returns the time of day, by how much the clock was set since the call before, and how
// long ago the first call was.
func (w *WallClock) Compare() (now time.Time, jump, since time.Duration) {
	now, running := w.clocks()
	ahead := time.Duration(now.UnixNano()) - running
	if !w.begun {
		w.begun, w.first, w.ahead = true, running, ahead
	}
	if jump = ahead - w.ahead; jump.Abs() < leastClockJump {
		jump = 0
	}
	w.ahead = ahead
	return now, jump, running - w.first
}
