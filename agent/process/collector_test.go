package process

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// gogc returns the current GOGC.
func gogc() int {
	now := debug.SetGCPercent(100)
	debug.SetGCPercent(now)
	return now
}

// Garbage is bounded more tightly exactly while the collector runs rarely.
func TestCollectorIsTunedWhileItRunsRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			TuneCollector(ctx)
			close(ended)
		}()
		for _, step := range []struct{ cycles, want int }{{0, quietGC}, {5, usualGC}, {5, usualGC}, {0, quietGC}} {
			synctest.Wait()
			for range step.cycles {
				runtime.GC()
			}
			time.Sleep(quietTime)
			synctest.Wait()
			if got := gogc(); got != step.want {
				t.Errorf("after %d cycles GOGC is %d, want %d", step.cycles, got, step.want)
			}
		}
		end()
		<-ended
		if got := gogc(); got != usualGC {
			t.Errorf("GOGC stays at %d", got)
		}
	})
}
