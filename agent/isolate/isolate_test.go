package isolate_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// A destination that takes nothing holds up neither its sibling nor the acknowledgements, and then gets all records in
// order, with the positions and the metadata that they had.
func TestSiblingsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5000)
		w.slow.hold = make(chan struct{})
		r := w.start()
		time.Sleep(5 * time.Second)
		if got := w.fast.written(); !slices.Equal(got, upTo(5000)) {
			t.Errorf("the sibling got %d records", len(got))
		}
		if n := w.source.ackedUpTo(); n != 5000 {
			t.Errorf("%d records are acknowledged", n)
		}
		b := r.backlog()
		if b.Records != 5000 || b.Bytes <= 0 || b.Seconds < 4 || b.Seconds > 5.5 || b.State != spec.BacklogWriting {
			t.Errorf("the backlog is %+v", b)
		}
		close(w.slow.hold)
		time.Sleep(time.Second)
		if got := w.slow.written(); !slices.Equal(got, upTo(5000)) {
			t.Errorf("the isolated destination got %d records: %v…", len(got), got[:min(len(got), 10)])
		}
		want := record.Metadata{{Key: record.KeySourceConnectorID, Value: "p:in"}}
		for _, md := range w.slow.metadata {
			if !md.Equal(want) {
				t.Fatalf("its metadata are %v", md)
			}
		}
		if b := r.backlog(); b.Records != 0 || b.Bytes != 0 || b.Seconds != 0 {
			t.Errorf("the backlog of an empty log is %+v", b)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A destination that takes records and settles none holds them, until it settles one.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10)
		hold := make(chan struct{})
		w.slow.hold = hold
		r := w.start()
		time.Sleep(5 * time.Second)
		if at := r.held(); time.Since(at) < 4*time.Second || time.Since(at) > 5*time.Second {
			t.Errorf("it holds records since %v", time.Since(at))
		}
		close(hold)
		time.Sleep(time.Second)
		if at := r.held(); !at.IsZero() {
			t.Errorf("it holds nothing, since %v", time.Since(at))
		}
		w.source.raise(20)
		time.Sleep(time.Second)
		if at := r.held(); !at.IsZero() {
			t.Errorf("it holds nothing any more, since %v", time.Since(at))
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// The age of the oldest record is known after restarts, too, which leave gaps between the offsets of records.
func TestAgeAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100)
		r := w.start()
		time.Sleep(5 * time.Second)
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		w.slow.hold = make(chan struct{})
		r = w.start()
		time.Sleep(5 * time.Second)
		if b := r.backlog(); b.Records != 0 || b.Seconds != 0 {
			t.Errorf("the backlog of an empty log is %+v", b)
		}
		w.source.raise(200)
		time.Sleep(time.Minute)
		if b := r.backlog(); b.Records != 100 || b.Seconds < 59 || b.Seconds > 61 {
			t.Errorf("the backlog is %+v", b)
		}
		close(w.slow.hold)
		time.Sleep(time.Second)
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A failing destination is started again, with the first record that it did not settle, while the sibling continues.
func TestFailuresAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100)
		w.slow.openErr = errors.New("no route to host")
		r := w.start()
		time.Sleep(500 * time.Millisecond)
		if got := w.fast.written(); len(got) != 100 {
			t.Errorf("the sibling got %d records", len(got))
		}
		b := r.backlog()
		if b.State != spec.BacklogRetrying || b.Error != "no route to host" || b.Since == nil || b.RetryAt == nil ||
			b.Records != 100 {
			t.Errorf("the backlog is %+v", b)
		}
		if f := r.failure(); f == nil || f.Text != "no route to host" || f.First != *b.Since || f.Count < 1 {
			t.Errorf("the failure is %+v", f)
		}
		w.slow.set(func() {
			w.slow.openErr = nil
			w.slow.writeErr = func(n int) error {
				if n == 51 {
					return errors.New("disk on fire")
				}
				return nil
			}
		})
		time.Sleep(5 * time.Second)
		w.slow.set(func() { w.slow.writeErr = nil })
		time.Sleep(30 * time.Second)
		if got := w.slow.written(); !slices.Equal(got, upTo(100)) {
			t.Errorf("the isolated destination got %v", got)
		}
		if n := w.slow.opens(); n < 4 {
			t.Errorf("it was opened %d times", n)
		}
		if b := r.backlog(); b.Error != "" || b.State != spec.BacklogWriting || r.failure() != nil {
			t.Errorf("the backlog is %+v", b)
		}
		want := []string{"IsolatedFailed", "IsolatedDelivering", "IsolatedFailed", "IsolatedDelivering"}
		if got := w.seen(); !slices.Equal(got, want) {
			t.Errorf("the events are %v", got)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A destination that settles nothing is started again after its time to answer, and gets the same records again.
func TestDeafDestinationIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10)
		w.timeout, w.slow.deaf = 10*time.Second, true
		r := w.start()
		time.Sleep(9 * time.Second)
		if n := w.slow.opens(); n != 1 {
			t.Errorf("it was opened %d times at once", n)
		}
		time.Sleep(11 * time.Second)
		if n := w.slow.opens(); n != 2 {
			t.Errorf("it was opened %d times", n)
		}
		w.slow.set(func() { w.slow.deaf, w.slow.got = false, nil })
		time.Sleep(30 * time.Second)
		if got := w.slow.written(); !slices.Equal(got, upTo(10)) {
			t.Errorf("it got %v", got)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A stop does not wait for a destination that hangs, and the next run writes the rest of the log, in order.
func TestStopWhileTheDestinationHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1000)
		r := w.start()
		time.Sleep(time.Second)
		w.slow.set(func() { w.slow.hold = make(chan struct{}) })
		w.source.total = 1000
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		w.source.total = 2000
		r = w.start()
		time.Sleep(time.Second)
		began := time.Now()
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if n := w.source.ackedUpTo(); n != 2000 {
			t.Errorf("%d records are acknowledged", n)
		}
		if n, err := w.logs.Waiting("p", "slow"); n != 1000 || err != nil {
			t.Errorf("%d records wait, error %v", n, err)
		}
		w.slow.set(func() { w.slow.hold = nil })
		r = w.start()
		time.Sleep(time.Second)
		if got := w.slow.written(); !slices.Equal(got, upTo(2000)) {
			t.Errorf("the isolated destination got %d records, %v…", len(got), got[max(0, len(got)-5):])
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A run that ends without a drain loses nothing: the next one writes the unsettled records again, and those after them.
func TestRestartAfterAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 300)
		w.slow.set(func() {
			w.slow.writeErr = func(n int) error {
				if n > 120 {
					return errors.New("away")
				}
				return nil
			}
		})
		r := w.start()
		time.Sleep(10 * time.Second)
		r.kill()
		if err := <-r.ended; err == nil {
			t.Fatal("the run ended without an error")
		}
		r.end()
		w.slow.set(func() { w.slow.writeErr = nil })
		r = w.start()
		time.Sleep(10 * time.Second)
		got := w.slow.written()
		if !slices.Equal(slices.Compact(slices.Clone(got)), upTo(300)) {
			t.Errorf("the isolated destination got %v", got)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// Records that the destination refuses go to the dead letters of the pipeline, as they would without a log.
func TestRefusalsGoToTheDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100)
		w.dead.WindowSize = 0
		w.slow.refuse = func(n int) error {
			if n%10 == 0 {
				return errors.New("too round")
			}
			return nil
		}
		r := w.start()
		time.Sleep(time.Second)
		letters := w.kept()
		if len(letters) != 10 || len(w.queue.written()) != 10 {
			t.Fatalf("%d dead letters are kept, %d in the queue", len(letters), len(w.queue.written()))
		}
		l := letters[0]
		if l.SourceID != "p:in" || l.RefusedBy != "p:slow" || !l.Destination || l.Entry != "p:slow" || l.Stopped ||
			string(l.Record.Position) != "10" || l.Err.Error() != "too round" {
			t.Errorf("the first is %+v", l)
		}
		if got := w.slow.written(); len(got) != 90 {
			t.Errorf("the isolated destination got %v", got)
		}
		if n, err := w.logs.Waiting("p", "slow"); n != 0 || err != nil {
			t.Errorf("%d records wait, error %v", n, err)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// Where the dead-letter queue tolerates no refusal, the isolated destination stops at the refused record, and its
// siblings continue.
func TestUntoleratedRefusalStopsOnlyTheDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100)
		w.slow.refuse = func(n int) error {
			if n == 50 {
				return errors.New("too round")
			}
			return nil
		}
		r := w.start()
		time.Sleep(9500 * time.Millisecond)
		if got := w.fast.written(); len(got) != 100 {
			t.Errorf("the sibling got %d records", len(got))
		}
		b := r.backlog()
		if b.Records != 51 || b.State != spec.BacklogRetrying || !strings.Contains(b.Error, "window-nack-threshold") {
			t.Errorf("the backlog is %+v", b)
		}
		if letters := w.kept(); len(letters) == 0 || !letters[0].Stopped || len(w.queue.written()) != 0 {
			t.Errorf("the dead letters are %+v", letters)
		}
		w.slow.set(func() { w.slow.refuse = nil })
		time.Sleep(time.Minute)
		// The records behind the refused one may have been written before it was refused, but only in the first
		// attempt.
		got := slices.DeleteFunc(w.slow.written(), func(n int) bool { return n > 50 })
		if !slices.Equal(got, upTo(50)) || len(w.slow.written()) > 150 {
			t.Errorf("the isolated destination got %v", w.slow.written())
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// full returns a world whose isolated destination takes nothing until release is called, and whose log holds less than
// the records of the source.
func full(t *testing.T, policy spec.IsolationFull) (w *world, release func()) {
	w = newWorld(t, 3000)
	w.source.size = 1000
	w.limits = &spec.Isolation{Bytes: spec.LeastIsolationBytes, Full: policy}
	hold := make(chan struct{})
	w.slow.hold = hold
	return w, func() { close(hold) }
}

// A full log with the policy block makes the pipeline wait, without a failure, and nothing is lost.
func TestFullBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, release := full(t, "")
		w.timeout = time.Hour
		r := w.start()
		time.Sleep(2 * time.Hour) // longer than a destination may take to answer
		n := w.source.ackedUpTo()
		if b := r.backlog(); n < 500 || n > 1100 || b.Full != spec.IsolationBlocks {
			t.Errorf("%d records are acknowledged, the backlog is %+v", n, b)
		}
		release()
		time.Sleep(time.Minute)
		if got := w.slow.written(); !slices.Equal(slices.Compact(slices.Clone(got)), upTo(3000)) {
			t.Errorf("the isolated destination got %d records", len(got))
		}
		if got := w.fast.written(); !slices.Equal(got, upTo(3000)) {
			t.Errorf("the sibling got %d records", len(got))
		}
		if b := r.backlog(); b.Full != "" || b.Dropped != 0 {
			t.Errorf("the backlog is %+v", b)
		}
		if events := w.seen(); !slices.Contains(events, "IsolationFull") || events[len(events)-1] != "IsolationRoom" {
			t.Errorf("the events are %v", events)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A full log with the policy drop-oldest keeps the newest records, counts the others, and holds up nothing.
func TestFullDropsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, release := full(t, spec.IsolationDropsOldest)
		r := w.start()
		time.Sleep(time.Minute)
		if n := w.source.ackedUpTo(); n != 3000 {
			t.Errorf("%d records are acknowledged", n)
		}
		b := r.backlog()
		if b.Full != spec.IsolationDropsOldest || b.Dropped == 0 || b.Dropped+b.Records != 3000 {
			t.Errorf("the backlog is %+v", b)
		}
		release()
		time.Sleep(time.Minute)
		got := w.slow.written()
		if !slices.IsSorted(got) || got[len(got)-1] != 3000 || len(got) < 3000-int(b.Dropped) || len(got) == 3000 {
			t.Errorf("the isolated destination got %d records", len(got))
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A full log with the policy dead-letter refuses new records.
func TestFullRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, release := full(t, spec.IsolationRefuses)
		w.dead.WindowSize = 0
		r := w.start()
		time.Sleep(time.Minute)
		if n := w.source.ackedUpTo(); n != 3000 {
			t.Errorf("%d records are acknowledged", n)
		}
		b, letters := r.backlog(), w.kept()
		if b.Full != spec.IsolationRefuses || b.Dropped != 0 || int(b.Records)+len(letters) != 3000 ||
			len(letters) < 1000 || !strings.Contains(letters[0].Err.Error(), "is full") {
			t.Errorf("%d dead letters, and the backlog is %+v", len(letters), b)
		}
		release()
		time.Sleep(time.Minute)
		if got := w.slow.written(); len(got) != 3000-len(letters) || !slices.IsSorted(got) {
			t.Errorf("the isolated destination got %d records", len(got))
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A log whose oldest record waits longer than the limit is full.
func TestAgeFillsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100)
		w.limits = &spec.Isolation{Bytes: 64 << 20, Age: "1h", Full: spec.IsolationRefuses}
		w.dead.WindowSize = 0
		w.slow.hold = make(chan struct{})
		r := w.start()
		time.Sleep(30 * time.Minute)
		w.source.raise(150)
		time.Sleep(29 * time.Minute)
		if letters := w.kept(); len(letters) != 0 {
			t.Errorf("%d records were refused within the hour", len(letters))
		}
		time.Sleep(32 * time.Minute)
		w.source.raise(200)
		time.Sleep(time.Second)
		if letters, b := w.kept(), r.backlog(); len(letters) != 50 || b.Records != 150 || b.Seconds < 3600 ||
			b.Full != spec.IsolationRefuses {
			t.Errorf("%d dead letters, and the backlog is %+v", len(letters), b)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A record that is too large for the log is refused, and the others pass.
func TestTooLargeRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.source.size = spec.LeastIsolationBytes
		w.limits = &spec.Isolation{Bytes: spec.LeastIsolationBytes}
		w.dead.WindowSize = 0
		r := w.start()
		time.Sleep(time.Minute)
		if letters := w.kept(); len(letters) != 2 || !strings.Contains(letters[0].Err.Error(), "raise bytes") {
			t.Errorf("the dead letters are %v", letters)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A destination that is no longer isolated gets the rest in the log first, then the other records directly, and the log
// is gone.
func TestRemovedIsolationDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 500)
		w.slow.hold = make(chan struct{})
		r := w.start()
		time.Sleep(time.Second)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		w.limits, w.source.total, w.slow.late = nil, 1000, 100*time.Millisecond
		r = w.start()
		time.Sleep(time.Second)
		if b := r.backlog(); b.State != spec.BacklogDraining || b.Records != 500 {
			t.Errorf("the backlog is %+v", b)
		}
		if n := w.source.ackedUpTo(); n != 500 {
			t.Errorf("%d records are acknowledged before the log is empty", n)
		}
		close(w.slow.hold)
		time.Sleep(time.Second)
		if got := w.slow.written(); !slices.Equal(got, upTo(1000)) {
			t.Errorf("the destination got %d records", len(got))
		}
		if n := w.source.ackedUpTo(); n != 1000 || w.logs.Has("p", "slow") || r.backlog().State != "" {
			t.Errorf("%d records are acknowledged, the log exists: %v", n, w.logs.Has("p", "slow"))
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// barrier is a Barrier whose syncs fail while err is set.
type barrier struct {
	mu    sync.Mutex
	err   error           // guarded by mu
	asked map[string]bool // guarded by mu: pipelines
}

func (b *barrier) Sync(pipelines []string, done func(pipelines []string, err error)) {
	b.mu.Lock()
	err := b.err
	for _, id := range pipelines {
		b.asked[id] = true
	}
	b.mu.Unlock()
	done(pipelines, err)
}

// The cursor is saved only after the writes of the destination are synced, apart from those of the pipeline. After a
// failed sync, the destination gets the records again.
func TestCursorWaitsForTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 50)
		b := &barrier{err: errors.New("input/output error"), asked: map[string]bool{}}
		w.barrier = b
		r := w.start()
		time.Sleep(500 * time.Millisecond)
		first := w.slow.written() // at least a batch, before the sync
		if len(first) == 0 || !slices.Equal(first, upTo(len(first))) {
			t.Errorf("the destination got %v", first)
		}
		if n, err := w.logs.Waiting("p", "slow"); n != 50 || err != nil {
			t.Errorf("%d records wait, error %v", n, err)
		}
		if e := r.backlog().Error; !strings.Contains(e, "input/output error") {
			t.Errorf("the backlog has the error %q", e)
		}
		b.mu.Lock()
		b.err = nil
		b.mu.Unlock()
		time.Sleep(30 * time.Second)
		if n, err := w.logs.Waiting("p", "slow"); n != 0 || err != nil {
			t.Errorf("%d records wait, error %v", n, err)
		}
		if got := w.slow.written(); !slices.Equal(got, append(first, upTo(50)...)) {
			t.Errorf("the destination got %v", got)
		}
		if len(b.asked) != 1 || b.asked["p"] {
			t.Errorf("what was synced: %v", b.asked)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// New limits take effect while the destination hangs, and neither its sibling nor its records notice.
func TestLimitsChangeWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 500)
		w.slow.hold = make(chan struct{})
		r := w.start()
		time.Sleep(time.Second)
		w.limits = &spec.Isolation{Bytes: 1 << 20}
		changed := w.spec()
		a, err := r.Amend(t.Context(), changed, changed)
		if err != nil {
			t.Fatal(err)
		}
		applied := make(chan error, 1)
		go func() { applied <- a.Apply(func() {}) }()
		w.source.raise(1000)
		time.Sleep(20 * time.Second)
		if err := <-applied; err != nil {
			t.Fatal(err)
		}
		if got := w.fast.written(); !slices.Equal(got, upTo(1000)) {
			t.Errorf("the sibling got %d records", len(got))
		}
		if b := r.backlog(); b.Limit != 1<<20 || b.Records != 1000 {
			t.Errorf("the backlog is %+v", b)
		}
		close(w.slow.hold)
		time.Sleep(time.Second)
		if got := w.slow.written(); !slices.Equal(got, upTo(1000)) {
			t.Errorf("the isolated destination got %d records", len(got))
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}
