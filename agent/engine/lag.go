package engine

import (
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/progress"
)

// Lag says how far a source is from its end of the pipeline. Sequences count the
// records of the current run.
type Lag struct {
	Read, Settled, Committed, Acked uint64
	OldestUnacked                   time.Duration   // since the oldest record not yet acknowledged was read
	Behind                          progress.Report // what the source says of its system
	OpenSince                       time.Time       // when reading began
}

// Lags returns the lag of every source by qualified id, nothing while the pipeline does
// not run. It may be called at any time.
func (p *Pipeline) Lags() map[string]Lag {
	r := p.running.Load()
	if r == nil {
		return nil
	}
	lags := make(map[string]Lag, len(r.sources))
	for _, s := range r.sources {
		lags[s.id] = s.lag()
	}
	return lags
}

func (s *sourceRun) lag() Lag {
	behind := connector.ProgressOf(s.src) // not under mu: it may be any code
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.tracker.Marks
	l := Lag{Read: m.Read, Settled: m.Low, Committed: m.Committed, Acked: m.Acked, Behind: behind, OpenSince: s.openSince}
	if readAt, ok := s.tracker.Oldest(); ok {
		l.OldestUnacked = time.Since(readAt)
	}
	return l
}
