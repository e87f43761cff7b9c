package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/backpressure"
)

// A lease is released when its records are settled, so that leases cost no time.
func TestReadLeasesEndWhenRecordsAreSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorldUntil(ctx, t, time.Millisecond)
		w.window.Scheduler = backpressure.SchedulerWithLimit(1)
		const total = 20_000 // for each source, under 40 leases
		w.destination("dst", &fakeDestination{async: true})
		var sources []*fakeSource
		for i := range 2 {
			sources = append(sources, w.source(fmt.Sprint("src", i), total))
		}
		start := time.Now()
		err := w.run(func() bool {
			return !slices.ContainsFunc(sources, func(s *fakeSource) bool { return s.ackedUpTo() < total })
		})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 200*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// A source that waits for its next record keeps others waiting for a millisecond, not until its lease expires.
func TestSlowSourcesPassOnTheirLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorldUntil(ctx, t, time.Millisecond)
		w.window.Scheduler = backpressure.SchedulerWithLimit(2)
		w.destination("dst", &fakeDestination{async: true})
		var sources []*fakeSource
		const n = 100
		for i := range n {
			sources = append(sources, w.source(fmt.Sprint("src", i), 3))
		}
		start := time.Now()
		err := w.run(func() bool {
			return !slices.ContainsFunc(sources, func(s *fakeSource) bool { return s.ackedUpTo() < 3 })
		})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > n/2*2*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// Pipelines whose destinations do not answer do not keep others from reading.
func TestReadLeasesAlongsideStuckPipelines(t *testing.T) {
	scheduler := backpressure.SchedulerWithLimit(1)
	stuck := newWorld(t)
	stuck.window.Scheduler = scheduler
	stuck.source("src", 1<<30)
	d := stuck.destination("dst", &fakeDestination{hold: make(chan struct{})})
	p := stuck.pipeline()
	if err := p.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx, make(chan struct{}), func() {}) }()
	w := newWorld(t)
	w.window.Scheduler = scheduler
	s := w.source("src", 5000)
	w.destination("dst", &fakeDestination{})
	if err := w.run(func() bool { return s.ackedUpTo() == 5000 }); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("run ended with %v, want context.Canceled", err)
	}
	close(d.hold)
}
