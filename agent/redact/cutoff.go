package redact

import (
	"strings"

	"github.com/conduit-agent/conduit/spec/texts"
)

// A plugin, or a bound on its length, may have cut a text before redaction. A value at the cut is then incomplete. Its
// part is redacted where a mark shows the cut, before and after the mark.

// maxCuts bounds the marks in a text at which parts are looked up: the first maxCuts, and as many at the end.
const maxCuts = 16

// maxOfEscape bounds the bytes of an escape, such as \u00e4, that a cut may leave.
const maxOfEscape = 6

// cutOff appends the parts of a text that begin a value before the mark of a cut, or end a value after it. at is as in
// found.
func (r *Redactor) cutOff(all []span, text string, at []int) []span {
	marks := marksOf(text)
	if len(marks) == 0 {
		return all
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range marks {
		before, behind := text[:m], text[m+len(texts.CutMark):]
		var begin, end span // the longest parts
		for value, reference := range r.values {
			if len(value) < longValue {
				continue // many texts end with half of a short value
			}
			// A cut may have left a part of an escape next to the mark.
			for k := range min(maxOfEscape, len(before)) {
				if n := overlap(before[:len(before)-k], value); n >= shortValue {
					begin = longer(begin, span{m - k - n, m, reference})
				}
			}
			for k := range min(maxOfEscape, len(behind)) {
				if n := overlap(value, behind[k:]); n >= shortValue {
					from := m + len(texts.CutMark)
					end = longer(end, span{from, from + k + n, reference})
				}
			}
		}
		for _, s := range []span{begin, end} {
			if s.to > s.from {
				if at != nil {
					s.from, s.to = at[s.from], at[s.to]
				}
				all = append(all, s)
			}
		}
	}
	return all
}

// longer returns the longer part. Of two equally long parts it returns the same one in either order.
func longer(a, b span) span {
	if n, m := a.to-a.from, b.to-b.from; n > m || n == m && a.reference <= b.reference {
		return a
	}
	return b
}

// marksOf returns the places of the marks of cuts, in order.
func marksOf(text string) (marks []int) {
	for from := 0; len(marks) < maxCuts; {
		i := strings.Index(text[from:], texts.CutMark)
		if i < 0 {
			return marks
		}
		marks = append(marks, from+i)
		from += i + len(texts.CutMark)
	}
	first := marks[len(marks)-1]
	for to, n := len(text), 0; n < maxCuts; n++ {
		i := strings.LastIndex(text[:to], texts.CutMark)
		if i <= first {
			break
		}
		marks = append(marks, i)
		to = i
	}
	return marks
}

// overlap returns the length in bytes of the longest suffix of text that is a prefix of value.
func overlap(text, value string) int {
	text = text[max(0, len(text)-len(value)):]
	for len(text) >= shortValue {
		if strings.HasPrefix(value, text) {
			return len(text)
		}
		next := strings.IndexByte(text[1:], value[0])
		if next < 0 {
			break
		}
		text = text[1+next:]
	}
	return 0
}
