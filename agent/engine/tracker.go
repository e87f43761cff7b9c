package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Tracker follows the records of a source from read to acknowledged. Records are counted, from 1, in the order read.
// Each mark is the number of the last record in that state, and no mark overtakes the one to its right:
//
//	acked ≤ committed ≤ low ≤ read
//
// The zero Tracker is ready to use. It is not safe for concurrent use.
type Tracker struct {
	Marks

	inFlight []*Batch      // not completely settled, oldest first
	settled  []Range       // settled and not completely acked, oldest first
	awaited  []settledMark // records that wait for their commit, ascending
	idle     []*Batch      // batches to reuse
	bytes    int           // memory of the outstanding batches
	emitted  int           // emissions with unsettled records or inputs
}

// Marks are the numbers of the last record of a source in each state.
type Marks struct {
	Read      uint64
	Low       uint64 // the low-water mark: settled by every destination without a gap
	Committed uint64 // durable as the place to resume from
	Acked     uint64 // acknowledged to the source
}

// settledMark is the number of a record with the action to take once it is committed.
type settledMark struct {
	sequence uint64
	do       func()
}

// maxIdle is the maximum number of batches kept for reuse.
const maxIdle = 256

// Batch returns an in-flight batch of b for this number of destinations.
func (t *Tracker) Batch(b *record.Batch, destinations int) *Batch {
	var f *Batch
	if last := len(t.idle) - 1; last >= 0 {
		f, t.idle = t.idle[last], t.idle[:last]
		clear(f.branches)
	} else {
		f = &Batch{branches: make([]branch, destinations)}
	}
	f.n, f.Records, f.size = b.Len(), b, b.Memory()
	if l, ok := b.Lines(); ok {
		f.lines = l
	} else {
		f.positions = record.AppendPositions(f.positions, b)
	}
	return f
}

// Emission returns a batch of records that a processor emitted for some of the destinations. It counts as outstanding
// at once, and has no positions.
func (t *Tracker) Emission(b *record.Batch, destinations int, takes func(destination int) bool) *Batch {
	f := &Batch{n: b.Len(), Records: b, size: b.Memory(), emitted: true, branches: make([]branch, destinations)}
	for d := range f.branches {
		f.branches[d].own = !takes(d)
	}
	t.bytes += f.size
	t.emitted++
	return f
}

// Change is the effect of an event on the marks.
type Change struct {
	Advanced int  // number of records by which the low-water mark advanced
	Refused  int  // number of refused records among Advanced
	Complete bool // an emission is settled, and Released follows; the caller notifies its Observers
}

// Add adds a batch that was just read. If the processors left no records, it may be settled already.
func (t *Tracker) Add(b *Batch) Change {
	if extra := len(b.Origins) - b.n; extra > 0 {
		b.size += b.Records.Memory() // pieces in addition to their inputs
	}
	b.first = t.Read
	t.Read += uint64(b.n)
	t.bytes += b.size
	t.inFlight = append(t.inFlight, b)
	return t.advance()
}

// Settle records that a destination settled its next n records of b; refused marks their inputs as refused.
func (t *Tracker) Settle(b *Batch, destination, n int, refused bool) Change {
	if refused {
		for i := range n {
			b.Refuse(b.Origin(destination, b.branches[destination].settled+i))
		}
	}
	b.branches[destination].settled += n
	return t.changed(b)
}

// Branch records the output of the processors of a destination for b, before the destination gets any record: the
// index of the input of each record.
func (t *Tracker) Branch(b *Batch, destination int, origins []int32) Change {
	b.branches[destination] = branch{own: true, origins: origins, total: len(origins)}
	return t.changed(b)
}

// Release records that a held piece of an input is settled.
func (t *Tracker) Release(b *Batch, input int) Change {
	b.held[input]--
	return t.changed(b)
}

// Released records that the inputs of a complete emission were released.
func (t *Tracker) Released() { t.emitted-- }

// Check returns the change for an emission whose records the processors all dropped.
func (t *Tracker) Check(b *Batch) Change { return t.changed(b) }

func (t *Tracker) changed(b *Batch) Change {
	switch {
	case b.emitted:
		if b.complete || b.done() < b.n {
			return Change{}
		}
		b.complete = true
		t.bytes -= b.size
		return Change{Complete: true}
	case len(t.inFlight) > 0 && t.inFlight[0] == b:
		return t.advance()
	}
	return Change{}
}

// advance moves the low-water mark as far as possible.
func (t *Tracker) advance() (c Change) {
	for len(t.inFlight) > 0 {
		b := t.inFlight[0]
		before := int(t.Low - b.first)
		done := b.done()
		t.Low = b.first + uint64(done)
		c.Advanced += done - before
		c.Refused += b.refusedBetween(before, done)
		if done < b.n {
			break
		}
		t.bytes -= b.size
		t.inFlight = t.inFlight[1:]
		if observers := b.Observers; observers != nil {
			for _, o := range observers {
				o.Settled()
			}
			t.WhenCommitted(t.Low, func() {
				for _, o := range observers {
					o.Committed()
				}
			})
		}
		t.retire(b, before == 0)
	}
	return c
}

// retire keeps the positions of b, which is completely settled, and b itself for reuse. Unless b was settled at once,
// its positions may be in use by the goroutines that save and acknowledge. For lines it keeps only the last position,
// because their source ignores acknowledgements.
func (t *Tracker) retire(b *Batch, atOnce bool) {
	last := len(t.settled) - 1
	if b.lines != nil {
		t.settled = append(t.settled, Range{ReadAt: b.ReadAt, SettledAt: b.SettledAt, first: b.first, N: b.n,
			last: b.lines.Position(b.n - 1)})
		b.Records.Free()
	} else if atOnce && last >= 0 && t.settled[last].takes(b) {
		r := &t.settled[last]
		r.N += b.n
		r.positions = r.positions.Append(b.positions)
		b.positions = b.positions.Empty()
	} else {
		t.settled = append(t.settled, Range{ReadAt: b.ReadAt, SettledAt: b.SettledAt, first: b.first, N: b.n,
			positions: b.positions})
		b.positions = record.Positions{}
	}
	b.Records, b.original, b.lines, b.low, b.refused = nil, nil, nil, 0, b.refused[:0]
	if b.Origins != nil || b.Observers != nil || b.held != nil { // there were processors, or a trace
		b.Origins, b.Observers, b.held, b.trace = nil, nil, nil, nil
	}
	if len(t.idle) < maxIdle {
		t.idle = append(t.idle, b)
	}
}

// WaitsForHeld reports whether all outstanding records wait for records that processors hold.
func (t *Tracker) WaitsForHeld() bool {
	for _, b := range t.inFlight {
		for d := range b.branches {
			if total, _ := b.branch(d); b.branches[d].settled < total {
				return false
			}
		}
	}
	return len(t.inFlight) > 0 && t.emitted == 0
}

// Bytes returns the memory of the outstanding batches in bytes.
func (t *Tracker) Bytes() int { return t.bytes }

// Position returns the position of record seq, which must lie in (Acked, Low].
func (t *Tracker) Position(seq uint64) record.Position {
	if len(t.inFlight) > 0 && t.inFlight[0].first < seq {
		b := t.inFlight[0]
		return b.position(int(seq - b.first - 1))
	}
	for i := len(t.settled) - 1; i >= 0; i-- {
		if r := &t.settled[i]; r.first < seq {
			return r.position(int(seq - r.first - 1))
		}
	}
	return nil
}

// SetCommitted records that everything up to seq is durable. An error is a broken invariant: continuing could lose
// records.
func (t *Tracker) SetCommitted(seq uint64) error {
	if seq < t.Committed || seq > t.Low {
		return fmt.Errorf("invariant violated: record %d committed, but %d were before and %d are settled", seq,
			t.Committed, t.Low)
	}
	t.Committed = seq
	n := 0
	for n < len(t.awaited) && t.awaited[n].sequence <= seq {
		t.awaited[n].do()
		n++
	}
	clear(t.awaited[:n])
	if t.awaited = t.awaited[n:]; len(t.awaited) == 0 {
		t.awaited = nil
	}
	return nil
}

// WhenCommitted calls do once everything up to seq is committed, at once if it already is. do must not call the
// Tracker.
func (t *Tracker) WhenCommitted(seq uint64, do func()) {
	if seq <= t.Committed {
		do()
		return
	}
	i := len(t.awaited)
	for i > 0 && t.awaited[i-1].sequence > seq {
		i--
	}
	t.awaited = slices.Insert(t.awaited, i, settledMark{seq, do})
}

// Ackable appends to dst the first positions that are durable and not yet acked. It appends no more than most.
func (t *Tracker) Ackable(dst []record.Position, most uint64) []record.Position {
	seq, end := t.Acked, min(t.Committed, t.Acked+most)
	for i := range t.settled {
		r := &t.settled[i]
		for ; seq < end && seq < r.first+uint64(r.N); seq++ {
			dst = append(dst, r.position(int(seq-r.first)))
		}
	}
	for ; seq < end; seq++ { // the others belong to a batch that is partly settled
		b := t.inFlight[0]
		dst = append(dst, b.position(int(seq-b.first)))
	}
	return dst
}

// SetAcked records that n more records were acknowledged to the source. It calls over for each settled range that is
// then completely acknowledged. An error is a broken invariant.
func (t *Tracker) SetAcked(n int, over func(*Range)) error {
	if t.Acked+uint64(n) > t.Committed {
		return fmt.Errorf("invariant violated: record %d acked, but only %d are committed", t.Acked+uint64(n),
			t.Committed)
	}
	t.Acked += uint64(n)
	gone := 0
	for gone < len(t.settled) && t.settled[gone].first+uint64(t.settled[gone].N) <= t.Acked {
		over(&t.settled[gone])
		t.settled[gone] = Range{}
		gone++
	}
	t.settled = t.settled[gone:]
	return nil
}

// Oldest returns when the oldest record not yet acked was read; ok is false when there
// is none.
func (t *Tracker) Oldest() (at time.Time, ok bool) {
	switch {
	case len(t.settled) > 0:
		return t.settled[0].ReadAt, true
	case len(t.inFlight) > 0:
		return t.inFlight[0].ReadAt, true
	}
	return time.Time{}, false
}
