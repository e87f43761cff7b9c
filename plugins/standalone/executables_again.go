package standalone

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// A file that was cut short when it was asked what it is, as on a host that has just started, is asked again,
// with an exponential backoff: after 1 s first, and maxAgain times in all, which is a quarter of an hour.
const (
	firstAgain = time.Second
	maxAgain   = 10
)

// mayPass reports whether the file may say what it is when it is asked again: it did not answer in time, or
// was killed. A program that is no connector is not run again.
func mayPass(err error) bool {
	if errors.Is(err, ErrNoConnector) {
		return false
	}
	var exit *exec.ExitError
	killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled()
	return killed || errors.Is(err, context.DeadlineExceeded)
}

// answered notes whether f is to be asked again.
func (f *file) answered(err error, now time.Time) {
	if err == nil || !mayPass(err) || f.tries >= maxAgain {
		f.tries, f.again = 0, time.Time{}
		return
	}
	f.again = now.Add(firstAgain << f.tries)
	f.tries++
}

// due returns after how long f is to be asked what it is: 0 for now, less for never.
func (f *file) due(now time.Time) time.Duration {
	switch {
	case f.running, !f.pending && f.again.IsZero():
		return -1
	case !f.pending:
		return max(0, f.again.Sub(now))
	case !f.print.Quiet(now, writeDebounce): // it may not be written to its end
		return writeDebounce
	}
	return 0
}
