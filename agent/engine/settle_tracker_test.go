package engine_test

import (
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
)

// tracker is a Tracker whose batches have numbers.
type tracker struct {
	engine.Tracker
	all       []*engine.Batch
	observers []*trackerObserver // of the batches
	awaiting  []*trackerObserver // of the marks
	over      int                // settled ranges that are acknowledged completely
}

// add adds a batch of records with the given positions; origins says which of them the processors kept, nil for all.
func (t *tracker) add(positions []record.Position, origins []int32, dests int) {
	records := make([]record.Record, len(positions))
	for i := range records {
		records[i].Position = positions[i]
	}
	b := t.Batch(record.NewBatch(records), dests)
	if b.Origins = origins; origins != nil {
		b.Records = record.NewBatch(make([]record.Record, len(origins)))
	}
	t.all = append(t.all, b)
	o := &trackerObserver{end: t.Read + uint64(len(positions))}
	t.observers = append(t.observers, o)
	b.Observers = append(b.Observers, o)
	t.Add(b)
}

// trackerObserver counts its notifications.
type trackerObserver struct {
	end                uint64 // number of the last record in its batch
	settled, committed int
}

func (o *trackerObserver) Settled()   { o.settled++ }
func (o *trackerObserver) Committed() { o.committed++ }

// check returns an error for a notification that is missing or repeated.
func (t *tracker) check() error {
	for _, o := range append(t.observers, t.awaiting...) {
		if s, c := o.settled > 0, o.committed > 0; s != (o.end <= t.Low) && o.settled >= 0 ||
			c != (o.end <= t.Committed) || o.settled > 1 || o.committed > 1 {
			return fmt.Errorf("the observer of a batch up to %d was notified %d and %d times, with %d settled and %d "+
				"committed", o.end, o.settled, o.committed, t.Low, t.Committed)
		}
	}
	return nil
}

// await registers an observer of a commit that may be far off, or done.
func (t *tracker) await(seq uint64) {
	o := &trackerObserver{end: seq, settled: -1}
	t.awaiting = append(t.awaiting, o)
	t.WhenCommitted(seq, o.Committed)
}

// settle settles the next n records of batch i at a destination.
func (t *tracker) settle(i, dest, n int) { t.Settle(t.all[i], dest, n, false) }

func (t *tracker) marks() (acked, committed, low, read uint64) {
	return t.Acked, t.Committed, t.Low, t.Read
}

// commit makes the low-water mark durable and returns its position.
func (t *tracker) commit() (record.Position, error) {
	p := t.Position(t.Low)
	return p, t.SetCommitted(t.Low)
}

// ack acknowledges committed records, some at a time.
func (t *tracker) ack() ([]record.Position, error) {
	p := t.Ackable(nil, 1024)
	return p, t.SetAcked(len(p), func(*engine.Range) { t.over++ })
}

// trackerModel is a naive model of the tracker: one flag per record and destination.
type trackerModel struct {
	settled [][]bool // per record read, per destination
	kept    []bool
}

func (m *trackerModel) low() (n uint64) {
	for i, dests := range m.settled {
		if m.kept[i] {
			for _, done := range dests {
				if !done {
					return n
				}
			}
		}
		n++
	}
	return n
}

func TestTrackerAgreesWithTheNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dests := rapid.IntRange(1, 3).Draw(t, "dests")
		w := &trackerWorld{T: t, lent: map[int][]record.Position{}, next: make([]int, dests)}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				w.read()
			case 1, 2:
				w.settleNext()
			case 3:
				w.commit()
			case 4:
				w.ack()
			case 5:
				w.tr.await(rapid.Uint64Range(0, w.tr.Read+3).Draw(t, "await"))
			}
			if err := w.tr.check(); err != nil {
				t.Fatal(err)
			}
			a, c, l, r := w.tr.marks()
			if l != w.m.low() || r != uint64(len(w.m.kept)) || a != uint64(w.acked) || a > c || c > l {
				t.Fatalf("acked %d committed %d low %d read %d; model: acked %d low %d read %d", a, c, l, r, w.acked,
					w.m.low(), len(w.m.kept))
			}
		}
		for number, positions := range w.lent {
			for _, p := range positions {
				if len(p) > 0 && string(p) != strconv.Itoa(number) {
					t.Fatalf("position %d became %q", number, p)
				}
			}
		}
	})
}

// trackerWorld is a tracker and its model.
type trackerWorld struct {
	*rapid.T
	tr      tracker
	m       trackerModel
	batches [][]int // settled records per batch and destination
	keptAt  [][]int // model index of each kept record, per batch
	acked   int
	lent    map[int][]record.Position // lent positions, by number; they must not change
	next    []int                     // current batch of each destination
}

// read adds a batch. Some records may be filtered.
func (w *trackerWorld) read() {
	n := rapid.IntRange(1, 5).Draw(w.T, "n")
	var origin []int32
	filter := rapid.Bool().Draw(w.T, "filter")
	if filter {
		origin = []int32{}
	}
	var positions []record.Position
	var indices []int
	for i := range n {
		positions = append(positions, record.Position(strconv.Itoa(len(w.m.kept)+1)))
		keep := !filter || rapid.Bool().Draw(w.T, "keep")
		if keep {
			indices = append(indices, len(w.m.kept))
			if filter {
				origin = append(origin, int32(i))
			}
		}
		w.m.kept = append(w.m.kept, keep)
		w.m.settled = append(w.m.settled, make([]bool, len(w.next)))
	}
	w.batches, w.keptAt = append(w.batches, make([]int, len(w.next))), append(w.keptAt, indices)
	w.tr.add(positions, origin, len(w.next))
}

// settleNext makes a destination settle some of its next records.
func (w *trackerWorld) settleNext() {
	d := rapid.IntRange(0, len(w.next)-1).Draw(w.T, "dest")
	for w.next[d] < len(w.batches) && w.batches[w.next[d]][d] == len(w.keptAt[w.next[d]]) {
		w.next[d]++
	}
	if w.next[d] == len(w.batches) {
		return
	}
	f := w.next[d]
	n := rapid.IntRange(1, len(w.keptAt[f])-w.batches[f][d]).Draw(w.T, "settle")
	for range n {
		w.m.settled[w.keptAt[f][w.batches[f][d]]][d] = true
		w.batches[f][d]++
	}
	w.tr.settle(f, d, n)
}

func (w *trackerWorld) commit() {
	_, committed, low, _ := w.tr.marks()
	p, err := w.tr.commit()
	if err != nil {
		w.Fatal(err)
	}
	if low > committed && string(p) != strconv.Itoa(int(low)) {
		w.Fatalf("position at %d is %q", low, p)
	}
	w.lent[int(low)] = append(w.lent[int(low)], p)
}

func (w *trackerWorld) ack() {
	positions, err := w.tr.ack()
	if err != nil {
		w.Fatal(err)
	}
	for _, p := range positions {
		if w.acked++; string(p) != strconv.Itoa(w.acked) {
			w.Fatalf("acked %q where %d was due", p, w.acked)
		}
		w.lent[w.acked] = append(w.lent[w.acked], p)
	}
}

func TestTrackerForgetsWhatIsAcked(t *testing.T) {
	var tr tracker
	for i := range 1000 {
		tr.add([]record.Position{record.Position(strconv.Itoa(i))}, nil, 1)
		tr.settle(i, 0, 1)
		if _, err := tr.commit(); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.ack(); err != nil {
			t.Fatal(err)
		}
		if at, outstanding := tr.Oldest(); outstanding || tr.Bytes() != 0 {
			t.Fatalf("keeps a batch of %v and %d bytes with nothing outstanding", at, tr.Bytes())
		}
	}
}

// The positions of a source that reads one record at a time are kept in few lists, and acknowledged in lists of
// bounded length.
func TestTrackerKeepsSettledRecordsTogether(t *testing.T) {
	var tr tracker
	const n = 10_000
	for i := range n {
		tr.add([]record.Position{record.Position(strconv.Itoa(i))}, nil, 1)
		tr.settle(i, 0, 1)
	}
	if _, err := tr.commit(); err != nil {
		t.Fatal(err)
	}
	for acked := 0; acked < n; {
		positions, err := tr.ack()
		if err != nil || len(positions) == 0 || len(positions) > 5000 {
			t.Fatalf("%d positions acknowledged at once, error %v", len(positions), err)
		}
		for _, p := range positions {
			if string(p) != strconv.Itoa(acked) {
				t.Fatalf("acked %q where %d was due", p, acked)
			}
			acked++
		}
	}
	if tr.over > n/200 {
		t.Errorf("%d records were kept in %d lists", n, tr.over)
	}
}
