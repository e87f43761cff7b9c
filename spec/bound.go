package spec

import (
	"slices"

	"github.com/conduit-agent/conduit/spec/texts"
)

// Bound cuts error texts, which come from others, to texts.MaxError bytes. It does not modify the values that s points
// to.
func (s *State) Bound() {
	s.Error = texts.TruncateError(s.Error)
	if a := s.LastAttempt; a != nil && len(a.Error) > texts.MaxError {
		attempt := *a
		attempt.Error = texts.TruncateError(a.Error)
		s.LastAttempt = &attempt
	}
}

// Bound cuts the text of the error to texts.MaxError bytes.
func (c *ConnectorState) Bound() { c.Error = texts.TruncateError(c.Error) }

// Bound cuts the message to texts.MaxError bytes.
func (e *Event) Bound() { e.Message = texts.TruncateError(e.Message) }

// Bound cuts the texts of the problems, which quote the file, to texts.MaxError bytes. It changes a copy of the
// problems, since other copies of f share them.
func (f *FileState) Bound() {
	long := func(p Problem) bool { return max(len(p.Message), len(p.Path), len(p.Pipeline)) > texts.MaxError }
	if !slices.ContainsFunc(f.Problems, long) {
		return
	}
	f.Problems = slices.Clone(f.Problems)
	for i := range f.Problems {
		p := &f.Problems[i]
		p.Message, p.Path = texts.TruncateError(p.Message), texts.TruncateError(p.Path)
		p.Pipeline = texts.TruncateError(p.Pipeline)
	}
}
