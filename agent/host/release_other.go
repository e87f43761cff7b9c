//go:build !linux

package host

import "runtime/debug"

// ReleaseMemory hands back memory that only starting needed.
func ReleaseMemory() error {
	debug.FreeOSMemory()
	return nil
}
