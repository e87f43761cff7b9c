package plugintest_test

import (
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

func TestOf(t *testing.T) {
	if took := wait.CPUTime(func() { <-time.After(200 * time.Millisecond) }); took > 100*time.Millisecond {
		t.Errorf("waiting took %v of CPU time", took)
	}
	began := time.Now()
	took := wait.CPUTime(func() {
		for n := 0; time.Since(began) < 100*time.Millisecond || n < 1_000_000; n++ {
		}
	})
	if took < time.Millisecond || took > time.Since(began)+10*time.Millisecond {
		t.Errorf("counting for %v took %v of CPU time", time.Since(began), took)
	}
}
