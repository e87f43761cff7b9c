package standalone

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// A file whose specification was interrupted, for example on a host that has just started, is tried again with
// exponential backoff. The first delay is 1 s. There are at most maxAgain retries, about a quarter of an hour in all.
const (
	firstAgain = time.Second
	maxAgain   = 10
)

// Retry specifies the files again whose run failed, because a cause outside them may be gone: a library was installed,
// or a service started. It leaves out programs that are no connectors. It returns at once, and reports whether there
// are such files. Run does the work; Await and Rescan wait for it.
func (e *Executables) Retry() (some bool) {
	e.init()
	e.mu.Lock()
	for path, f := range e.files {
		if f.examined.IsZero() || f.running || f.pending {
			continue
		}
		again := *f
		again.pending, again.tries, again.again = true, 0, time.Time{}
		e.files[path] = &again
		some = true
	}
	e.mu.Unlock()
	if some {
		e.wake.Notify()
	}
	return some
}

// problem returns the reason why f is no plugin, and how to have it examined again if the cause may be outside it.
func (f *file) problem() string {
	if f.examined.IsZero() {
		return f.err.Error()
	}
	return fmt.Sprintf("%v (examined at %s; after a repair outside the file: 'conduit reload' or 'touch %s')", f.err,
		f.examined.UTC().Format(time.RFC3339), f.entry)
}

// mayPass reports whether another attempt to specify the file may succeed: it did not respond in time, or was killed. A
// program that is no connector does not run again.
func mayPass(err error) bool {
	if errors.Is(err, ErrNoConnector) {
		return false
	}
	var exit *exec.ExitError
	killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled()
	return killed || errors.Is(err, context.DeadlineExceeded)
}

// answered records whether f needs another attempt, first after the given delay.
func (f *file) answered(err error, now time.Time, first time.Duration) {
	if err == nil || !mayPass(err) || f.tries >= maxAgain {
		f.tries, f.again = 0, time.Time{}
		return
	}
	f.again = now.Add(first << f.tries)
	f.tries++
}

// due returns the time until the next attempt to specify f: 0 for now, negative for never.
func (f *file) due(now time.Time) time.Duration {
	switch {
	case f.running, !f.pending && f.again.IsZero():
		return -1
	case !f.pending:
		return max(0, f.again.Sub(now))
	case !f.print.Quiet(now, writeDebounce) && mayBeWritten(f.path):
		return writeDebounce
	}
	return 0
}
