package engine

import (
	"sync/atomic"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// completed notifies the observers of an emission that all of it is settled, before what it was made of is released,
// and notifies them that it is committed once the positions are that cover what it was made of.
func (r *run) completed(f inFlight) {
	if len(f.Observers) == 0 {
		return
	}
	marks := r.covering(f)
	for _, o := range f.Observers {
		o.Settled()
	}
	left := new(atomic.Int64)
	left.Store(int64(len(marks)))
	for s, sequence := range marks {
		s.mu.Lock()
		s.tracker.WhenCommitted(sequence, func() {
			if left.Add(-1) > 0 {
				return
			}
			for _, o := range f.Observers {
				o.Committed()
			}
		})
		s.mu.Unlock()
	}
}

// covering returns, by source, the number of the last record that an emission was made of.
func (r *run) covering(f inFlight) map[*sourceRun]uint64 {
	marks := map[*sourceRun]uint64{}
	if mark(marks, f.Settles) {
		return marks
	}
	for _, s := range r.sources { // all of them have been read
		s.mu.Lock()
		marks[s] = s.tracker.Read
		s.mu.Unlock()
	}
	return marks
}

// mark raises the marks of sources to the numbers of the records that were held, or of which the emissions were made
// that were. It reports false when that does not say all: of an emission that others follow for the same records, only
// the last one names them.
func mark(marks map[*sourceRun]uint64, held []sdk.Held) (all bool) {
	for _, h := range held {
		t := h.Batch.(*token)
		if !t.Emitted() {
			marks[t.src()] = max(marks[t.src()], t.Sequence(t.input(h.Index)))
		} else if !mark(marks, t.Settles) {
			return false
		}
	}
	return len(held) > 0
}
