// Package redact removes secret values from texts, errors and logs.
package redact

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/spec"
)

// Redactor replaces secret values by the references that stand for them. It may be used
// concurrently. The zero Redactor knows no values.
type Redactor struct {
	mu     sync.Mutex
	values map[string]string // reference by value, for every form of a value in texts; guarded by mu
}

// A value of at least longValue bytes is replaced wherever it occurs, and a value of at least shortValue bytes where
// it is a separate word. A shorter value, such as a rate, is replaced only between quotes: any text may contain it by
// chance.
const (
	longValue  = 8
	shortValue = 4
)

// Add makes r replace value by reference, in every form in texts, together with each line and each piece into which
// URL parsers cut it.
func (r *Redactor) Add(reference, value string) {
	r.add(reference, value)
	for _, s := range secretsIn(reference, value) {
		r.add(reference, s)
		r.addPieces(reference, s)
	}
}

func (r *Redactor) add(reference, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil {
		r.values = map[string]string{}
	}
	for i, part := range append([]string{value}, strings.Split(value, "\n")...) {
		part = strings.TrimSpace(part)
		if part == "" || i > 0 && len(part) < longValue {
			continue
		}
		for _, form := range forms(part) {
			if _, known := r.values[form]; !known {
				r.values[form] = reference
			}
		}
	}
}

// AddSettings makes r replace the secrets in settings without references by ***, unless they are known by a reference.
func (r *Redactor) AddSettings(settings map[string]string) {
	for name, value := range settings {
		parts := spec.SecretParts(name, value)
		for i, part := range parts {
			r.add(spec.Redacted, part)
			if i == 0 && len(parts) > 1 {
				continue // the text around the embedded secret is no secret
			}
			r.Add(spec.Redacted, part)
			if plain, err := url.PathUnescape(part); err == nil && plain != part {
				r.Add(spec.Redacted, plain)
			}
		}
	}
}

// Set makes r know the values of the others, and nothing else. The first one that knows a value determines the
// reference.
func (r *Redactor) Set(others ...*Redactor) {
	all := map[string]string{}
	for _, o := range slices.Backward(others) {
		o.copyTo(all)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values = all
}

func (r *Redactor) copyTo(values map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(values, r.values)
}

// Len returns the number of values that r knows, counting every form.
func (r *Redactor) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.values)
}

// maxEscapes is the maximum number of decodings of a text that was escaped several times, such as an error with JSON
// in a log.
const maxEscapes = 4

// Text returns text with values replaced by their references, including escaped values. Where several values match, it
// replaces the longest.
func (r *Redactor) Text(text string) string {
	if r.Len() == 0 {
		return text
	}
	found := r.cutOff(r.found(nil, text, nil), text, nil)
	for _, e := range escapes {
		decoded, at := text, []int(nil)
		for range maxEscapes {
			if strings.IndexByte(decoded, e.mark) < 0 {
				break
			}
			decoded, at = e.decode(decoded, at)
			found = r.cutOff(r.found(found, decoded, at), decoded, at)
		}
	}
	if len(found) == 0 {
		return text
	}
	sort.Slice(found, func(i, j int) bool {
		a, b := &found[i], &found[j]
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to), cmp.Compare(a.reference, b.reference)) < 0
	})
	var b strings.Builder
	end := 0
	for _, f := range found {
		if f.from < end { // within the replaced text
			if f.to > end {
				end = f.to
			}
			continue
		}
		b.WriteString(text[end:f.from])
		b.WriteString(f.reference)
		end = f.to
	}
	b.WriteString(text[end:])
	return b.String()
}

// span is a part of a text that shows a value.
type span struct {
	from, to  int
	reference string
}

// found appends the parts of a text that are values, the longest at each place. at has the place in the original text
// of each byte of text, and the length of the original text; nil: text is the original.
func (r *Redactor) found(all []span, text string, at []int) []span {
	values := r.in(text)
	if len(values) == 0 {
		return all
	}
	var starts [256]bool // first bytes of values: few bytes of a long log line are among them
	for _, v := range values {
		starts[v.value[0]] = true
	}
	for i := 0; i < len(text); {
		if !starts[text[i]] {
			i++
			continue
		}
		f := slices.IndexFunc(values, func(p pair) bool {
			return strings.HasPrefix(text[i:], p.value) && isWhole(text, i, i+len(p.value))
		})
		if f < 0 {
			i++
			continue
		}
		s := span{i, i + len(values[f].value), values[f].reference}
		if i = s.to; at != nil {
			s.from, s.to = at[s.from], at[s.to]
		}
		all = append(all, s)
	}
	return all
}

type pair struct{ value, reference string }

// in returns the values that occur in text, the longest first.
func (r *Redactor) in(text string) []pair {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []pair
	mayHave := func(string) bool { return true }
	if len(r.values) > manyValues {
		var b bigrams
		b.add(text)
		mayHave = b.has
	}
	for value, reference := range r.values {
		if mayHave(value) && strings.Contains(text, value) {
			all = append(all, pair{value, reference})
		}
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(len(b.value), len(a.value)), cmp.Compare(a.value, b.value)) < 0
	})
	return all
}

// manyValues is the number of values from which on a look at the bigrams of a text saves time.
const manyValues = 16

// bigrams is a set of pairs of adjacent bytes. Most values have a pair that a text lacks.
type bigrams [1 << 16 / 64]uint64

func (b *bigrams) add(text string) {
	for i := 1; i < len(text); i++ {
		pair := uint16(text[i-1])<<8 | uint16(text[i])
		b[pair/64] |= 1 << (pair % 64)
	}
}

// has reports whether b contains all pairs of value.
func (b *bigrams) has(value string) bool {
	for i := 1; i < len(value); i++ {
		pair := uint16(value[i-1])<<8 | uint16(value[i])
		if b[pair/64]&(1<<(pair%64)) == 0 {
			return false
		}
	}
	return true
}

// isWhole reports whether text[from:to] is likely to be a complete value and not part of a longer word.
func isWhole(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	after, _ := utf8.DecodeRuneInString(text[to:])
	first, _ := utf8.DecodeRuneInString(text[from:])
	last, _ := utf8.DecodeLastRuneInString(text[:to])
	switch n := to - from; {
	case n >= longValue:
		return true
	case n >= shortValue:
		return !(isWord(before) && isWord(first)) && !(isWord(last) && isWord(after))
	}
	return before == after && strings.ContainsRune("\"'`", before)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// Error returns err with a redacted text. It wraps err, whose own text stays as it is.
func (r *Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	text := r.Text(err.Error())
	if text == err.Error() {
		return err
	}
	return &redactedError{err, text}
}

// redactedError is an error whose text shows no values.
type redactedError struct {
	error
	text string
}

// Error returns the redacted text.
func (e *redactedError) Error() string { return e.text }

// Unwrap returns the error with the text that is not redacted.
func (e *redactedError) Unwrap() error { return e.error }
