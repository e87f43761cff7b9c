// Package terminal lays out the output of commands: tables, colors, and text that cannot steer the reader's terminal.
package terminal

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The escape sequences of colours.
const (
	Reset   = "\x1b[0m"
	Dim     = "\x1b[2m"
	Red     = "\x1b[31m"
	BoldRed = "\x1b[1;31m"
	Green   = "\x1b[32m"
	Yellow  = "\x1b[33m"
	Magenta = "\x1b[35m"
	Cyan    = "\x1b[36m"
)

// Dash returns "-" in place of an empty text.
func Dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// Count returns a number and a noun as words.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Moment formats a time for people, in the time zone of the machine.
func Moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// OneLine is s without line breaks, and without characters that could steer a terminal.
func OneLine(s string) string { return strings.Join(strings.Fields(Clean(s)), " ") }

// OneError is OneLine for a text that may have several errors, each on a line: semicolons separate them.
func OneError(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		words := OneLine(line)
		if before := b.String(); words != "" && before != "" {
			if !strings.ContainsAny(before[len(before)-1:], ":;,.") {
				b.WriteByte(';')
			}
			b.WriteByte(' ')
		}
		b.WriteString(words)
	}
	return b.String()
}

// IsPrintable reports whether a terminal shows s as it is: no control characters, no invisible characters, valid UTF-8.
func IsPrintable(s string) bool {
	for i, r := range s {
		if r < utf8.RuneSelf {
			if r < ' ' || r == 0x7f {
				return false
			}
			continue
		}
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return false
			}
		}
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
