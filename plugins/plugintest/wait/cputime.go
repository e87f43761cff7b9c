package wait

import (
	"runtime"
	"time"
)

// CPUTime calls work and returns the goroutine's CPU time, including time in the kernel, but not the time of goroutines
// that work starts. Where the system does not report CPU time, CPUTime returns the elapsed time.
func CPUTime(work func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime()
	work()
	return threadTime() - began
}
