package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/progress"
)

// Lags returns the lag of every source by qualified id, nothing while the pipeline does not run. It may be called at
// any time.
func (p *Pipeline) Lags() map[string]measure.Lag {
	r := p.running.Load()
	if r == nil {
		return nil
	}
	lags := make(map[string]measure.Lag, len(r.sources))
	for _, s := range r.sources {
		lags[s.id] = s.lag()
	}
	return lags
}

func (s *sourceRun) lag() measure.Lag {
	behind := s.reported() // not under mu: it may run arbitrary code
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.tracker.Marks
	l := measure.Lag{Read: m.Read, Settled: m.Low, Committed: m.Committed, Acked: m.Acked, Behind: behind}
	if since := s.opened.Load(); since != nil {
		l.OpenSince = *since
	}
	if readAt, ok := s.tracker.Oldest(); ok {
		l.OldestUnacked = time.Since(readAt)
	}
	return l
}

// reported returns the progress that the source reports, with secrets redacted from its texts. A source reports none
// before it is open.
func (s *sourceRun) reported() progress.Report {
	if s.opened.Load() == nil {
		return progress.Report{}
	}
	r := connector.ProgressOf(s.src)
	for _, text := range []*string{&r.Warning, &r.Unfinished, &r.Nothing} {
		if *text != "" {
			*text = s.run.redacted(errors.New(*text)).Error()
		}
	}
	for i, note := range r.Notes {
		if i == 0 {
			r.Notes = slices.Clone(r.Notes) // the source may keep the others
		}
		r.Notes[i] = s.run.redacted(errors.New(note)).Error()
	}
	return r
}
