package spec

import (
	"slices"

	"github.com/conduit-agent/conduit/spec/brief"
)

// Bound cuts the texts of errors, which others write, to brief.MaxError bytes. What s points to is not changed.
func (s *State) Bound() {
	s.Error = brief.Error(s.Error)
	if a := s.LastAttempt; a != nil && len(a.Error) > brief.MaxError {
		attempt := *a
		attempt.Error = brief.Error(a.Error)
		s.LastAttempt = &attempt
	}
}

// Bound cuts the text of the error to brief.MaxError bytes.
func (c *ConnectorState) Bound() { c.Error = brief.Error(c.Error) }

// Bound cuts the message to brief.MaxError bytes.
func (e *Event) Bound() { e.Message = brief.Error(e.Message) }

// Bound cuts the texts of the problems, which quote the file, to brief.MaxError bytes. It changes a copy of the
// problems, since other copies of f share them.
func (f *FileState) Bound() {
	long := func(p Problem) bool { return max(len(p.Message), len(p.Path), len(p.Pipeline)) > brief.MaxError }
	if !slices.ContainsFunc(f.Problems, long) {
		return
	}
	f.Problems = slices.Clone(f.Problems)
	for i := range f.Problems {
		p := &f.Problems[i]
		p.Message, p.Path, p.Pipeline = brief.Error(p.Message), brief.Error(p.Path), brief.Error(p.Pipeline)
	}
}
