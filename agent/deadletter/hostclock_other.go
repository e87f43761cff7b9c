//go:build !linux

package deadletter

import "time"

// readClocks measures by the monotonic clock.
func readClocks() (wall time.Time, running time.Duration) { return time.Now(), time.Since(clockStart) }
