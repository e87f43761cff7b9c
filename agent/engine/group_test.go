package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
)

// stuckSource ignores the end of the context in some calls.
type stuckSource struct {
	*fakeSource
	read, ack chan struct{} // when set, the call waits for it
}

func (s stuckSource) Read(ctx context.Context) (*record.Batch, error) {
	if s.read != nil {
		<-s.read
	}
	return s.fakeSource.Read(ctx)
}

func (s stuckSource) Ack(ctx context.Context, positions []record.Position) error {
	if s.ack != nil {
		<-s.ack
	}
	return s.fakeSource.Ack(ctx, positions)
}

// stuckDestination does not return from Write.
type stuckDestination struct {
	*fakeDestination
	write chan struct{}
}

func (d stuckDestination) Write(context.Context, *record.Batch) error {
	<-d.write
	return nil
}

// A connector that does not return from a call although its context ended does not keep the run from ending.
// Connectors in this process can do that.
func TestRunAbandonsCallsThatDoNotReturn(t *testing.T) {
	tests := map[string]struct {
		limit time.Duration // AckTimeout
		stuck func(w *world, s *fakeSource, d *fakeDestination, until chan struct{})
		want  []string
	}{
		"Write": {0, func(w *world, _ *fakeSource, d *fakeDestination, until chan struct{}) {
			w.plugins.destinations["p:dst"] = stuckDestination{d, until}
		}, []string{"stop it", "cannot end writing to destination p:dst: it has not returned 10s after"}},
		"Write of what a slow source read": {0, func(w *world, s *fakeSource, d *fakeDestination, until chan struct{}) {
			w.plugins.sources["p:src"] = slowSource{s}
			w.plugins.destinations["p:dst"] = stuckDestination{d, until}
		}, []string{"stop it", "cannot end writing to destination p:dst: it has not returned 10s after"}},
		"Write, found by the watchdog": {time.Second,
			func(w *world, _ *fakeSource, d *fakeDestination, until chan struct{}) {
				w.plugins.destinations["p:dst"] = stuckDestination{d, until}
			}, []string{"destination p:dst has not responded for 1s, although records were written",
				"cannot end writing to destination p:dst"}},
		"Read": {0, func(w *world, s *fakeSource, _ *fakeDestination, until chan struct{}) {
			w.plugins.sources["p:src"] = stuckSource{s, until, nil}
		}, []string{"stop it", "cannot end reading from source p:src"}},
		"Ack": {time.Second, func(w *world, s *fakeSource, _ *fakeDestination, until chan struct{}) {
			w.plugins.sources["p:src"] = stuckSource{s, nil, until}
		}, []string{"source p:src has not responded for 1s, although records were acknowledged",
			"cannot end acknowledging to source p:src"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := newWorldUntil(ctx, t, time.Millisecond)
				w.ackTimeout = test.limit
				s, d := w.source("src", 100), w.destination("dst", &fakeDestination{})
				until := make(chan struct{})
				defer close(until)
				test.stuck(w, s, d, until)
				p := w.pipeline()
				if err := p.Prepare(t.Context()); err != nil {
					t.Fatal(err)
				}
				running, stop := context.WithCancelCause(t.Context())
				time.AfterFunc(5*time.Second, func() { stop(errors.New("stop it")) })
				err := p.Run(running, make(chan struct{}), func() {})
				for _, want := range test.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("run ended with %v, want %q", err, want)
					}
				}
				if s.teardowns() != 1 || d.teardowns() != 1 {
					t.Errorf("torn down %d and %d times, want once each", s.teardowns(), d.teardowns())
				}
			})
		})
	}
}

var (
	_ connector.Source      = stuckSource{}
	_ connector.Destination = stuckDestination{}
)
