// Package wait lets a test wait until a condition holds.
package wait

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Limit is how long a condition may take to hold. On a busy machine, with the race detector, what
// takes seconds takes most of a minute, and only a test that fails waits for so long.
const Limit = 2 * time.Minute

// For calls done until it returns true. When that takes longer than Limit the test fails with what
// it waited for, followed by what the details return.
func For(t testing.TB, what string, done func() bool, details ...func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Limit)
	defer cancel()
	if Until(ctx, done) {
		return
	}
	message := []string{fmt.Sprintf("waited %v for: %s", Limit, what)}
	for _, d := range details {
		message = append(message, d())
	}
	t.Fatal(strings.Join(message, "\n"))
}

// The pause between two calls grows with the time waited: a condition that holds soon is seen at
// once, and one that takes seconds costs little CPU time. What takes long to find out, such as what is in a file that
// grows, is asked for during a fifth of the time at most, but ten times a second.
const (
	firstPause  = 50 * time.Microsecond
	maxPause    = 20 * time.Millisecond
	costlyPause = 100 * time.Millisecond
)

// Until calls done until it returns true, then it returns true, or until ctx ends.
func Until(ctx context.Context, done func() bool) bool {
	pause := firstPause
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		began := time.Now()
		if done() {
			return true
		}
		timer.Reset(max(pause, min(4*time.Since(began), costlyPause)))
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
		pause = min(pause+pause/4, maxPause)
	}
}

// Within returns how long something may take that is to take no longer than limit: limit, or wrong when
// more wants to run than the machine has CPUs for. Wrong is how long it takes at least when it is not as it is to be.
func Within(limit, wrong time.Duration) time.Duration {
	if busy() {
		return max(limit, wrong)
	}
	return limit
}

// busy reports whether, in the last minute or at this moment, more threads want to run than there are CPUs.
func busy() bool {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return false
	}
	var minute, five, fifteen float64
	var running int
	_, err = fmt.Sscanf(string(b), "%f %f %f %d/", &minute, &five, &fifteen, &running)
	cpus := runtime.NumCPU()
	return err == nil && (minute > float64(cpus) || running > cpus+1) // this thread runs
}
