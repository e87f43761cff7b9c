package engine

import (
	"slices"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Returning is a record that stopped an earlier run. Its source delivers it again.
type Returning struct {
	SourceID string // qualified
	Position record.Position
	// Settled is called when a committed position covers the record. It must not block.
	Settled func()
}

// maxReturning is the number of records of a source, from the start of a run, among which returning ones are sought.
const maxReturning = 1 << 20

// expectReturning tells the sources which records may return.
func (r *run) expectReturning() {
	if r.Returning == nil {
		return
	}
	all, err := r.Returning(r.ctx)
	if err != nil {
		r.Log.Warn("cannot find the dead letters of records that return; they stay when the records are settled", "err",
			r.redacted(err))
	}
	for _, one := range all {
		i := slices.IndexFunc(r.sources, func(s *sourceRun) bool { return s.id == one.SourceID })
		if i < 0 {
			continue
		}
		s := r.sources[i]
		if s.returning == nil {
			s.returning = map[string][]func(){}
		}
		s.returning[string(one.Position)] = append(s.returning[string(one.Position)], one.Settled)
	}
}

// recognize finds the returning records of b, which the tracker gets next. The caller holds mu.
func (s *sourceRun) recognize(b *Batch) {
	if s.tracker.Read >= maxReturning {
		s.returning = nil
	}
	for i := 0; i < b.n && len(s.returning) > 0; i++ {
		position := string(b.position(i))
		for _, settled := range s.returning[position] {
			s.tracker.WhenCommitted(s.tracker.Read+uint64(i)+1, settled)
		}
		delete(s.returning, position)
	}
}
