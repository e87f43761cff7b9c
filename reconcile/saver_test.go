package reconcile_test

import (
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// TestAFailedSaveKeepsTheNewerState changes a state while a failed save puts the older one back. Whichever comes first,
// the next save writes the change.
func TestAFailedSaveKeepsTheNewerState(t *testing.T) {
	older, newer := spec.State{PipelineID: "p", Phase: spec.PhaseStarting},
		spec.State{PipelineID: "p", Phase: spec.PhaseRunning}
	for range 2_000 {
		s := reconcile.NewSaver()
		s.Put(older)
		putBack := s.Fail()
		var both sync.WaitGroup
		begin := make(chan struct{})
		for _, do := range []func(){func() { s.Put(newer) }, putBack} {
			both.Go(func() { <-begin; do() })
		}
		close(begin)
		both.Wait()
		if got := s.Waiting(); len(got) != 1 || got[0].Phase != newer.Phase {
			t.Fatalf("what waits is %v, want the newer state only", got)
		}
	}
}
