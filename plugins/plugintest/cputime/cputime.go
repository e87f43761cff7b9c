// Package cputime measures work by the CPU time that it took, so that a test can bound it on a
// machine that does other work, too.
package cputime

import (
	"runtime"
	"time"
)

// Of calls work and returns the CPU time of its goroutine, which is that of the kernel, too. What
// goroutines that work starts do is not in it. Where the system does not tell, it is the time by the clock.
func Of(work func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := thread()
	work()
	return thread() - began
}
