package engine_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// benchSource returns batches of ready-made records as fast as they are read.
type benchSource struct {
	fakeConnector
	batch, left int
	records     []record.Record
	stopped     chan struct{}
}

func (s *benchSource) Open(context.Context, record.Position) error { return nil }

func (s *benchSource) Read(ctx context.Context) (*record.Batch, error) {
	if s.left <= 0 {
		select {
		case <-s.stopped:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	n := min(s.batch, s.left)
	s.left -= n
	return record.NewBatch(s.records[:n]), nil
}

func (s *benchSource) Ack(context.Context, []record.Position) error { return nil }
func (s *benchSource) Stop(context.Context) error                   { close(s.stopped); return nil }

// benchDestination settles at once and signals after the last record.
type benchDestination struct {
	fakeConnector
	left   int
	full   chan struct{}
	settle func(int, error)
}

func (d *benchDestination) Open(_ context.Context, settled func(int, error)) error {
	d.settle = settled
	return nil
}

func (d *benchDestination) Write(_ context.Context, b *record.Batch) error {
	d.settle(b.Len(), nil)
	if d.left -= b.Len(); d.left == 0 {
		close(d.full)
	}
	return nil
}

func (d *benchDestination) Flush(context.Context) error { return nil }

type discardStore struct{ *fakeStore }

func (discardStore) SaveCheckpoints(context.Context, []spec.Checkpoint) error { return nil }

// bench is a pipeline whose connectors cost nothing.
type bench struct {
	tb       testing.TB
	pipeline *engine.Pipeline
	full     chan struct{} // closed after the last record
	end      func()
}

// newBench returns a pipeline that moves this number of records, in batches of the ready-made ones.
func newBench(tb testing.TB, records []record.Record, total int) *bench {
	src := &benchSource{batch: len(records), left: total, records: records, stopped: make(chan struct{})}
	dst := &benchDestination{left: total, full: make(chan struct{})}
	store := discardStore{newFakeStore(nil)}
	committer := &engine.Committer{Store: store, CommitInterval: 50 * time.Millisecond}
	ctx, cancel := context.WithCancel(context.Background())
	committed := make(chan error)
	go func() { committed <- committer.Run(ctx) }()
	declared := &spec.Pipeline{ID: "p", Connectors: []spec.Connector{{ID: "src", Type: spec.TypeSource},
		{ID: "dst", Type: spec.TypeDestination}}}
	p := &engine.Pipeline{Declared: declared, Resolved: declared, Store: store, Committer: committer,
		Window: backpressure.Default,
		Log:    slog.New(slog.DiscardHandler), Plugins: &fakePlugins{
			sources: map[string]connector.Source{"p:src": src},
			destinations: map[string]connector.Destination{"p:dst": dst,
				"p:dead-letter-queue": &benchDestination{}},
		}}
	if err := p.Prepare(ctx); err != nil {
		tb.Fatal(err)
	}
	return &bench{tb, p, dst.full, func() { cancel(); <-committed }}
}

// run moves the records, calls moved, and ends.
func (b *bench) run(moved func()) {
	drain, ended := make(chan struct{}), make(chan error)
	go func() { ended <- b.pipeline.Run(context.Background(), drain, func() {}) }()
	<-b.full
	moved()
	close(drain)
	if err := <-ended; err != nil {
		b.tb.Fatal(err)
	}
	b.end()
}

// BenchmarkEngine moves b.N records through an engine whose connectors cost nothing: it measures the cost per record
// in the engine. At the minimum heap of 4 MiB the share of the garbage collector depends on the packages linked into
// the test binary; with a heap as large as in an agent it does not.
func BenchmarkEngine(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	for _, batch := range []int{1, 10, 100, 1000} {
		for _, tracer := range []engine.Tracer{nil, unsampling{}} {
			b.Run(fmt.Sprintf("batch=%d/traces=%t", batch, tracer != nil), func(b *testing.B) {
				records := make([]record.Record, batch)
				for i := range records {
					records[i] = record.Record{Position: record.Position(fmt.Sprint(1000000 + i)),
						After: record.Raw(make([]byte, 140))}
				}
				e := newBench(b, records, b.N)
				e.pipeline.Tracer = tracer
				b.ResetTimer()
				b.ReportAllocs()
				before := cpuTime(b)
				e.run(func() {
					b.StopTimer()
					b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/record")
				})
			})
		}
	}
}

// cpuTime returns the CPU time used by this process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
