package wait

import (
	"syscall"
	"time"
)

// threadTime returns the CPU time of this thread.
func threadTime() time.Duration {
	const self = 1 // RUSAGE_THREAD of getrusage(2)
	var u syscall.Rusage
	if err := syscall.Getrusage(self, &u); err != nil {
		panic(err) // the arguments are right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
