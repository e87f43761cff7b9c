package engine

import "github.com/conduit-agent/conduit/spec"

// Committable is a source as the committer sees it.
type Committable struct {
	Checkpoint func() (spec.Checkpoint, bool)
	Saved      func(error)
}

type committableAdapter struct{ Committable }

func (a committableAdapter) checkpoint() (spec.Checkpoint, bool) { return a.Committable.Checkpoint() }
func (a committableAdapter) saved(err error)                     { a.Committable.Saved(err) }

// MarkDirty marks a source as having progress to save.
func (c *Committer) MarkDirty(s Committable, urgent bool) { c.markDirty(committableAdapter{s}, urgent) }

// Points returns how many connectors are observed or run.
func (t *Taps) Points() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.points)
}

// Connectors returns of how many connectors there are stats.
func (s *PipelineStats) Connectors() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sources) + len(s.destinations)
}
