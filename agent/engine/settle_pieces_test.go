package engine_test

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
)

// piecesModel is a naive model of the tracker with processors: how many pieces of each record read are on their way to
// a destination, or held.
type piecesModel struct {
	open []int // per record read
	low  int
}

func (m *piecesModel) check(t *rapid.T, tr *engine.Tracker) {
	for m.low < len(m.open) && m.open[m.low] == 0 {
		m.low++
	}
	if tr.Low != uint64(m.low) || tr.Read != uint64(len(m.open)) {
		t.Fatalf("low %d read %d; model: low %d read %d", tr.Low, tr.Read, m.low, len(m.open))
	}
}

// pieceWay holds the records of a batch that one destination has not got or settled yet.
type pieceWay struct {
	batch    *engine.Batch
	dest     int
	pieces   []int // indices in the model of the unsettled records, in order; -1 for those of an emission
	prepared bool  // the processors of the destination have seen it
	done     func()
}

// heldPiece is a piece that a processor holds.
type heldPiece struct {
	batch *engine.Batch
	input int
	model int
}

// TestTrackerFollowsPieces lets processors before the fan-out and before each destination filter, split and hold
// records at random, and release held records in emissions.
func TestTrackerFollowsPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &piecesWorld{T: t, ways: make([][]*pieceWay, rapid.IntRange(1, 3).Draw(t, "dests"))}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				w.read()
			case 1:
				w.write()
			default:
				if k := rapid.IntRange(0, min(3, len(w.held))).Draw(t, "emit"); k > 0 {
					w.ways, w.held = emitPieces(t, &w.tr, &w.m, w.ways, w.held, k), w.held[k:]
				}
			}
			w.m.check(t, &w.tr)
		}
	})
}

// piecesWorld is a tracker, its model, and the records on the way to each destination.
type piecesWorld struct {
	*rapid.T
	tr   engine.Tracker
	m    piecesModel
	ways [][]*pieceWay // each destination settles in order
	held []heldPiece
}

// fate is the number of pieces of a record, or -1 when it is held.
func (w *piecesWorld) fate() int {
	return rapid.SampledFrom([]int{1, 1, 1, 0, 2, 3, -1}).Draw(w.T, "pieces")
}

// read adds a batch.
func (w *piecesWorld) read() {
	n := rapid.IntRange(1, 4).Draw(w.T, "n")
	first, dests := len(w.m.open), len(w.ways)
	b := w.tr.Batch(numbered(first, n), dests)
	var origins []int32
	w.m.open = append(w.m.open, make([]int, n)...)
	for i := range n {
		f := w.fate()
		if f == -1 {
			b.Hold(i)
			w.held = append(w.held, heldPiece{b, i, first + i})
			w.m.open[first+i]++
		}
		for range max(f, 0) {
			origins = append(origins, int32(i))
			w.m.open[first+i] += dests
		}
	}
	b.Records, b.Origins = numbered(0, len(origins)), append([]int32{}, origins...)
	if len(origins) > 0 {
		for d := range w.ways {
			to := &pieceWay{batch: b, dest: d}
			for _, o := range origins {
				to.pieces = append(to.pieces, first+int(o))
			}
			w.ways[d] = append(w.ways[d], to)
		}
	}
	w.tr.Add(b)
}

// write makes a destination process and settle some of the next records.
func (w *piecesWorld) write() {
	d := rapid.IntRange(0, len(w.ways)-1).Draw(w.T, "dest")
	if len(w.ways[d]) == 0 {
		return
	}
	next := w.ways[d][0]
	if !next.prepared && next.done == nil && rapid.Bool().Draw(w.T, "process") {
		w.held = append(w.held, processPieces(w.T, &w.tr, &w.m, next, w.fate)...)
	}
	next.prepared = true
	settlePieces(w.T, &w.tr, &w.m, next)
	if len(next.pieces) == 0 {
		w.ways[d] = w.ways[d][1:]
		if next.done != nil {
			next.done()
		}
	}
}

func numbered(first, n int) *record.Batch {
	records := make([]record.Record, n)
	for i := range records {
		records[i].Position = record.Position(strconv.Itoa(first + i + 1))
	}
	return record.NewBatch(records)
}

// processPieces lets the processors of a destination decide about its records of a batch.
func processPieces(t *rapid.T, tr *engine.Tracker, m *piecesModel, w *pieceWay, fate func() int) (held []heldPiece) {
	var pieces []int
	var origins []int32
	for i, model := range w.pieces {
		input := w.batch.Origin(w.dest, i)
		m.open[model]--
		switch f := fate(); f {
		case -1:
			w.batch.Hold(input)
			held = append(held, heldPiece{w.batch, input, model})
			m.open[model]++
		default:
			for range f {
				pieces, origins = append(pieces, model), append(origins, int32(input))
				m.open[model]++
			}
		}
	}
	w.pieces = pieces
	tr.Branch(w.batch, w.dest, origins)
	return held
}

func settlePieces(t *rapid.T, tr *engine.Tracker, m *piecesModel, w *pieceWay) {
	if len(w.pieces) == 0 {
		return
	}
	n := rapid.IntRange(1, len(w.pieces)).Draw(t, "settle")
	for _, model := range w.pieces[:n] {
		if model >= 0 {
			m.open[model]--
		}
	}
	w.pieces = w.pieces[n:]
	c := tr.Settle(w.batch, w.dest, n, rapid.Bool().Draw(t, "refused"))
	if !c.Complete {
		return
	}
	if w.done == nil {
		t.Fatal("a batch that was read is complete as an emission")
	}
}

// emitPieces emits the first k held pieces as one record, for one destination or all.
func emitPieces(
	t *rapid.T, tr *engine.Tracker, m *piecesModel, ways [][]*pieceWay, held []heldPiece, k int,
) [][]*pieceWay {
	settles := slices.Clone(held[:k])
	release := func() {
		for _, h := range settles {
			m.open[h.model]--
			tr.Release(h.batch, h.input)
		}
	}
	only := rapid.IntRange(-1, len(ways)-1).Draw(t, "only")
	takes := func(d int) bool { return only < 0 || d == only }
	if rapid.Bool().Draw(t, "filtered") {
		e := tr.Emission(numbered(0, 0), len(ways), takes)
		if !tr.Check(e).Complete || tr.Check(e).Complete {
			t.Fatal("an emission of nothing is not complete, or twice")
		}
		release()
		return ways
	}
	e := tr.Emission(numbered(0, 1), len(ways), takes)
	left := 0
	for d := range ways {
		if takes(d) {
			left++
			ways[d] = append(ways[d], &pieceWay{batch: e, dest: d, pieces: []int{-1}, done: func() {
				if left--; left == 0 {
					release()
				}
			}})
		}
	}
	return ways
}
