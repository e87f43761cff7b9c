package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a pipeline of fakes.
type world struct {
	t         *testing.T
	spec      spec.Pipeline
	store     *fakeStore
	plugins   *fakePlugins
	queue     *fakeDestination
	committer *engine.Committer
	window    backpressure.Window
	taps      *engine.TapPoints
	tracer    engine.Tracer
	stats     *measure.Pipeline
	redact    func(error) error // nil: errors stay unchanged

	ackTimeout time.Duration
	keep       func(context.Context, *engine.DeadLetter) error // nil: nothing is kept
}

func newWorld(t *testing.T) *world { return newWorldCommitting(t, time.Millisecond) }

// newWorldCommitting returns a world that commits positions once per interval.
func newWorldCommitting(t *testing.T, interval time.Duration) *world {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return newWorldUntil(ctx, t, interval)
}

// newWorldUntil returns a world whose committer ends with ctx.
func newWorldUntil(ctx context.Context, t *testing.T, interval time.Duration) *world {
	w := &world{
		t:      t,
		spec:   spec.Pipeline{ID: "p"},
		store:  newFakeStore(t),
		queue:  &fakeDestination{t: t},
		window: backpressure.Default,
		plugins: &fakePlugins{
			sources:      map[string]connector.Source{},
			destinations: map[string]connector.Destination{},
			processors:   map[string]func() sdk.Processor{},
			defaults:     map[string]map[string]string{},
		},
	}
	w.spec.DeadLetterQueue = spec.DeadLetterQueue{Plugin: "dlq", WindowSize: 1}
	w.plugins.destinations["p:dead-letter-queue"] = w.queue
	committer := &engine.Committer{Store: w.store, CommitInterval: interval}
	w.committer = committer // tests may replace it
	go func() { _ = committer.Run(ctx) }()
	return w
}

func (w *world) source(id string, total int) *fakeSource {
	s := newFakeSource(w.t, w.store, "p:"+id, total)
	w.plugins.sources["p:"+id] = s
	if !slices.ContainsFunc(w.spec.Connectors, func(c spec.Connector) bool { return c.ID == id }) {
		w.spec.Connectors = append(w.spec.Connectors, spec.Connector{ID: id, Type: spec.TypeSource, Plugin: "src"})
	}
	return s
}

func (w *world) destination(id string, d *fakeDestination) *fakeDestination {
	d.t = w.t
	w.plugins.destinations["p:"+id] = d
	if !slices.ContainsFunc(w.spec.Connectors, func(c spec.Connector) bool { return c.ID == id }) {
		w.spec.Connectors = append(w.spec.Connectors, spec.Connector{ID: id, Type: spec.TypeDestination, Plugin: "dst"})
	}
	return d
}

func (w *world) pipeline() *engine.Pipeline {
	declared := w.spec.Clone()
	return &engine.Pipeline{
		Declared:  declared,
		Resolved:  declared,
		Recall:    func(s map[string]string) (map[string]string, []string) { return s, nil },
		Plugins:   w.plugins,
		Store:     w.store,
		Committer: w.committer,
		Window:    w.window,
		Taps:      w.taps,
		Tracer:    w.tracer,
		Stats:     w.stats,
		Redact:    w.redact,

		AckTimeout: w.ackTimeout,
		Keep:       w.keep,
		Log:        slog.New(slog.DiscardHandler),
	}
}

// run prepares and runs the pipeline, and drains it when until returns true.
func (w *world) run(until func() bool) error {
	w.t.Helper()
	p := w.pipeline()
	if err := p.Prepare(w.t.Context()); err != nil {
		return err
	}
	drain := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- p.Run(w.t.Context(), drain, func() {}) }()
	deadline := time.After(wait.Limit)
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for closed := false; ; {
		select {
		case err := <-ended:
			return err
		case <-deadline:
			w.t.Fatal("the pipeline did not end")
		case <-tick.C:
			if !closed && until() {
				close(drain)
				closed = true
			}
		}
	}
}

func values(records []record.Record) (out []int) {
	for _, r := range records {
		raw, _ := r.After.Raw()
		n, _ := strconv.Atoi(string(raw))
		out = append(out, n)
	}
	return out
}

func upTo(n int) (out []int) {
	for i := range n {
		out = append(out, i+1)
	}
	return out
}

func wantValues(t *testing.T, got []record.Record, want []int) {
	t.Helper()
	if v := values(got); !slices.Equal(v, want) {
		t.Errorf("destination has %d records %v, want %d", len(v), clip(v), len(want))
	}
}

func clip(v []int) string {
	if len(v) > 30 {
		return fmt.Sprint(v[:15], "…", v[len(v)-15:])
	}
	return fmt.Sprint(v)
}

func TestEveryRecordArrivesInOrderAndIsAcknowledged(t *testing.T) {
	for _, async := range []bool{false, true} {
		t.Run(fmt.Sprint("async=", async), func(t *testing.T) {
			w := newWorld(t)
			s := w.source("src", 5000)
			d := w.destination("dst", &fakeDestination{async: async})
			if err := w.run(func() bool { return len(d.records()) == 5000 }); err != nil {
				t.Fatal(err)
			}
			wantValues(t, d.records(), upTo(5000))
			if s.ackedUpTo() != 5000 || w.store.saved("p:src") != 5000 {
				t.Errorf("acked %d, saved %d; want 5000", s.ackedUpTo(), w.store.saved("p:src"))
			}
			if s.tornDown != 1 || d.tornDown != 1 || w.queue.tornDown != 1 {
				t.Errorf("torn down %d, %d, %d times; want once each", s.tornDown, d.tornDown, w.queue.tornDown)
			}
		})
	}
}

// A graceful stop at any moment leaves no records to repeat.
func TestStopsLoseAndRepeatNothing(t *testing.T) {
	w := newWorld(t)
	var all []record.Record
	for stop := 37; stop <= 2000; stop += 37 {
		w.source("src", 1<<30)
		d := w.destination("dst", &fakeDestination{async: stop%2 == 0})
		if err := w.run(func() bool { return len(d.records()) >= 37 }); err != nil {
			t.Fatal(err)
		}
		all = append(all, d.records()...)
	}
	wantValues(t, all, upTo(len(all)))
}

// After a failure the next run begins right after the saved position: nothing is lost, and repeated records were not
// acknowledged before.
func TestFailuresRepeatButLoseNothing(t *testing.T) {
	w := newWorld(t)
	reached := 0
	for i := range 40 {
		s := w.source("src", 1<<30)
		d := w.destination("dst", &fakeDestination{async: i%2 == 0, failAt: 20 + 13*i})
		begin := w.store.saved("p:src")
		err := w.run(func() bool { return false })
		if err == nil || !strings.Contains(err.Error(), "disk on fire") {
			t.Fatalf("run ended with %v, want the destination's error", err)
		}
		got := values(d.records())
		for j, v := range got {
			if v != begin+1+j {
				t.Fatalf("run %d got %d where %d was due", i, v, begin+1+j)
			}
		}
		if begin > reached {
			t.Fatalf("run %d begins at %d, but only %d was written", i, begin, reached)
		}
		reached = max(reached, begin+len(got))
		if s.ackedUpTo() > w.store.saved("p:src") {
			t.Fatalf("acked %d, saved %d", s.ackedUpTo(), w.store.saved("p:src"))
		}
	}
}

func TestNothingIsAcknowledgedWhenSavingFails(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			w := newWorld(t)
			s := w.source("src", 1<<30)
			w.destination("dst", &fakeDestination{})
			fail := func() error { return errors.New("disk full") }
			if when == "before" {
				w.store.failBefore = fail
			} else {
				w.store.failAfter = fail
			}
			err := w.run(func() bool { return false })
			if err == nil || !strings.Contains(err.Error(), "disk full") {
				t.Fatalf("run ended with %v, want the store's error", err)
			}
			if s.ackedUpTo() != 0 {
				t.Errorf("acked up to %d although nothing was saved", s.ackedUpTo())
			}
		})
	}
}

func TestSlowestDestinationDecidesWhatIsAcknowledged(t *testing.T) {
	w := newWorld(t)
	s := w.source("src", 200)
	fast := w.destination("fast", &fakeDestination{})
	slow := w.destination("slow", &fakeDestination{hold: make(chan struct{})})
	released := false
	err := w.run(func() bool {
		if !released && len(fast.records()) == 200 {
			if s.ackedUpTo() != 0 || w.store.saved("p:src") != 0 {
				t.Errorf("acked %d, saved %d before the slow destination had anything", s.ackedUpTo(),
					w.store.saved("p:src"))
			}
			released = true
			close(slow.hold)
		}
		return len(slow.records()) == 200
	})
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, fast.records(), upTo(200))
	wantValues(t, slow.records(), upTo(200))
}

func TestSourcesShareADestination(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"a", "b", "c"} {
		w.source(id, 1000)
	}
	d := w.destination("dst", &fakeDestination{async: true})
	if err := w.run(func() bool { return len(d.records()) == 3000 }); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"p:a", "p:b", "p:c"} {
		var own []record.Record
		for _, r := range d.records() {
			if key, _ := r.Key.Raw(); string(key) == id {
				own = append(own, r)
			}
		}
		wantValues(t, own, upTo(1000))
		if w.store.saved(id) != 1000 {
			t.Errorf("saved position of %s is %d, want 1000", id, w.store.saved(id))
		}
	}
}

// runInBackground prepares and runs a pipeline until cancel is called, and returns the channel for the error of its
// run.
func runInBackground(t *testing.T, p *engine.Pipeline) (cancel func(), ended chan error) {
	t.Helper()
	if err := p.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended = make(chan error)
	go func() { ended <- p.Run(ctx, make(chan struct{}), func() {}) }()
	return cancel, ended
}

func TestWindowBoundsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.window.Unsettled = 50
		s := w.source("src", 1<<30)
		d := w.destination("dst", &fakeDestination{hold: make(chan struct{})})
		p := w.pipeline()
		cancel, ended := runInBackground(t, p)
		synctest.Wait() // until the window is full
		if n := p.Stats.Source("p:src").Records.Load(); n < 50 || n >= uint64(50+s.maxBatch) {
			t.Errorf("%d records read with a window of 50", n)
		}
		close(d.hold)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("run ended with %v, want context.Canceled", err)
		}
	})
}

// If writes of all destinations overlap, twice as many records may be outstanding.
func TestWindowIsWiderWhereWritesOverlap(t *testing.T) {
	for _, test := range []struct {
		first, second bool
		window        int
	}{{true, true, 100}, {true, false, 50}, {false, false, 50}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.window.Unsettled = 50
			s := w.source("src", 1<<30)
			hold := make(chan struct{})
			w.destination("dst", &fakeDestination{hold: hold, overlaps: test.first})
			w.destination("other", &fakeDestination{hold: hold, overlaps: test.second})
			p := w.pipeline()
			cancel, ended := runInBackground(t, p)
			synctest.Wait() // until the window is full
			if n := int(p.Stats.Source("p:src").Records.Load()); n < test.window || n >= test.window+s.maxBatch {
				t.Errorf("%d records read, want a window of %d: %+v", n, test.window, test)
			}
			close(hold)
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("run ended with %v, want context.Canceled", err)
			}
		})
	}
}

// Sources that share a bound keep to it together, and each source proceeds. Memory that a run held when it ended is
// free again.
func TestSharedWindowBoundsAllSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100 // records of at least 400 bytes each
		shared := &backpressure.Shared{Bytes: most * 400, Each: 1}
		for range 2 {
			w := newWorld(t)
			w.window.Shared = shared
			a, b := w.source("a", 1<<30), w.source("b", 1<<30)
			d := w.destination("dst", &fakeDestination{hold: make(chan struct{})})
			p := w.pipeline()
			cancel, ended := runInBackground(t, p)
			readA, readB := &p.Stats.Source("p:a").Records, &p.Stats.Source("p:b").Records
			synctest.Wait() // until the window is full
			if n := readA.Load() + readB.Load(); readA.Load() == 0 || readB.Load() == 0 || n < most*3/4 ||
				n > uint64(most+a.maxBatch+b.maxBatch) {
				t.Errorf("%d and %d records read with space for %d", readA.Load(), readB.Load(), most)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("run ended with %v, want context.Canceled", err)
			}
			close(d.hold)
		}
	})
}

// A destination that waits for more records than the window holds gets them, whether its own settings or the defaults
// of its plugin require it.
func TestWindowMakesRoomForDestinationsThatGather(t *testing.T) {
	size := map[string]string{"sdk.batch.size": "500"}
	for _, test := range []struct{ settings, defaults map[string]string }{{size, nil}, {nil, size}} {
		w := newWorld(t)
		w.window = backpressure.Window{Unacked: 50, Unsettled: 50, Bytes: 50}
		s := w.source("src", 2000)
		d := w.destination("dst", &fakeDestination{gather: 500})
		w.spec.Connectors[1].Settings, w.plugins.defaults["dst"] = test.settings, test.defaults
		if err := w.run(func() bool { return s.ackedUpTo() == 2000 }); err != nil {
			t.Fatal(err)
		}
		wantValues(t, d.records(), upTo(2000))
	}
}

func refuseEvery(n int) func(record.Record) error {
	return func(r record.Record) error {
		if v := values([]record.Record{r})[0]; v%n == 0 {
			return errors.New("bad record")
		}
		return nil
	}
}

func TestRefusedRecordsGoToTheDeadLetterQueue(t *testing.T) {
	w := newWorld(t)
	w.spec.DeadLetterQueue.WindowSize = 0
	s := w.source("src", 100)
	d := w.destination("dst", &fakeDestination{async: true, refuse: refuseEvery(10)})
	if err := w.run(func() bool { return len(d.records()) == 90 && len(w.queue.records()) == 10 }); err != nil {
		t.Fatal(err)
	}
	if s.ackedUpTo() != 100 {
		t.Errorf("acked up to %d, want 100", s.ackedUpTo())
	}
	deadLetter := w.queue.records()[3]
	if got, want := string(deadLetter.Position), "p:src/40"; got != want {
		t.Errorf("position of the dead letter is %q, want %q", got, want)
	}
	if deadLetter.Metadata.Get(record.KeyDLQNackError) != "bad record" ||
		deadLetter.Metadata.Get(record.KeyDLQNackNodeID) != "p:dst-acker" {
		t.Errorf("metadata of the dead letter is %v", deadLetter.Metadata)
	}
	after, ok := deadLetter.After.Structured()
	if !ok || after["operation"] != "create" || !reflect.DeepEqual(after["position"], []byte("40")) {
		t.Errorf("payload of the dead letter is %v", after)
	}
}

func TestDestinationsThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		settings, defaults map[string]string
		fails              bool
	}{
		{nil, nil, true},
		{map[string]string{"sdk.batch.size": "101"}, nil, true}, // it does not even accept the records of a batch
		{map[string]string{"sdk.batch.size": "100", "sdk.batch.delay": "1h"}, nil, false},
		{map[string]string{"sdk.rate.perSecond": "1"}, nil, false},
		{nil, map[string]string{"sdk.rate.perSecond": "0.5"}, false},
		{nil, map[string]string{"sdk.batch.size": "0", "sdk.batch.delay": "0s", "sdk.rate.perSecond": "0.0"}, true},
		{map[string]string{"sdk.batch.delay": "0"}, map[string]string{"sdk.batch.delay": "1s"}, true},
	} {
		t.Run(fmt.Sprint(test.settings, test.defaults), func(t *testing.T) {
			w := newWorld(t)
			w.ackTimeout = 20 * time.Millisecond
			s := w.source("src", 100)
			d := w.destination("dst", &fakeDestination{hold: make(chan struct{})})
			w.spec.Connectors[1].Settings, w.plugins.defaults["dst"] = test.settings, test.defaults
			if !test.fails {
				time.AfterFunc(10*w.ackTimeout, func() { close(d.hold) })
			}
			err := w.run(func() bool { return s.ackedUpTo() == 100 })
			if failed := err != nil && strings.Contains(err.Error(),
				"destination p:dst has not responded for 20ms"); failed != test.fails {
				t.Errorf("run ended with %v, want a failure: %v", err, test.fails)
			}
			var p reconcile.Permanent
			if errors.As(err, &p) {
				t.Errorf("the error asks not to be retried: %v", err)
			}
		})
	}
}

func TestDestinationsStopAndWaitWhereRefusalsAreTolerated(t *testing.T) {
	for _, test := range []struct {
		size, threshold int
		settings        map[string]string
		defaults        map[string]string
		want            bool
	}{
		{size: 1, want: false},
		{size: 0, want: true},
		{size: 10, threshold: 1, want: true},
		{size: 0, settings: map[string]string{"sdk.batch.size": "10"}, want: false},
		{size: 0, settings: map[string]string{"sdk.batch.delay": "1s"}, want: false},
		{size: 0, settings: map[string]string{"sdk.batch.size": "0"}, want: true},
		{size: 0, defaults: map[string]string{"sdk.batch.size": "10"}, want: false},
		{size: 0, settings: map[string]string{"sdk.batch.size": "0"},
			defaults: map[string]string{"sdk.batch.size": "10"}, want: true},
	} {
		w := newWorld(t)
		w.spec.DeadLetterQueue.WindowSize, w.spec.DeadLetterQueue.WindowNackThreshold = test.size, test.threshold
		s := w.source("src", 10)
		d := w.destination("dst", &fakeDestination{})
		w.spec.Connectors[1].Settings, w.plugins.defaults["dst"] = test.settings, test.defaults
		if err := w.run(func() bool { return s.ackedUpTo() == 10 }); err != nil {
			t.Fatal(err)
		}
		if d.stopAndWait != test.want {
			t.Errorf("%+v: stopAndWait is %v", test, d.stopAndWait)
		}
	}
}

func TestDeadLetterQueueWindow(t *testing.T) {
	for _, test := range []struct {
		size, threshold, every int
		deadLetters            int // written before the pipeline stops
		stops                  bool
	}{
		{size: 1, threshold: 0, every: 10, deadLetters: 0, stops: true},
		{size: 50, threshold: 0, every: 10, deadLetters: 0, stops: true},
		{size: 10, threshold: 1, every: 10, deadLetters: 10, stops: false},
		{size: 11, threshold: 1, every: 10, deadLetters: 1, stops: true},
		{size: 100, threshold: 3, every: 10, deadLetters: 3, stops: true},
		{size: 0, threshold: 0, every: 2, deadLetters: 50, stops: false},
	} {
		t.Run(fmt.Sprintf("%d of %d, every %d", test.threshold, test.size, test.every), func(t *testing.T) {
			w := newWorld(t)
			w.spec.DeadLetterQueue.WindowSize, w.spec.DeadLetterQueue.WindowNackThreshold = test.size, test.threshold
			w.source("src", 100)
			d := w.destination("dst", &fakeDestination{refuse: refuseEvery(test.every)})
			err := w.run(func() bool { return len(d.records())+len(w.queue.records()) == 100 })
			if stopped := err != nil; stopped != test.stops {
				t.Errorf("run ended with %v, want an error: %v", err, test.stops)
			}
			wantPermanent(t, err)
			wantRemedies(t, err, test.threshold)
			if len(w.queue.records()) != test.deadLetters {
				t.Errorf("%d dead letters, want %d", len(w.queue.records()), test.deadLetters)
			}
			if saved := w.store.saved("p:src"); test.stops && saved >= (test.deadLetters+1)*test.every {
				t.Errorf("saved %d although record %d went nowhere", saved, (test.deadLetters+1)*test.every)
			}
		})
	}
}

// wantRemedies checks that err, if any, names the settings that let a pipeline continue after refused records, even if
// the error of the record is long.
func wantRemedies(t *testing.T, err error, threshold int) {
	t.Helper()
	if err == nil {
		return
	}
	text := texts.TruncateError(err.Error())
	if !strings.Contains(text, "set window-size: 0 in dead-letter-queue") ||
		strings.Contains(text, "raise window-nack-threshold") != (threshold > 0) {
		t.Errorf("no remedies: %v", text)
	}
}

// TestLongRefusalNamesTheRemedies makes a destination refuse a record with a long error.
func TestLongRefusalNamesTheRemedies(t *testing.T) {
	w := newWorld(t)
	w.source("src", 1)
	long := errors.New(strings.Repeat("x", 1<<20))
	w.destination("dst", &fakeDestination{refuse: func(record.Record) error { return long }})
	err := w.run(func() bool { return false })
	if wantRemedies(t, err, 0); err == nil || !strings.HasPrefix(err.Error(), "p:dst refused a record: xxx") {
		t.Errorf("the run ended with %v", err)
	}
}

// wantPermanent checks that err, if any, is permanent.
func wantPermanent(t *testing.T, err error) {
	t.Helper()
	var p reconcile.Permanent
	if err != nil && (!errors.As(err, &p) || !p.Permanent()) {
		t.Errorf("error is not permanent: %v", err)
	}
}

func TestDeadLetterQueueThatFailsStopsThePipeline(t *testing.T) {
	w := newWorld(t)
	w.spec.DeadLetterQueue.WindowSize = 0
	w.queue.refuse = func(record.Record) error { return errors.New("queue full") }
	w.source("src", 1<<30)
	w.destination("dst", &fakeDestination{refuse: refuseEvery(10)})
	err := w.run(func() bool { return false })
	if err == nil || !strings.Contains(err.Error(), "queue full") {
		t.Fatalf("run ended with %v, want the queue's error", err)
	}
	wantPermanent(t, err)
	if saved := w.store.saved("p:src"); saved >= 10 {
		t.Errorf("saved %d although record 10 went nowhere", saved)
	}
}

// breaking settles nothing and breaks after the first batch.
type breaking struct {
	*fakeDestination
	settled func(n int, err error)
}

func (d *breaking) Open(_ context.Context, settled func(int, error)) error {
	d.settled = settled
	return nil
}

func (d *breaking) Write(context.Context, *record.Batch) error {
	go d.settled(0, errors.New("process ended"))
	return nil
}

func TestDestinationThatBreaksWhileIdleEndsTheRun(t *testing.T) {
	w := newWorld(t)
	w.source("src", 1)
	w.plugins.destinations["p:dst"] = &breaking{fakeDestination: w.destination("dst", &fakeDestination{})}
	err := w.run(func() bool { return false })
	if err == nil || !strings.Contains(err.Error(), "p:dst: process ended") {
		t.Fatalf("run ended with %v", err)
	}
}

func TestProtocolViolationsStopThePipeline(t *testing.T) {
	t.Run("surplus result", func(t *testing.T) {
		w := newWorld(t)
		w.source("src", 1<<30)
		w.destination("dst", &fakeDestination{surplus: 1})
		err := w.run(func() bool { return false })
		if err == nil || !strings.Contains(err.Error(), "more records than were written") {
			t.Fatalf("run ended with %v", err)
		}
		wantPermanent(t, err)
	})
	t.Run("empty position", func(t *testing.T) {
		w := newWorld(t)
		s := w.source("src", 1<<30)
		s.withhold = map[int]bool{77: true}
		w.destination("dst", &fakeDestination{})
		err := w.run(func() bool { return false })
		if err == nil || !strings.Contains(err.Error(), "position of 0 bytes") {
			t.Fatalf("run ended with %v", err)
		}
		wantPermanent(t, err)
	})
}

func TestLifecycleEvents(t *testing.T) {
	w := newWorld(t)
	d := w.destination("dst", &fakeDestination{})
	round := func(settings map[string]string, createdErr error) []string {
		s := w.source("src", 3)
		s.createdErr = createdErr
		d.got = nil
		w.spec.Connectors[1].Settings = settings
		begin := w.store.saved("p:src")
		_ = w.run(func() bool { return begin+len(d.records()) == 3 })
		return s.calls[1:]
	}
	a, b := map[string]string{"k": "a"}, map[string]string{"k": "b"}
	for i, step := range []struct {
		settings map[string]string
		err      error
		want     []string
	}{
		{a, errors.New("no"), []string{"created map[k:a]"}},
		{b, nil, []string{"created map[k:b]"}},
		{b, nil, []string{}},
		{a, nil, []string{"updated map[k:b] map[k:a]"}},
		{a, nil, []string{}},
	} {
		if got := round(step.settings, step.err); !slices.Equal(got, step.want) {
			t.Errorf("start %d: lifecycle calls %q, want %q", i+1, got, step.want)
		}
	}
}

// A connector whose plugin was replaced by another is kept for cleanup; the new connector starts for the first time,
// unless it is the former one again.
func TestLifecycleOfAReplacedPlugin(t *testing.T) {
	w := newWorld(t)
	w.destination("dst", &fakeDestination{})
	for i, step := range []struct {
		plugin, k  string
		want       []string
		superseded string
	}{
		{"builtin:a@v1", "1", []string{"created map[k:1]"}, ""},
		{"./a", "1", nil, ""}, // written as a path: the same plugin
		{"builtin:a@v2", "1", nil, ""},
		{"b", "1", []string{"created map[k:1]"}, "builtin:a@v2 map[k:1]"},
		{"standalone:a@v3", "2", []string{"updated map[k:1] map[k:2]"}, "b map[k:1]"},
		{"b", "1", nil, "standalone:a@v3 map[k:2]"},
	} {
		s := w.source("src", 3)
		w.spec.Connectors[1].Plugin, w.spec.Connectors[1].Settings = step.plugin, map[string]string{"k": step.k}
		if err := w.run(func() bool { return true }); err != nil {
			t.Fatalf("start %d: %v", i+1, err)
		}
		if got := s.calls[1:]; !slices.Equal(got, step.want) {
			t.Errorf("start %d: lifecycle calls %q, want %q", i+1, got, step.want)
		}
		if step.superseded == "" {
			continue
		}
		name, _, _ := strings.Cut(step.superseded, " ")
		kept, _ := w.store.ConnectorState(t.Context(), spec.SupersededID("p:src", name))
		if kept == nil || kept.PipelineID != "p" || kept.Type != spec.TypeSource ||
			fmt.Sprint(kept.Plugin, " ", kept.Active) != step.superseded {
			t.Fatalf("start %d: %+v is kept to be cleaned up, want %s", i+1, kept, step.superseded)
		}
		if id, superseded := kept.ConnectorID(); id != "p:src" || !superseded {
			t.Errorf("start %d: it is kept as that of %q, superseded %v", i+1, id, superseded)
		}
	}
	if s, _ := w.store.ConnectorState(t.Context(), "p:src"); s.Plugin != "b" {
		t.Errorf("the connector in use is that of %s", s.Plugin)
	}
}

func TestFailedPrepareTearsDown(t *testing.T) {
	w := newWorld(t)
	s := w.source("src", 10)
	d := w.destination("dst", &fakeDestination{})
	d.configureErr = errors.New("path is required")
	err := w.pipeline().Prepare(t.Context())
	if err == nil || !strings.Contains(err.Error(), "cannot configure connector p:dst: path is required") {
		t.Fatalf("Prepare returned %v", err)
	}
	if s.tornDown != 1 || d.tornDown != 1 {
		t.Errorf("torn down %d and %d times, want once each", s.tornDown, d.tornDown)
	}
}

func TestFailedOpenTearsDown(t *testing.T) {
	w := newWorld(t)
	s := w.source("src", 10)
	d := w.destination("dst", &fakeDestination{})
	s.openErr = errors.New("no such table")
	err := w.run(func() bool { return false })
	if err == nil || !strings.Contains(err.Error(), "cannot open source p:src: no such table") {
		t.Fatalf("run ended with %v", err)
	}
	if s.tornDown != 1 || d.tornDown != 1 || w.queue.tornDown != 1 {
		t.Errorf("torn down %d, %d, %d times; want once each", s.tornDown, d.tornDown, w.queue.tornDown)
	}
}
