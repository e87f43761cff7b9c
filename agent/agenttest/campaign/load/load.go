// Package load runs tests in parallel within the capacity of the machine.
package load

import (
	"context"
	"runtime"
	"testing"

	"golang.org/x/sync/semaphore"
)

// The load of an agent, a server and a browser, in units that one CPU provides CPU times.
const (
	Agent   = 2
	Server  = 2
	Browser = 4
	CPU     = 8
)

var (
	total = int64(CPU * runtime.GOMAXPROCS(0))
	parts = semaphore.NewWeighted(total)
)

// Parallel is t.Parallel for a test that causes the given load. It waits for free capacity, which it takes until t and
// its subtests have ended. A test with more load than the machine can take runs alone.
//
// Call it once, and not in a subtest of a test that called it: the two would wait for each other. For the same reason
// subtests must not call t.Parallel if as many tests as -parallel allows may wait for capacity.
func Parallel(t *testing.T, weight int) {
	t.Helper()
	t.Parallel()
	n := min(int64(max(weight, 1)), total)
	if err := parts.Acquire(context.WithoutCancel(t.Context()), n); err != nil {
		t.Fatalf("cannot wait until the machine can bear the test: %v", err)
	}
	t.Cleanup(func() { parts.Release(n) })
}
