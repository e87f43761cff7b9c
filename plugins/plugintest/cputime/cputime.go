// Package cputime measures work by its CPU time, so that a test can bound it on a machine that does other work, too.
package cputime

import (
	"runtime"
	"time"
)

// Of calls work and returns the goroutine's CPU time, including time in the kernel, but not the time of goroutines
// that work starts. Where the system does not report CPU time, Of returns the elapsed time.
func Of(work func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := thread()
	work()
	return thread() - began
}
