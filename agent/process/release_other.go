//go:build !linux

package process

import "runtime/debug"

// ReleaseMemory returns memory to the kernel that only startup needed.
func ReleaseMemory() error {
	debug.FreeOSMemory()
	return nil
}

// ReleasePages does nothing.
func ReleasePages() error { return nil }
