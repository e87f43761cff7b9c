package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
)

// failingBarrier syncs nothing, and fails once, at the sync failAt. The next sync succeeds, like the fsync of a file
// after a failed one.
type failingBarrier struct {
	store  *fakeStore
	failAt int64
	syncs  atomic.Int64
	saved  atomic.Int64 // records saved when the sync failed
}

func (b *failingBarrier) Sync(pipelines []string, done func([]string, error)) {
	if b.syncs.Add(1) == b.failAt {
		b.saved.Store(int64(b.store.saved("p:src")))
		done(pipelines, syscall.EIO)
		return
	}
	done(pipelines, nil)
}

// When the sync of written records fails, the run fails. It saves and acknowledges nothing later, whatever the next
// syncs return, and the next run gets all records that were not saved.
func TestNothingLaterIsSavedWhenASyncFails(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		barrier := &failingBarrier{store: w.store, failAt: int64(2 + i%5)}
		ctx, cancel := context.WithCancel(t.Context())
		w.committer = &engine.Committer{Store: w.store, CommitInterval: 100 * time.Microsecond, Barrier: barrier}
		ended := make(chan error, 1)
		go func() { ended <- w.committer.Run(ctx) }()

		begin := w.store.saved("p:src")
		s := w.source("src", 1<<30)
		d := w.destination("dst", &fakeDestination{})
		if err := w.run(func() bool { return false }); !errors.Is(err, syscall.EIO) {
			t.Fatalf("run %d ended with %v, want the failure of the sync", i, err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		saved := int(barrier.saved.Load())
		if now := w.store.saved("p:src"); now != saved || s.ackedUpTo() > saved {
			t.Errorf("run %d: %d is saved and %d acknowledged, want no more than %d as the sync failed", i, now,
				s.ackedUpTo(), saved)
		}
		got := values(d.records())
		if len(got) == 0 || got[0] != begin+1 || got[len(got)-1] <= saved {
			t.Errorf("run %d wrote %s from %d on, want what was not saved and more than the %d that were", i, clip(got),
				begin+1, saved)
		}
	}
}
