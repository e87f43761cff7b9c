package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// live is a running pipeline.
type live struct {
	*engine.Pipeline
	w     *world
	drain chan struct{}
	ended chan error
}

// begin starts the pipeline and returns when its connectors are open.
func (w *world) begin(ctx context.Context) *live {
	w.t.Helper()
	l := &live{Pipeline: w.pipeline(), w: w, drain: make(chan struct{}), ended: make(chan error, 1)}
	if err := l.Prepare(ctx); err != nil {
		w.t.Fatal(err)
	}
	started := make(chan struct{})
	go func() { l.ended <- l.Run(ctx, l.drain, func() { close(started) }) }()
	<-started
	return l
}

// amend prepares the change to the current declaration of the world.
func (l *live) amend() (*engine.Amendment, error) {
	declared := l.w.spec.Clone()
	return l.Amend(l.w.t.Context(), declared, declared)
}

// applying applies the change, and returns the channel of its result.
func (l *live) applying() chan error {
	l.w.t.Helper()
	a, err := l.amend()
	if err != nil {
		l.w.t.Fatal(err)
	}
	applied := make(chan error, 1)
	go func() { applied <- a.Apply(func() {}) }()
	return applied
}

// become amends the run to the current declaration of the world.
func (l *live) become() {
	l.w.t.Helper()
	a, err := l.amend()
	if err == nil {
		err = a.Apply(func() {})
	}
	if err != nil {
		l.w.t.Fatal(err)
	}
}

// writes waits until the first write to a destination is in progress.
func (l *live) writes(id string) {
	l.w.t.Helper()
	wait.For(l.w.t, "a write", func() bool { return l.Stats.Destination(id).Bytes.Load() > 0 })
}

func (l *live) stop() error {
	close(l.drain)
	return l.wait()
}

func (l *live) wait() error {
	l.w.t.Helper()
	select {
	case err := <-l.ended:
		return err
	case <-time.After(wait.Limit):
		l.w.t.Fatal("the pipeline did not end")
		return nil
	}
}

// set changes the settings of a connector, which creates a new version.
func (w *world) set(connector int, name, value string) {
	w.spec.Connectors[connector].Settings = map[string]string{name: value}
}

// waits makes the source continue up to another total once the returned channel is closed.
func (s *fakeSource) waits(total int) chan<- struct{} {
	more := make(chan struct{})
	s.caughtUp = func() { <-more; s.total, s.caughtUp = total, nil }
	return more
}

// Over many replacements of a destination under load, every record arrives once and in order, without an interruption
// of the source.
func TestDestinationsAreReplacedWhileTheSourceGoesOn(t *testing.T) {
	w := newWorld(t)
	s := w.source("src", 1<<30)
	other := w.destination("other", &fakeDestination{async: true})
	d := w.destination("dst", &fakeDestination{gather: 5})
	l := w.begin(t.Context())
	all := []*fakeDestination{d}
	for i := range 100 {
		wait.For(t, "records", func() bool { return len(d.records()) >= 20 })
		w.set(2, "v", strconv.Itoa(i))
		d = w.destination("dst", &fakeDestination{async: i%2 == 0, gather: 5 * (i % 3), instead: d})
		all = append(all, d)
		l.become()
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	var got []record.Record
	for i, d := range all {
		got = append(got, d.records()...)
		if d.tornDown != 1 {
			t.Fatalf("destination %d was torn down %d times", i, d.tornDown)
		}
	}
	wantValues(t, got, upTo(len(got)))
	wantValues(t, other.records(), upTo(len(got)))
	if s.ackedUpTo() != len(got) {
		t.Errorf("acked %d of %d", s.ackedUpTo(), len(got))
	}
	if n := strings.Join(s.calls, " "); n != "configure map[] created map[]" {
		t.Errorf("the source was called: %s", n)
	}
	if want := []string{"configure map[v:99]", "updated map[v:98] map[v:99]"}; !slices.Equal(d.calls, want) {
		t.Errorf("the last destination was called %q, want %q", d.calls, want)
	}
	if other.tornDown != 1 || len(other.calls) != 2 {
		t.Errorf("the other destination was torn down %d times and called %q", other.tornDown, other.calls)
	}
}

// Records queued for a slow destination go to its replacement.
func TestQueuedRecordsGoToTheNewDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.source("src", 1000)
		old := w.destination("dst", &fakeDestination{hold: make(chan struct{})})
		l := w.begin(t.Context())
		l.writes("p:dst")
		wait.For(t, "a full queue", func() bool { return l.Stats.Source("p:src").Records.Load() > 100 })
		w.set(1, "v", "2")
		replacement := w.destination("dst", &fakeDestination{instead: old})
		applied := l.applying()
		synctest.Wait()
		select {
		case err := <-applied:
			t.Fatalf("applied, with %v, while a write was under way", err)
		default:
		}
		close(old.hold)
		if err := <-applied; err != nil {
			t.Fatal(err)
		}
		wait.For(t, "the rest", func() bool { return len(old.records())+len(replacement.records()) == 1000 })
		if err := l.stop(); err != nil {
			t.Fatal(err)
		}
		if n := len(old.records()); n == 0 || n > 200 { // one write was in progress
			t.Errorf("the old destination got %d records", n)
		}
		wantValues(t, append(old.records(), replacement.records()...), upTo(1000))
	})
}

// A version that fails to take over ends the run. The next run repeats no record that the former version has written,
// and nothing is lost.
func TestAmendmentsThatFail(t *testing.T) {
	w := newWorldCommitting(t, time.Hour)
	w.source("src", 1<<30)
	old := w.destination("dst", &fakeDestination{})
	l := w.begin(t.Context())
	wait.For(t, "records", func() bool { return len(old.records()) > 100 })

	w.set(1, "v", "2")
	bad := w.destination("dst", &fakeDestination{})
	bad.configureErr = errors.New("path is required")
	if _, err := l.amend(); err == nil ||
		!strings.Contains(err.Error(), "cannot configure connector p:dst: path is required") {
		t.Fatalf("Amend returned %v", err)
	}
	if bad.tornDown != 1 {
		t.Errorf("torn down %d times", bad.tornDown)
	}
	n := len(old.records())
	wait.For(t, "what runs to go on", func() bool { return len(old.records()) > n+100 })

	w.set(1, "v", "3")
	bad = w.destination("dst", &fakeDestination{instead: old})
	bad.openErr = errors.New("no such table")
	a, err := l.amend()
	if err != nil {
		t.Fatal(err)
	}
	drained := false
	if err := a.Apply(func() { drained = true }); err == nil || !drained {
		t.Fatalf("Apply returned %v, drained %v", err, drained)
	}
	if err := l.wait(); err == nil || !strings.Contains(err.Error(), "cannot open destination p:dst: no such table") {
		t.Fatalf("the run ended with %v", err)
	}
	if old.tornDown != 1 || bad.tornDown != 1 || w.queue.tornDown != 1 {
		t.Errorf("torn down %d, %d, %d times", old.tornDown, bad.tornDown, w.queue.tornDown)
	}
	if saved := w.store.saved("p:src"); saved != len(old.records()) {
		t.Errorf("saved %d of %d", saved, len(old.records()))
	}
}

// An old destination that cannot write out the records it holds ends the run before the new one is opened.
func TestAmendmentOfADestinationThatBreaks(t *testing.T) {
	w := newWorld(t)
	w.source("src", 1<<30)
	old := w.destination("dst", &fakeDestination{failAt: 1, hold: make(chan struct{})})
	l := w.begin(t.Context())
	w.set(1, "v", "2")
	replacement := w.destination("dst", &fakeDestination{})
	a, err := l.amend()
	if err != nil {
		t.Fatal(err)
	}
	l.writes("p:dst")
	applied := make(chan error, 1)
	go func() { applied <- a.Apply(func() { t.Error("drained") }) }()
	close(old.hold)
	// The run may have ended before Apply reached it.
	if err := <-applied; err == nil || !strings.Contains(err.Error(), "disk on fire") &&
		!strings.Contains(err.Error(), "it is not running") {
		t.Errorf("Apply returned %v", err)
	}
	if err := l.wait(); err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("the run ended with %v", err)
	}
	if replacement.tornDown != 1 || len(replacement.calls) != 1 {
		t.Errorf("the new destination was torn down %d times and called %q", replacement.tornDown, replacement.calls)
	}
}

// The end of a run ends an amendment in progress, and completes itself.
func TestRunsEndDuringAnAmendment(t *testing.T) {
	ends := map[string]struct {
		end  func(l *live, cancel func(), old *fakeDestination)
		want error
	}{
		"drained":   {func(l *live, _ func(), old *fakeDestination) { close(l.drain); close(old.hold) }, nil},
		"cancelled": {func(_ *live, cancel func(), _ *fakeDestination) { cancel() }, context.Canceled},
	}
	for name, c := range ends {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.source("src", 1<<30)
			old := w.destination("dst", &fakeDestination{hold: make(chan struct{})})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := w.begin(ctx)
			w.set(1, "v", "2")
			replacement := w.destination("dst", &fakeDestination{instead: old})
			applied := l.applying()
			c.end(l, cancel, old)
			if err := l.wait(); !errors.Is(err, c.want) {
				t.Errorf("the run ended with %v", err)
			}
			if err := <-applied; c.want != nil && err == nil {
				t.Error("applied to a run that was cancelled")
			}
			if old.tornDown != 1 || replacement.tornDown != 1 {
				t.Errorf("torn down %d and %d times", old.tornDown, replacement.tornDown)
			}
			got := append(old.records(), replacement.records()...)
			wantValues(t, got, upTo(len(got)))
			if c.want == nil && s.ackedUpTo() != len(got) {
				t.Errorf("acked %d of %d", s.ackedUpTo(), len(got))
			}
		})
	}
}

func TestAmendmentOfARunThatHasEnded(t *testing.T) {
	w := newWorld(t)
	w.source("src", 10)
	w.destination("dst", &fakeDestination{})
	l := w.begin(t.Context())
	w.set(1, "v", "2")
	replacement := w.destination("dst", &fakeDestination{})
	a, err := l.amend()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	if err := a.Apply(func() { t.Error("drained") }); err == nil {
		t.Error("applied")
	}
	if replacement.tornDown != 1 {
		t.Errorf("torn down %d times", replacement.tornDown)
	}
}

// A change that needs a new run is refused before any plugin is started.
func TestAmendmentsThatTakeARestart(t *testing.T) {
	changes := map[string]func(declared, resolved *spec.Pipeline){
		"source": func(d, _ *spec.Pipeline) {
			d.Connectors[0].Settings = map[string]string{"v": "2"}
		},
		"what a source's settings refer to": func(_, r *spec.Pipeline) {
			r.Connectors[0].Settings = map[string]string{"v": "2"}
		},
		"connector added": func(d, r *spec.Pipeline) {
			d.Connectors = append(d.Connectors, spec.Connector{ID: "more", Type: spec.TypeDestination})
			r.Connectors = d.Connectors
		},
		"destination and processors": func(d, r *spec.Pipeline) {
			d.Connectors[1].Plugin, d.Processors = "other", []spec.Processor{{ID: "x"}}
			r.Connectors, r.Processors = d.Connectors, d.Processors
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.source("src", 10)
			w.destination("dst", &fakeDestination{})
			l := w.begin(t.Context())
			declared, resolved := w.spec.Clone(), w.spec.Clone()
			change(declared, resolved)
			if _, err := l.Amend(t.Context(), declared, resolved); !errors.Is(err, spec.ErrNeedsRestart) {
				t.Errorf("Amend returned %v", err)
			}
			if err := l.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The dead-letter queue is replaced between two dead letters, also together with the
// destination that refuses records.
func TestDeadLetterQueueIsReplaced(t *testing.T) {
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprint("with the destination ", both), func(t *testing.T) {
			w := newWorld(t)
			w.spec.DeadLetterQueue.WindowSize = 0
			w.source("src", 1<<30)
			old := w.queue
			old.async = true
			d := w.destination("dst", &fakeDestination{async: true, refuse: refuseEvery(2)})
			l := w.begin(t.Context())
			var deadLetters []record.Record
			for i := range 50 {
				wait.For(t, "dead letters", func() bool { return len(old.records()) > 5 })
				w.spec.DeadLetterQueue.Settings = map[string]string{"v": strconv.Itoa(i)}
				replacement := &fakeDestination{t: t, async: i%2 == 0, instead: old}
				w.plugins.destinations["p:dead-letter-queue"] = replacement
				if both {
					w.set(1, "v", strconv.Itoa(i))
					d = w.destination("dst", &fakeDestination{async: true, refuse: refuseEvery(2), instead: d})
				}
				l.become()
				deadLetters = append(deadLetters, old.records()...)
				old = replacement
			}
			if err := l.stop(); err != nil {
				t.Fatal(err)
			}
			deadLetters = append(deadLetters, old.records()...)
			for i, deadLetter := range deadLetters {
				if got, want := string(deadLetter.Position), fmt.Sprintf("p:src/%d", 2*(i+1)); got != want {
					t.Fatalf("dead letter %d is of %s, want %s", i, got, want)
				}
			}
		})
	}
}

// The nack window continues when only the queue is replaced, and starts over when the window changes.
func TestDeadLetterQueueWindowOverAmendments(t *testing.T) {
	for _, test := range []struct {
		change func(q *spec.DeadLetterQueue)
		stops  bool
	}{
		{func(q *spec.DeadLetterQueue) { q.Settings = map[string]string{"v": "2"} }, true},
		{func(q *spec.DeadLetterQueue) { q.WindowSize = 1000 }, false},
	} {
		w := newWorld(t)
		w.spec.DeadLetterQueue.WindowSize, w.spec.DeadLetterQueue.WindowNackThreshold = 500, 1
		s := w.source("src", 10) // record 10 is refused before, 20 after
		d := w.destination("dst", &fakeDestination{refuse: refuseEvery(10)})
		more := s.waits(20)
		l := w.begin(t.Context())
		wait.For(t, "the first refusal", func() bool { return len(w.queue.records()) == 1 })
		test.change(&w.spec.DeadLetterQueue)
		w.plugins.destinations["p:dead-letter-queue"] = &fakeDestination{t: t}
		l.become()
		close(more)
		if test.stops {
			if err := l.wait(); err == nil || !strings.Contains(err.Error(), "window-nack-threshold is exceeded") {
				t.Errorf("the run ended with %v", err)
			}
			continue
		}
		wait.For(t, "the rest", func() bool { return s.ackedUpTo() == 20 })
		if err := l.stop(); err != nil {
			t.Error(err)
		}
		if len(d.records()) != 18 {
			t.Errorf("%d records arrived, want 18", len(d.records()))
		}
	}
}

// Destinations learn when they open whether refusals are tolerated, and are reopened when that changes. Those that
// gather records need not know.
func TestDestinationsAreReopenedWhenRefusalsBecomeTolerated(t *testing.T) {
	w := newWorld(t)
	s := w.source("src", 100)
	gathers := w.destination("gathers", &fakeDestination{})
	w.set(1, "sdk.batch.size", "10")
	byDefault := w.destination("by-default", &fakeDestination{})
	w.spec.Connectors[2].Plugin = "gathering"
	w.plugins.defaults["gathering"] = map[string]string{"sdk.batch.delay": "1s"}
	old := w.destination("dst", &fakeDestination{})
	l := w.begin(t.Context())
	w.spec.DeadLetterQueue.WindowSize = 0
	replacement := w.destination("dst", &fakeDestination{instead: old})
	l.become()
	wait.For(t, "all records", func() bool { return s.ackedUpTo() == 100 })
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	if old.stopAndWait || !replacement.stopAndWait || len(replacement.calls) != 1 || gathers.tornDown != 1 ||
		byDefault.tornDown != 1 {
		t.Errorf("stopAndWait before %v, then %v, called %q", old.stopAndWait, replacement.stopAndWait,
			replacement.calls)
	}
}

// brand is a processor that writes its setting v into the key of records.
type brand struct {
	sdk.ProcessorBase
	v string
}

func (*brand) Parameters() sdk.Parameters { return sdk.Parameters{"v": {}} }

func (b *brand) Configure(_ context.Context, settings map[string]string) error {
	b.v = settings["v"]
	return nil
}

func (b *brand) Process(_ context.Context, batch *sdk.ProcessBatch) error {
	for i := range batch.Len() {
		batch.Record(i).Key = record.Raw([]byte(b.v))
	}
	return nil
}

// Processors are exchanged, added and removed between two batches.
func TestProcessorsAreReplaced(t *testing.T) {
	for _, at := range []string{"pipeline", "source", "destination"} {
		t.Run(at, func(t *testing.T) { testProcessorsAreReplaced(t, at) })
	}
}

func testProcessorsAreReplaced(t *testing.T, at string) {
	w := newWorld(t)
	w.plugins.processors["brand"] = func() sdk.Processor { return &brand{} }
	w.source("src", 1<<30)
	d := w.destination("dst", &fakeDestination{})
	l := w.begin(t.Context())
	key := func(r record.Record) string { raw, _ := r.Key.Raw(); return string(raw) }
	want := []string{"p:src"}
	wait.For(t, "a record", func() bool { return len(d.records()) > 0 })
	for i := range 20 {
		chain := &w.spec.Processors
		switch at {
		case "source":
			chain = &w.spec.Connectors[0].Processors
		case "destination":
			chain = &w.spec.Connectors[1].Processors
		}
		*chain = nil
		name := "p:src"
		if i%3 != 2 {
			name = fmt.Sprint("v", i)
			*chain = []spec.Processor{{ID: "brand", Plugin: "brand", Settings: map[string]string{"v": name}}}
		}
		want = append(want, name)
		l.become()
		wait.For(t, "a record of "+name, func() bool {
			all := d.records()
			return len(all) > 0 && key(all[len(all)-1]) == name
		})
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	wantValues(t, d.records(), upTo(len(d.records())))
	var got []string
	for _, r := range d.records() {
		if len(got) == 0 || got[len(got)-1] != key(r) {
			got = append(got, key(r))
		}
	}
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("records were processed by %q, want %q", got, want)
	}
	if d.tornDown != 1 || len(d.calls) != 2 {
		t.Errorf("the destination was torn down %d times and called %q", d.tornDown, d.calls)
	}
}

// A replaced connector cannot report results any more.
func TestLateResultsAreVoid(t *testing.T) {
	w := newWorld(t)
	s := w.source("src", 1<<30)
	old := w.destination("dst", &fakeDestination{})
	l := w.begin(t.Context())
	wait.For(t, "records", func() bool { return len(old.records()) > 10 })
	w.set(1, "v", "2")
	replacement := w.destination("dst", &fakeDestination{hold: make(chan struct{})})
	l.become()
	old.settle(1, nil)
	old.settle(0, errors.New("its process ended"))
	close(replacement.hold)
	wait.For(t, "records", func() bool { return len(replacement.records()) > 10 })
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	if n := len(old.records()) + len(replacement.records()); s.ackedUpTo() != n {
		t.Errorf("acked %d of %d", s.ackedUpTo(), n)
	}
}

// The window and the acknowledgement timeout of a destination follow the new version.
func TestSettingsTheEngineReadsFollowTheNewVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.window = backpressure.Window{Unacked: 50, Unsettled: 50, Bytes: 50}
		w.ackTimeout = 50 * time.Millisecond
		s := w.source("src", 950)
		more := s.waits(960)
		d := w.destination("dst", &fakeDestination{})
		l := w.begin(t.Context())
		w.set(1, "sdk.batch.size", "200")
		replacement := w.destination("dst", &fakeDestination{gather: 200, instead: d})
		l.become()
		wait.For(t, "all but the last", func() bool { return s.ackedUpTo()+200 > 950 })
		time.Sleep(2 * w.ackTimeout) // it gathers, and may take longer
		w.set(1, "v", "3")
		w.destination("dst", &fakeDestination{hold: make(chan struct{}), instead: replacement})
		l.become()
		close(more)
		if err := l.wait(); err == nil ||
			!strings.Contains(err.Error(), "destination p:dst has not responded for 50ms") {
			t.Errorf("the run ended with %v", err)
		}
		if s.ackedUpTo() != 950 {
			t.Errorf("acked %d, want 950", s.ackedUpTo())
		}
	})
}

// A flush ends only when the last result was processed: here its dead letters wait for the dead-letter queue, which is
// replaced as well.
func TestFlushWaitsForDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.spec.DeadLetterQueue.WindowSize = 0
		const total = 20
		s := w.source("src", total)
		s.maxBatch = 1 << 20 // one batch for all records
		first := w.queue
		first.hold = make(chan struct{})
		old := w.destination("dst", &fakeDestination{async: true, reject: errors.New("bad batch")})
		l := w.begin(t.Context())
		l.writes("p:dst")
		w.set(1, "v", "2")
		w.spec.DeadLetterQueue.Settings = map[string]string{"v": "2"}
		w.destination("dst", &fakeDestination{instead: old})
		w.plugins.destinations["p:dead-letter-queue"] = &fakeDestination{t: t, instead: first}
		a, err := l.amend()
		if err != nil {
			t.Fatal(err)
		}
		applied := make(chan error, 1)
		for i := range total {
			if i == total/2 { // the only result has arrived and is being processed
				go func() { applied <- a.Apply(func() {}) }()
			}
			synctest.Wait() // the queue could be removed too early
			select {
			case first.hold <- struct{}{}:
			case <-time.After(wait.Limit):
				t.Fatal("the dead letters are not written")
			}
		}
		if err := <-applied; err != nil {
			t.Fatal(err)
		}
		if err := l.stop(); err != nil {
			t.Fatal(err)
		}
		if len(first.records()) != total || s.ackedUpTo() != total {
			t.Errorf("%d dead letters, acked %d, want %d", len(first.records()), s.ackedUpTo(), total)
		}
	})
}
