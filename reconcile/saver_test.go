package reconcile_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// TestAFailedSaveKeepsTheNewerState changes a state while one that could not be saved is put
// back: whichever comes first, the change is what is saved next.
func TestAFailedSaveKeepsTheNewerState(t *testing.T) {
	older, newer := spec.State{PipelineID: "p", Phase: spec.PhaseStarting}, spec.State{PipelineID: "p", Phase: spec.PhaseRunning}
	rounds := 20_000
	if runtime.GOMAXPROCS(0) < 2 {
		rounds = 20 // what waits for the other has to be interrupted, and both hardly meet
	}
	for i := range rounds {
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
