package plugintest_test

import (
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// The CPU time of a goroutine includes its work, and not that of the goroutine that it waits for. The CPU time of the
// process includes both.
func TestCPUTimes(t *testing.T) {
	work := func() {
		for n := 0; n < 300_000_000; n++ { // the runtime of Go takes some milliseconds meanwhile
		}
	}
	for name, c := range map[string]struct {
		work func()
		own  bool
	}{
		"work": {work, true},
		"waiting": {func() {
			done := make(chan struct{})
			go func() { defer close(done); work() }()
			<-done
		}, false},
	} {
		var took time.Duration
		total := wait.ProcessCPUTime(func() { took = wait.CPUTime(c.work) })
		if total < 20*time.Millisecond || took > total || (took > total/2) != c.own {
			t.Errorf("%s took %v of CPU time, the process %v", name, took, total)
		}
	}
}
