package engine

import "time"

// Lag says how far a source is from its end of the pipeline. Sequences count the
// records of the current run.
type Lag struct {
	Read, Settled, Committed, Acked uint64
	OldestUnacked                   time.Duration // since the oldest record not yet acknowledged was read
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
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.tracker.Marks
	l := Lag{Read: m.Read, Settled: m.Low, Committed: m.Committed, Acked: m.Acked}
	if readAt, ok := s.tracker.Oldest(); ok {
		l.OldestUnacked = time.Since(readAt)
	}
	return l
}
