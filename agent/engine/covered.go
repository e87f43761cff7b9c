package engine

import (
	"sync/atomic"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// completed notifies the observers of an emission that it is settled, before its inputs are released. It notifies them
// that the emission is committed once positions that cover the inputs are saved.
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

// covering returns, by source, the number of the last record from which an emission was made.
func (r *run) covering(f inFlight) map[*sourceRun]uint64 {
	marks := map[*sourceRun]uint64{}
	if mark(marks, f.Settles) {
		return marks
	}
	for _, s := range r.sources { // all records of the source have been read
		s.mu.Lock()
		marks[s] = s.tracker.Read
		s.mu.Unlock()
	}
	return marks
}

// mark raises the marks of sources to the numbers of the held records, or of the records from which the held emissions
// were made. It reports false when the marks are incomplete: of several emissions for the same records, only the last
// one names the records.
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
