package engine

import (
	"context"
	"testing"

	"github.com/conduit-agent/conduit/spec/notify"
)

// A run may end without waiting for a source that takes acknowledgements slowly. Whoever waits for the last commit
// of the run then still gets its signal.
func TestEndedRunTakesNoSignalOfCommits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 64 { // a select between two ready channels takes either
		s := &sourceRun{commits: notify.NewSignal()}
		s.commits.Notify()
		if err := s.acknowledge(ctx); err == nil {
			t.Fatal("acknowledging ended without an error")
		}
		select {
		case <-s.commits:
		default:
			t.Fatal("the signal is gone")
		}
	}
}
