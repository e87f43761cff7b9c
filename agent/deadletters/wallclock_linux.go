package deadletters

import (
	"time"

	"golang.org/x/sys/unix"
)

// readClocks reads the clock that goes on while the host is suspended, as the monotonic clock of
// this system does not.
func readClocks() (wall time.Time, running time.Duration) {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		return time.Now(), time.Since(clockStart)
	}
	return time.Now(), time.Duration(at.Nano())
}
