package javascript_test

import (
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/javascript"
)

// TestGarbageIsNoFault checks that a script is not refused for garbage from before the call, and that its own memory
// counts.
func TestGarbageIsNoFault(t *testing.T) {
	for _, c := range []struct {
		heap, before, goal uint64
		want               bool
	}{
		{500, 500, 100, false}, // nothing was collected since the goal became smaller
		{564, 500, 100, false}, {565, 500, 100, true}, {264, 10, 100, false}, {265, 10, 100, true},
	} {
		if got := javascript.IsLarge(c.heap, c.before, c.goal, 64); got != c.want {
			t.Errorf("a heap of %d, before %d, with the goal %d is large: %t", c.heap, c.before, c.goal, got)
		}
	}
}
