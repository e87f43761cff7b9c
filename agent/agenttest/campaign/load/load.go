// Package load lets tests run at the same time as long as the machine can bear what they start.
package load

import (
	"context"
	"runtime"
	"testing"

	"golang.org/x/sync/semaphore"
)

// What a test starts, as parts of what one CPU can run at the same time, which is CPU parts.
const (
	Agent   = 1
	Server  = 1
	Browser = 2
	CPU     = 4
)

var (
	total = int64(CPU * runtime.GOMAXPROCS(0))
	parts = semaphore.NewWeighted(total)
)

// Parallel is t.Parallel for a test that starts what weighs so much in all. It returns once there is room for that, which
// is given back when t and its subtests have ended. A test that weighs more than the machine can bear runs alone.
// It must be called once, by a test none of whose parents called it: a parent and its subtests would wait for each other.
// So would subtests that call t.Parallel, as long as tests that wait for room are as many as -parallel lets run.
func Parallel(t *testing.T, weight int) {
	t.Helper()
	t.Parallel()
	n := min(int64(max(weight, 1)), total)
	if err := parts.Acquire(context.WithoutCancel(t.Context()), n); err != nil {
		t.Fatalf("cannot wait until the machine can bear the test: %v", err)
	}
	t.Cleanup(func() { parts.Release(n) })
}
