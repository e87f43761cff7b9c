package reconcile_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/server"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// TestAFailedSaveKeepsTheNewerState changes a state while one that could not be saved is put
// back: whichever comes first, the change is what is saved next.
func TestAFailedSaveKeepsTheNewerState(t *testing.T) {
	older, newer := spec.State{PipelineID: "p", Phase: spec.PhaseStarting}, spec.State{PipelineID: "p", Phase: spec.PhaseRunning}
	if runtime.GOMAXPROCS(0) < 2 {
		server.Missing(t, "nothing happens at the same time on one CPU")
	}
	for i, began := 0, time.Now(); time.Since(began) < 500*time.Millisecond; i++ {
		s := reconcile.NewSaver()
		s.Put(older)
		putBack := s.Fail()
		var ready, begin, changed atomic.Bool
		go func() {
			ready.Store(true)
			for !begin.Load() { // both at the same time, as exactly as can be
			}
			s.Put(newer)
			changed.Store(true)
		}()
		for !ready.Load() {
		}
		begin.Store(true)
		for n := 0; n < i%100; n++ {
			begin.Load()
		}
		putBack()
		for !changed.Load() {
		}
		if got := s.Waiting(); len(got) != 1 || got[0].Phase != newer.Phase {
			t.Fatalf("what waits is %v, want the newer state only", got)
		}
	}
}
