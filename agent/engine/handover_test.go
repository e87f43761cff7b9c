package engine_test

import (
	"bytes"
	"context"
	"errors"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// slowSource has a record every 10 ms.
type slowSource struct{ *fakeSource }

func (s slowSource) Read(ctx context.Context) (*record.Batch, error) {
	s.maxBatch = 1
	if s.next < s.total {
		time.Sleep(10 * time.Millisecond)
	}
	return s.fakeSource.Read(ctx)
}

// slowDestination takes a second for some writes.
type slowDestination struct {
	*fakeDestination
	slow    map[int]bool
	writes  int
	byOne   int    // number of writes by the goroutine that reads
	written func() // called at the end of a slow write
}

func (d *slowDestination) Write(ctx context.Context, b *record.Batch) error {
	if d.writes++; bytes.Contains(debug.Stack(), []byte("(*sourceRun).read(")) {
		d.byOne++
	}
	if d.slow[d.writes] {
		time.Sleep(time.Second)
		d.written()
	}
	return d.fakeDestination.Write(ctx, b)
}

// The goroutine that reads from a slow source also writes. While a write takes long, another goroutine reads, and the
// records stay in order.
func TestWhoReadsFromASlowSourceWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorldUntil(ctx, t, time.Millisecond)
		const total = 1000
		s, d := w.source("src", total), &slowDestination{fakeDestination: w.destination("dst", &fakeDestination{}),
			slow: map[int]bool{5: true, 200: true}}
		w.plugins.sources["p:src"], w.plugins.destinations["p:dst"] = slowSource{s}, d
		d.written = func() {
			synctest.Wait()
			if ahead := s.next - len(d.records()); ahead < 64 { // the capacity of the queue
				t.Errorf("%d records were read during a write of a second", ahead)
			}
		}
		if err := w.run(func() bool { return s.ackedUpTo() == total }); err != nil {
			t.Fatal(err)
		}
		for i, r := range d.records() {
			if string(r.Position) != strconv.Itoa(i+1) {
				t.Fatalf("record %s came as number %d", r.Position, i+1)
			}
		}
		if d.byOne < 700 || d.byOne == d.writes {
			t.Errorf("%d of %d writes were by who read", d.byOne, d.writes)
		}
	})
}

// A pipeline is stopped during a long write by the goroutine that reads: it ends when the write returns.
func TestStopsDuringALongWriteOfASlowSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorldUntil(ctx, t, time.Millisecond)
		s, d := w.source("src", 1<<30), &slowDestination{fakeDestination: w.destination("dst", &fakeDestination{}),
			slow: map[int]bool{5: true}, written: func() {}}
		w.plugins.sources["p:src"], w.plugins.destinations["p:dst"] = slowSource{s}, d
		p := w.pipeline()
		if err := p.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		drain := make(chan struct{})
		time.AfterFunc(500*time.Millisecond, func() { close(drain) })
		begin := time.Now()
		if err := p.Run(t.Context(), drain, func() {}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 1100*time.Millisecond {
			t.Errorf("it ended after %v", took)
		}
		if n := len(d.records()); n != s.next || n != s.ackedUpTo() || n < 35 {
			t.Errorf("%d records were read, %d written and %d acknowledged", s.next, n, s.ackedUpTo())
		}
	})
}

// sizedDestination takes the same time for every write.
type sizedDestination struct {
	*fakeDestination
	takes   time.Duration
	largest int
}

func (d *sizedDestination) Write(ctx context.Context, b *record.Batch) error {
	d.largest = max(d.largest, b.Len())
	time.Sleep(d.takes)
	return d.fakeDestination.Write(ctx, b)
}

// Waiting batches are joined: small ones always, large ones for a destination whose writes take long, up to a bound.
func TestSlowDestinationsGetLargerBatches(t *testing.T) {
	const total, most, small, slow = 30_000, 1000, 64, 4096
	for takes, fits := range map[time.Duration]func(n int) bool{
		0:                     func(n int) bool { return n < small+most },
		10 * time.Millisecond: func(n int) bool { return n > 2*most && n < slow+most },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldUntil(t.Context(), t, time.Millisecond)
			s, d := w.source("src", total), &sizedDestination{fakeDestination: w.destination("dst", &fakeDestination{}),
				takes: takes}
			s.maxBatch = most
			w.plugins.destinations["p:dst"] = d
			if err := w.run(func() bool { return s.ackedUpTo() == total }); err != nil {
				t.Fatal(err)
			}
			if len(d.records()) != total || !fits(d.largest) {
				t.Errorf("with writes of %v the largest of %d records had %d", takes, len(d.records()), d.largest)
			}
		})
	}
}

// deafSource ignores acknowledgements.
type deafSource struct{ *fakeSource }

func (deafSource) IgnoresAcks() bool { return true }

func (s deafSource) Ack(context.Context, []record.Position) error {
	s.t.Error("Ack was called")
	return nil
}

var _ sdk.AckIgnorer = deafSource{}

// A source that ignores acknowledgements gets none. Its positions are saved all the same, the last one before the run
// ends. If that fails, the run fails.
func TestSourcesThatIgnoreAcks(t *testing.T) {
	full := errors.New("disk full")
	for _, fail := range []error{nil, full} {
		w := newWorldCommitting(t, time.Hour)
		const total = 500
		s, d := w.source("src", total), w.destination("dst", &fakeDestination{async: true})
		w.plugins.sources["p:src"] = deafSource{s}
		w.store.failBefore = func() error {
			if len(d.records()) == total { // includes the save of the last position
				return fail
			}
			return nil
		}
		p := w.pipeline()
		if err := p.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		drain := make(chan struct{})
		ended := make(chan error, 1)
		go func() { ended <- p.Run(t.Context(), drain, func() {}) }()
		wait.For(t, "all records", func() bool { return len(d.records()) == total })
		close(drain)
		if err := <-ended; !errors.Is(err, fail) {
			t.Errorf("the run ended with %v, want %v", err, fail)
		}
		if acked := p.Stats.Source("p:src").Acked.Load(); fail == nil &&
			(w.store.saved("p:src") != total || acked != total) {
			t.Errorf("%d is saved, %d are counted as acknowledged", w.store.saved("p:src"), acked)
		}
	}
}
