// Package wait lets a test wait until a condition holds, such as for a text in a Buffer to which other goroutines
// write. Because a test must not depend on the speed of the machine, the package also measures work by its CPU time.
package wait

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Limit is the maximum time until a condition holds. On a busy machine, with the race detector, work of seconds takes
// most of a minute, and only a failing test waits for so long.
const Limit = 2 * time.Minute

// For calls done until it returns true. After Limit the test fails with what, followed by the results of details.
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

// The pause between two calls grows with the time waited: a condition that holds soon is detected at once, and one that
// takes seconds costs little CPU time. Slow conditions, such as on the content of a growing file, are evaluated during
// at most a fifth of the time, but at least ten times per second.
const (
	firstPause  = 50 * time.Microsecond
	maxPause    = 20 * time.Millisecond
	costlyPause = 100 * time.Millisecond
)

// Until calls done until it returns true, and then returns true, or until ctx ends.
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
