package load_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
)

// Tests that run at the same time never exceed the capacity of the machine, and a test with a larger load runs alone.
func TestParallel(t *testing.T) {
	var now, most atomic.Int64
	t.Run("all", func(t *testing.T) {
		for _, weight := range []int{1, load.CPU, 3, 1000, 2, load.CPU, 1000, 1} {
			t.Run("", func(t *testing.T) {
				load.Parallel(t, weight)
				sum := now.Add(int64(weight))
				defer now.Add(-int64(weight))
				for seen := most.Load(); sum > seen && !most.CompareAndSwap(seen, sum); seen = most.Load() {
				}
				if can := int64(load.CPU * runtime.GOMAXPROCS(0)); weight != 1000 && sum > can {
					t.Errorf("tests weigh %d at the same time, and the machine can bear %d", sum, can)
				}
				if weight == 1000 && sum != 1000 {
					t.Errorf("a test that weighs 1000 runs next to others that weigh %d", sum-1000)
				}
			})
		}
	})
	if most.Load() < 1000 {
		t.Errorf("the tests weighed %d at the most, so the heavy ones did not run", most.Load())
	}
}
