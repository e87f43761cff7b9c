package terminal

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// isVisible reports whether a terminal shows r as it is. Control characters control the terminal, and format characters
// reorder the text around them or are invisible.
func isVisible(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r != 0x7f
	}
	return unicode.IsGraphic(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// appendRune appends the first character of s, which has size bytes. It replaces an invisible character by its JSON
// escape, and a byte that is not UTF-8 by \x and two digits.
func appendRune(dst []byte, s string, r rune, size int) []byte {
	switch {
	case r == utf8.RuneError && size == 1:
		return fmt.Appendf(dst, `\x%02x`, s[0])
	case isVisible(r):
		return append(dst, s[:size]...)
	case r < utf8.RuneSelf:
		return fmt.Appendf(dst, `\x%02x`, r)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(dst, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(dst, `\u%04x`, r)
}

// Clean escapes the characters that a terminal does not show as they are, except newlines. Tabs and carriage returns
// become spaces.
func Clean(s string) string {
	if isPlain(s) {
		return s
	}
	b := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch r {
		case '\n':
			b = append(b, '\n')
		case '\t', '\r':
			b = append(b, ' ')
		default:
			b = appendRune(b, s[i:], r, size)
		}
		i += size
	}
	return string(b)
}

// Line returns the result of Clean on one line: names of files may contain newlines.
func Line(s string) string { return strings.ReplaceAll(Clean(s), "\n", `\x0a`) }

// isPlain reports whether s consists of visible ASCII and line ends.
func isPlain[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' || c >= 0x7f) && c != '\n' {
			return false
		}
	}
	return true
}

// EscapeJSON escapes the characters in JSON that a terminal does not show as they are. They occur only in strings, and
// escaping keeps the string values.
func EscapeJSON(b []byte) []byte {
	if isPlain(b) || bytes.IndexFunc(b, isHidden) < 0 {
		return b
	}
	out := make([]byte, 0, len(b)+16)
	for s := string(b); s != ""; {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case !isHidden(r):
			out = append(out, s[:size]...)
		case r == 0x7f:
			out = append(out, `\u007f`...)
		default:
			out = appendRune(out, s, r, size)
		}
		s = s[size:]
	}
	return out
}

// isHidden reports whether r, in a JSON string, is not visible. JSON strings have no other control characters.
func isHidden(r rune) bool { return r >= 0x7f && r != utf8.RuneError && !isVisible(r) }

// The sequences that clear a terminal.
const (
	Home       = "\x1b[H"
	ClearLine  = "\x1b[K"
	ClearBelow = "\x1b[J"
	ClearAll   = "\x1b[2J"
)

// own marks the sequences that commands print. Data cannot contain it, since it differs between processes.
var own = "\x1b" + rand.Text()

// Steer marks sequence, a constant of this package, for a Guard to write. A sequence without the mark is data.
func Steer(sequence string) string { return own + sequence }

// Paint colours text, for a Guard.
func Paint(text, color string) string { return Steer(color) + text + Steer(Reset) }

// sequences are all that commands print to steer a terminal.
var sequences = []string{Reset, Dim, Red, Green, Yellow, Cyan, Magenta, BoldRed, Home, ClearLine, ClearBelow, ClearAll}

// Guard is a writer for text that people read. It escapes the characters that a terminal does not show as they are,
// except newlines and tabs, and writes the sequences that Steer marked, each in one Write.
type Guard struct {
	w    io.Writer
	part []byte // the beginning of a character
	buf  []byte
}

// NewGuard returns a Guard that writes to w. It returns w itself if w is a Guard.
func NewGuard(w io.Writer) *Guard {
	if g, ok := w.(*Guard); ok {
		return g
	}
	return &Guard{w: w}
}

// Unguarded returns the underlying writer.
func (g *Guard) Unguarded() io.Writer { return g.w }

// Write writes p, except for an incomplete character at its end, which is written with the next bytes.
func (g *Guard) Write(p []byte) (int, error) {
	if len(g.part) == 0 && isPlain(p) {
		return g.w.Write(p)
	}
	s := string(g.part) + string(p)
	g.part, g.buf = g.part[:0], g.buf[:0]
	for s != "" {
		if sequence := steering(s); sequence != "" {
			g.buf, s = append(g.buf, sequence...), s[len(own)+len(sequence):]
			continue
		}
		if !utf8.FullRuneInString(s) {
			g.part = append(g.part, s...)
			break
		}
		r, size := utf8.DecodeRuneInString(s)
		if r == '\n' || r == '\t' {
			g.buf = append(g.buf, byte(r))
		} else {
			g.buf = appendRune(g.buf, s, r, size)
		}
		s = s[size:]
	}
	if _, err := g.w.Write(g.buf); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes an incomplete character at the end of the output.
func (g *Guard) Flush() error {
	if len(g.part) == 0 {
		return nil // even an empty Write waits for other writes to a full pipe
	}
	escaped := bytes.Buffer{}
	for _, c := range g.part {
		fmt.Fprintf(&escaped, `\x%02x`, c)
	}
	g.part = g.part[:0]
	_, err := g.w.Write(escaped.Bytes())
	return err
}

// steering returns the sequence marked by Steer at the beginning of s, "" for none.
func steering(s string) string {
	rest, marked := strings.CutPrefix(s, own)
	if !marked {
		return ""
	}
	for _, sequence := range sequences {
		if strings.HasPrefix(rest, sequence) {
			return sequence
		}
	}
	return ""
}
