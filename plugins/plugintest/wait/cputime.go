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

// ProcessCPUTime calls work and returns the CPU time of the process meanwhile, including time in the kernel and the
// garbage collector. The caller must not be a parallel test. Where the system does not report CPU time, ProcessCPUTime
// returns the elapsed time.
func ProcessCPUTime(work func()) time.Duration {
	began := processTime()
	work()
	return processTime() - began
}
