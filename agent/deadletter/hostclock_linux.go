package deadletter

import (
	"time"

	"golang.org/x/sys/unix"
)

// readClocks reads the wall clock and CLOCK_BOOTTIME, which also advances while the host is suspended, unlike the
// monotonic clock of Linux.
func readClocks() (wall time.Time, running time.Duration) {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		return time.Now(), time.Since(clockStart)
	}
	return time.Now(), time.Duration(at.Nano())
}
