package engine

import (
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// tracker follows the records of one source from read to acknowledged. Records are
// counted, from 1, in the order read; every mark is the number of the last record that
// got there, and the marks never overtake each other:
//
//	acked ≤ committed ≤ low ≤ read
//
// It is not safe for concurrent use.
type tracker struct {
	flights []*flight // oldest first; a flight leaves when it is wholly acked
	lowAt   int       // index in flights of the one that holds record low+1

	read      uint64
	low       uint64 // settled by every destination without a gap
	committed uint64 // durable as the place to resume from
	acked     uint64 // told to the source
	bytes     int    // size of what is not wholly settled
}

// flight is one batch on its way from its source to every destination.
type flight struct {
	src       *sourceRun
	readAt    time.Time
	settledAt time.Time        // when every destination had all of it
	first     uint64           // records read before it
	n         int              // records read in it
	positions record.Positions // of the records read
	batch     *record.Batch    // what the destinations get, nil once all settled it
	origin    []int32          // index of the record read for each record of batch; nil: one to one
	settled   []int            // per destination, records of batch settled
	nacked    []int32          // indices of records read that a destination refused
	size      int
}

// add takes a batch just read into account. Where the processors kept nothing of it,
// it may be settled already; the results are those of settle.
func (t *tracker) add(f *flight) (advanced, refused int) {
	f.first = t.read
	t.read += uint64(f.n)
	t.bytes += f.size
	t.flights = append(t.flights, f)
	return t.advance()
}

// settle takes into account that destination dest settled the next n records of f,
// and returns how many records became settled for good and how many of those were refused.
func (t *tracker) settle(f *flight, dest, n int) (advanced, refused int) {
	f.settled[dest] += n
	if t.lowAt < len(t.flights) && t.flights[t.lowAt] == f {
		return t.advance()
	}
	return 0, 0
}

// advance moves the low-water mark as far as it goes.
func (t *tracker) advance() (advanced, refused int) {
	for t.lowAt < len(t.flights) {
		f := t.flights[t.lowAt]
		before := int(t.low - f.first)
		done := f.done()
		t.low = f.first + uint64(done)
		advanced += done - before
		refused += f.nackedBetween(before, done)
		if done < f.n {
			break
		}
		t.bytes -= f.size
		f.batch = nil
		t.lowAt++
	}
	return advanced, refused
}

// done returns how many of the records read in f are settled by every destination
// without a gap.
func (f *flight) done() int {
	kept := f.n
	if f.origin != nil {
		kept = len(f.origin)
	}
	done := kept
	for _, s := range f.settled {
		done = min(done, s)
	}
	switch {
	case done == kept:
		return f.n
	case f.origin != nil:
		return int(f.origin[done])
	}
	return done
}

// nackedBetween counts the refused records with an index in [from, to).
func (f *flight) nackedBetween(from, to int) (n int) {
	for _, i := range f.nacked {
		if int(i) >= from && int(i) < to {
			n++
		}
	}
	return n
}

// source returns the index of the record read that record i of the batch came from.
func (f *flight) source(i int) int {
	if f.origin != nil {
		return int(f.origin[i])
	}
	return i
}

// position returns the position of record seq, which must lie in (acked, read].
func (t *tracker) position(seq uint64) record.Position {
	for i := min(t.lowAt, len(t.flights)-1); i >= 0; i-- {
		if f := t.flights[i]; f.first < seq {
			return f.positions.At(int(seq - f.first - 1))
		}
	}
	return nil
}

// setCommitted records that everything up to seq is durable.
func (t *tracker) setCommitted(seq uint64) error {
	if seq < t.committed || seq > t.low {
		return violation("record %d committed, but %d were before and %d are settled", seq, t.committed, t.low)
	}
	t.committed = seq
	return nil
}

// ackable appends to dst the positions that are durable and not yet acked.
func (t *tracker) ackable(dst []record.Position) []record.Position {
	seq := t.acked
	for _, f := range t.flights {
		for ; seq < t.committed && seq < f.first+uint64(f.n); seq++ {
			dst = append(dst, f.positions.At(int(seq-f.first)))
		}
	}
	return dst
}

// setAcked records that the source was told of n more records. With each flight that is
// thereby over, it calls over.
func (t *tracker) setAcked(n int, over func(*flight)) error {
	if t.acked+uint64(n) > t.committed {
		return violation("record %d acked, but only %d are committed", t.acked+uint64(n), t.committed)
	}
	t.acked += uint64(n)
	gone := 0
	for gone < t.lowAt && t.flights[gone].first+uint64(t.flights[gone].n) <= t.acked {
		over(t.flights[gone])
		t.flights[gone] = nil
		gone++
	}
	t.flights = t.flights[gone:]
	t.lowAt -= gone
	return nil
}

// violation reports a broken invariant of the engine. The pipeline stops: going on
// could lose records.
func violation(format string, args ...any) error {
	return permanent(fmt.Errorf("invariant violated: "+format, args...))
}
