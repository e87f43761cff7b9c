package wait

import (
	"syscall"
	"time"
)

// threadTime returns the CPU time of this thread.
func threadTime() time.Duration { return cpuTime(1) } // RUSAGE_THREAD of getrusage(2)

// processTime returns the CPU time of this process.
func processTime() time.Duration { return cpuTime(syscall.RUSAGE_SELF) }

func cpuTime(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		panic(err) // the arguments are right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
