package yamldoc

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/spec/texts"
)

// diagnose returns the likely cause of a syntax error that the library reports near a line: a tab used as indentation,
// or a quote that is not closed on its line. The library names the line where a block begins or where it gave up, which
// may be far from the cause. It returns nil when there is no such cause.
func (c chunk) diagnose(line int, message string) *Fault {
	lines := bytes.Split(c.text, []byte{'\n'})
	if at := tab(lines, line, strings.Contains(message, "tab character")); at > 0 {
		return &Fault{Mark: Mark{at + c.line, 1},
			Message: "the YAML is not valid: this line is indented with a tab; YAML is indented with spaces"}
	}
	if at, column := openQuote(lines); at > 0 {
		return &Fault{Mark: Mark{at + c.line, column},
			Message: fmt.Sprintf("the YAML is not valid: the quote %c that opens here is not closed on its line",
				lines[at-1][column-1])}
	}
	return nil
}

// tab returns the number of the line nearest to line, including its neighbors, that is indented by a tab, 0 if there is
// none. A tab after spaces counts only if certain is set: text of several lines may contain one.
func tab(lines [][]byte, line int, certain bool) int {
	for _, n := range []int{line, line - 1, line + 1} {
		if n < 1 || n > len(lines) {
			continue
		}
		text := lines[n-1]
		indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
		if at := bytes.IndexByte(indent, '\t'); at == 0 || at > 0 && certain {
			return n
		}
	}
	return 0
}

// openQuote returns the place of the first quote that begins a value and is not closed before a line in the form of a
// field or an item; 0 if there is none. Quotes within other text and in comments begin nothing.
func openQuote(lines [][]byte) (line, column int) {
	literal := -1 // indentation of the field with the literal block being read
	for i := 0; i < len(lines); i++ {
		text := lines[i]
		indent := len(text) - len(bytes.TrimLeft(text, " "))
		if literal >= 0 && (indent > literal || len(bytes.TrimSpace(text)) == 0) {
			continue
		}
		literal = -1
		at, rest := unclosed(text)
		switch {
		case at > 0:
			end := closingLine(lines[i+1:], text[at-1])
			if end < 0 {
				return i + 1, at
			}
			i += end + 1
		case beginsLiteral(rest):
			literal = indent
		}
	}
	return 0, 0
}

var fieldOrItem = texts.Regexp(`^ *(- |[\w."'-]+:( |\r?$))`)

// closingLine returns the index of the line that closes a quote, -1 if none does before a line in the form of a field
// or an item.
func closingLine(lines [][]byte, quote byte) int {
	for i, text := range lines {
		if fieldOrItem().Match(text) {
			return -1
		}
		if closing(text, quote) >= 0 {
			return i
		}
	}
	return -1
}

// unclosed returns the column of a quote that begins a value in text and is not closed there,
// and text without its quoted parts and its comment.
func unclosed(text []byte) (column int, rest string) {
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		before := byte(' ')
		if trimmed := bytes.TrimRight(text[:i], " "); len(trimmed) > 0 {
			before = trimmed[len(trimmed)-1]
		}
		spaced := i == 0 || text[i-1] == ' '
		begins := i == 0 || strings.IndexByte("[{,", before) >= 0 || spaced && strings.IndexByte(" :-", before) >= 0
		switch {
		case c == '#' && spaced:
			return 0, plain.String()
		case (c == '"' || c == '\'') && begins:
			end := closing(text[i+1:], c)
			if end < 0 {
				return i + 1, plain.String()
			}
			i += end + 1
		default:
			plain.WriteByte(c)
		}
	}
	return 0, plain.String()
}

// closing returns the index of the quote that closes a value, -1 when there is none.
func closing(text []byte, quote byte) int {
	for i := 0; i < len(text); i++ {
		switch {
		case quote == '"' && text[i] == '\\':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i
		}
	}
	return -1
}

// beginsLiteral reports whether the text of a field follows on the next lines.
func beginsLiteral(line string) bool {
	fields := strings.Fields(line)
	return len(fields) > 1 && strings.IndexByte("|>", fields[len(fields)-1][0]) >= 0
}
