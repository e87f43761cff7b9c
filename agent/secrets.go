package agent

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// secrets are the values of references, which nobody is to see: they are neither logged
// nor stored nor returned, and errors that quote them show the references. Its zero value
// knows none.
type secrets struct {
	mu    sync.Mutex
	forms map[string]string // what values look like in texts, and what stands for them; guarded by mu
}

// How long a value must be to count wherever it occurs, and to count where it is a word
// of its own. A shorter one, such as a rate, counts only between quotes: any text may
// happen to contain it.
const (
	longSecret  = 8
	shortSecret = 4
)

// add notes the value of a reference, or of a text with references in it. It is known as
// it is, quoted and escaped for URLs, and by each of its lines.
func (s *secrets) add(declared, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forms == nil {
		s.forms = map[string]string{}
	}
	for i, part := range append([]string{value}, strings.Split(value, "\n")...) {
		part = strings.TrimSpace(part)
		if part == "" || i > 0 && len(part) < longSecret {
			continue
		}
		quoted := strconv.Quote(part)
		for _, form := range []string{part, quoted[1 : len(quoted)-1], url.QueryEscape(part), url.PathEscape(part)} {
			if _, known := s.forms[form]; !known {
				s.forms[form] = declared
			}
		}
	}
}

// include adds what others knows.
func (s *secrets) include(others *secrets) {
	all := others.known()
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(all, s.forms)
	s.forms = all
}

// become forgets what only s knows.
func (s *secrets) become(others *secrets) {
	all := others.known()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forms = all
}

func (s *secrets) known() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]string{}
	maps.Copy(all, s.forms)
	return all
}

// cover returns text with what was declared in the place of values.
func (s *secrets) cover(text string) string {
	forms := s.in(text)
	if len(forms) == 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		f := slices.IndexFunc(forms, func(f form) bool { return strings.HasPrefix(text[i:], f.text) && stands(text, i, i+len(f.text)) })
		if f < 0 {
			b.WriteByte(text[i])
			i++
			continue
		}
		b.WriteString(forms[f].declared)
		i += len(forms[f].text)
	}
	return b.String()
}

type form struct{ text, declared string }

// in returns the forms that occur in text, the longest first.
func (s *secrets) in(text string) []form {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []form
	for value, declared := range s.forms {
		if strings.Contains(text, value) {
			all = append(all, form{value, declared})
		}
	}
	slices.SortFunc(all, func(a, b form) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text))
	})
	return all
}

// stands reports whether text[from:to] is likely to be a value rather than a part of
// something else.
func stands(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	after, _ := utf8.DecodeRuneInString(text[to:])
	first, _ := utf8.DecodeRuneInString(text[from:])
	last, _ := utf8.DecodeLastRuneInString(text[:to])
	switch n := to - from; {
	case n >= longSecret:
		return true
	case n >= shortSecret:
		return !(word(before) && word(first)) && !(word(last) && word(after))
	}
	return before == after && strings.ContainsRune("\"'`", before)
}

func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// coveredError is an error whose text does not show secrets.
type coveredError struct {
	error
	text string
}

// Error returns what may be told.
func (e *coveredError) Error() string { return e.text }

// Unwrap returns the error that knows more.
func (e *coveredError) Unwrap() error { return e.error }

// coverIn returns err with a text that does not show secrets.
func (s *secrets) coverIn(err error) error {
	if err == nil {
		return nil
	}
	text := s.cover(err.Error())
	if text == err.Error() {
		return err
	}
	return &coveredError{err, text}
}

// discreet is a handler that logs no secrets in attributes that are texts or errors.
type discreet struct {
	slog.Handler
	secrets *secrets
}

// Handle logs r without secrets. Messages are of those who wrote the code, or are meant
// to be logged.
func (d discreet) Handle(ctx context.Context, r slog.Record) error {
	covered := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool { covered.AddAttrs(d.attr(a)); return true })
	return d.Handler.Handle(ctx, covered)
}

// WithAttrs returns a handler that adds attrs, which hold no secrets.
func (d discreet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return discreet{d.Handler.WithAttrs(attrs), d.secrets}
}

// WithGroup returns a handler that begins a group.
func (d discreet) WithGroup(name string) slog.Handler {
	return discreet{d.Handler.WithGroup(name), d.secrets}
}

func (d discreet) attr(a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		return slog.Any(a.Key, d.secrets.coverIn(err))
	}
	if a.Value.Kind() == slog.KindString {
		return slog.String(a.Key, d.secrets.cover(a.Value.String()))
	}
	return a
}
