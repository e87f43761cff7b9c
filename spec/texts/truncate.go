// Package texts limits texts from other programs, as the error of a server, a plugin or a script can have any length.
// It also finds the word that a misspelled one was meant to be, makes names of files, topics and keys from ids, and
// compiles regular expressions on first use.
package texts

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxError is the maximum length in bytes of an error text in states, events, the log, notifications and answers.
const MaxError = 4 << 10

// MaxFullError is the maximum length in bytes of an error text that is kept in full, with a dead letter.
const MaxFullError = 64 << 10

// TruncateError truncates the text of an error to MaxError bytes.
func TruncateError(text string) string { return Truncate(text, MaxError) }

// CutMark marks the place where a text is cut. Redaction finds parts of secrets next to it, so every text that is cut
// before it is redacted needs the mark.
const CutMark = "…"

// The suffix of a cut text, around the number of omitted bytes.
const (
	cutBegin = CutMark + " ("
	cutEnd   = " more bytes)"
)

// Truncate returns a text of at most most bytes, which must be 64 or more. It cuts a longer text after a whole
// character and appends the number of omitted bytes, including those that an earlier cut omitted.
func Truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text, left := uncut(text)
	kept := min(len(text), most-len(cutBegin)-len(cutEnd)-len(strconv.FormatUint(left+uint64(len(text)), 10)))
	for n := kept; n > max(0, kept-utf8.UTFMax); n-- {
		if n == len(text) || utf8.RuneStart(text[n]) { // the cut is between two characters
			kept = n
			break
		}
	}
	return fmt.Sprint(strings.Clone(text[:kept]), cutBegin, left+uint64(len(text)-kept), cutEnd)
}

// uncut returns a text without the suffix of a cut, and the number of omitted bytes in the suffix.
func uncut(text string) (begin string, left uint64) {
	inner, ok := strings.CutSuffix(text, cutEnd)
	i := strings.LastIndex(inner, cutBegin)
	if !ok || i < 0 {
		return text, 0
	}
	left, err := strconv.ParseUint(inner[i+len(cutBegin):], 10, 40)
	if err != nil {
		return text, 0
	}
	return text[:i], left
}
