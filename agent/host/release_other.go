//go:build !linux

package host

import "runtime/debug"

// ReleaseMemory returns memory to the kernel that only startup needed.
func ReleaseMemory() error {
	debug.FreeOSMemory()
	return nil
}
