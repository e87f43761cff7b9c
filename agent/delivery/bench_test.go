package delivery_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/delivery"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/reconciletest"
	"github.com/conduit-agent/conduit/spec"
)

// BenchmarkSample observes a pipeline that delivers.
func BenchmarkSample(b *testing.B) {
	f := newFakes(nil)
	f.store.declare(declared)
	ctx, cancel := context.WithCancel(b.Context())
	f.commits = &engine.Committer{Store: f.store, CommitInterval: time.Millisecond}
	loop := &reconcile.Loop{Store: f.store, Runner: f, Policy: reconciletest.Policy(), RunDigest: digest}
	ended := make(chan error, 2)
	go func() { ended <- loop.Run(ctx) }()
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	go func() { ended <- f.commits.Run(serving) }()
	for {
		if s, _ := loop.State("p"); s.Phase == spec.PhaseRunning {
			break
		}
	}
	w := &delivery.Watch{Loop: loop, Runs: f, Log: slog.New(slog.DiscardHandler)}
	b.ReportAllocs()
	for b.Loop() {
		w.Sample(ctx, time.Now())
	}
	cancel()
	<-ended
	end()
	<-ended
}
