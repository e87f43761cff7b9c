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
	flying  []*flight // not wholly settled, oldest first
	settled []stretch // settled and not wholly acked, oldest first
	idle    []*flight // to be used again

	read      uint64
	low       uint64 // settled by every destination without a gap
	committed uint64 // durable as the place to resume from
	acked     uint64 // told to the source
	bytes     int    // memory of what is not wholly settled
}

// flight is one batch on its way from its source to every destination.
type flight struct {
	src       *sourceRun
	readAt    time.Time
	settledAt time.Time        // when every destination had all of it
	first     uint64           // records read before it
	n         int              // records read in it
	positions record.Positions // of the records read
	batch     *record.Batch    // what the destinations get
	origin    []int32          // index of the record read for each record of batch; nil: one to one
	settled   []int            // per destination, records of batch settled
	nacked    []int32          // indices of records read that a destination refused
	size      int              // memory that batch takes
}

// stretch is one batch or several small ones that are settled. Of their records only the
// positions are kept.
type stretch struct {
	readAt    time.Time // of the first batch
	settledAt time.Time // of the first batch
	first     uint64
	n         int
	positions record.Positions
}

const (
	// A stretch takes in batches that settle soon after each other, while it has few
	// records: a source that reads one at a time would otherwise leave much behind each.
	stretchRecords = 256
	stretchTime    = time.Millisecond
	// maxIdle is how many flights are kept for use.
	maxIdle = 256
)

// flight returns a flight of b for so many destinations.
func (t *tracker) flight(b *record.Batch, dests int) *flight {
	var f *flight
	if last := len(t.idle) - 1; last >= 0 {
		f, t.idle = t.idle[last], t.idle[:last]
		clear(f.settled)
	} else {
		f = &flight{settled: make([]int, dests)}
	}
	f.n, f.batch, f.size = b.Len(), b, b.Memory()
	f.positions = record.AppendPositions(f.positions, b)
	return f
}

// add takes a batch just read into account. Where the processors kept nothing of it,
// it may be settled already; the results are those of settle.
func (t *tracker) add(f *flight) (advanced, refused int) {
	f.first = t.read
	t.read += uint64(f.n)
	t.bytes += f.size
	t.flying = append(t.flying, f)
	return t.advance()
}

// settle takes into account that destination dest settled the next n records of f,
// and returns how many records became settled for good and how many of those were refused.
func (t *tracker) settle(f *flight, dest, n int) (advanced, refused int) {
	f.settled[dest] += n
	if len(t.flying) > 0 && t.flying[0] == f {
		return t.advance()
	}
	return 0, 0
}

// advance moves the low-water mark as far as it goes.
func (t *tracker) advance() (advanced, refused int) {
	for len(t.flying) > 0 {
		f := t.flying[0]
		before := int(t.low - f.first)
		done := f.done()
		t.low = f.first + uint64(done)
		advanced += done - before
		refused += f.nackedBetween(before, done)
		if done < f.n {
			break
		}
		t.bytes -= f.size
		t.flying = t.flying[1:]
		t.land(f, before == 0)
	}
	return advanced, refused
}

// land keeps the positions of f, which is wholly settled, and f itself for use. Unless
// it was settled at once, its positions may be in use by those who save and acknowledge.
func (t *tracker) land(f *flight, atOnce bool) {
	last := len(t.settled) - 1
	if atOnce && last >= 0 && t.settled[last].takes(f) {
		s := &t.settled[last]
		s.n += f.n
		s.positions = s.positions.Append(f.positions)
		f.positions = f.positions.Empty()
	} else {
		t.settled = append(t.settled, stretch{readAt: f.readAt, settledAt: f.settledAt, first: f.first, n: f.n, positions: f.positions})
		f.positions = record.Positions{}
	}
	f.batch, f.origin, f.nacked = nil, nil, f.nacked[:0]
	if len(t.idle) < maxIdle {
		t.idle = append(t.idle, f)
	}
}

// takes reports whether the records of f, which come next, may join s.
func (s *stretch) takes(f *flight) bool {
	return s.n+f.n <= stretchRecords && f.settledAt.Sub(s.settledAt) < stretchTime
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

// position returns the position of record seq, which must lie in (acked, low].
func (t *tracker) position(seq uint64) record.Position {
	if len(t.flying) > 0 && t.flying[0].first < seq {
		f := t.flying[0]
		return f.positions.At(int(seq - f.first - 1))
	}
	for i := len(t.settled) - 1; i >= 0; i-- {
		if s := &t.settled[i]; s.first < seq {
			return s.positions.At(int(seq - s.first - 1))
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

// ackable appends to dst the first positions that are durable and not yet acked, most at
// a time.
func (t *tracker) ackable(dst []record.Position, most uint64) []record.Position {
	seq, end := t.acked, min(t.committed, t.acked+most)
	for i := range t.settled {
		s := &t.settled[i]
		for ; seq < end && seq < s.first+uint64(s.n); seq++ {
			dst = append(dst, s.positions.At(int(seq-s.first)))
		}
	}
	for ; seq < end; seq++ { // the others are of a batch that is settled in part
		f := t.flying[0]
		dst = append(dst, f.positions.At(int(seq-f.first)))
	}
	return dst
}

// setAcked records that the source was told of n more records. With each stretch that is
// thereby over, it calls over.
func (t *tracker) setAcked(n int, over func(*stretch)) error {
	if t.acked+uint64(n) > t.committed {
		return violation("record %d acked, but only %d are committed", t.acked+uint64(n), t.committed)
	}
	t.acked += uint64(n)
	gone := 0
	for gone < len(t.settled) && t.settled[gone].first+uint64(t.settled[gone].n) <= t.acked {
		over(&t.settled[gone])
		t.settled[gone] = stretch{}
		gone++
	}
	t.settled = t.settled[gone:]
	return nil
}

// oldest returns when the oldest record not yet acked was read; ok is false when there
// is none.
func (t *tracker) oldest() (at time.Time, ok bool) {
	switch {
	case len(t.settled) > 0:
		return t.settled[0].readAt, true
	case len(t.flying) > 0:
		return t.flying[0].readAt, true
	}
	return time.Time{}, false
}

// violation reports a broken invariant of the engine. The pipeline stops: going on
// could lose records.
func violation(format string, args ...any) error {
	return permanent(fmt.Errorf("invariant violated: "+format, args...))
}
