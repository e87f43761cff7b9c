//go:build !linux

package main

import "runtime/debug"

// release hands back memory that only starting needed.
func release() error {
	debug.FreeOSMemory()
	return nil
}
