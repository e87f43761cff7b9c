package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestWritesWait makes a run wait before it writes. The run then continues, or ends with the error of the wait.
func TestWritesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorldUntil(ctx, t, time.Millisecond)
		s := w.source("src", 100)
		d := w.destination("dst", &fakeDestination{})
		may := make(chan struct{})
		p := w.pipeline()
		p.WaitToWrite = func(ctx context.Context) error {
			select {
			case <-may:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := p.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- p.Run(ctx, make(chan struct{}), func() {}) }()
		time.Sleep(time.Minute)
		wantValues(t, d.records(), nil)
		close(may)
		time.Sleep(time.Second)
		wantValues(t, d.records(), upTo(100))
		if s.ackedUpTo() != 100 {
			t.Errorf("%d records are acknowledged", s.ackedUpTo())
		}
		may = make(chan struct{})
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the run ends with %v", err)
		}
	})
}
