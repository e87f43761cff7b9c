//go:build !linux

package wallclock

import "time"

// clocks measures by the monotonic clock.
func clocks() (wall time.Time, running time.Duration) { return time.Now(), time.Since(start) }
