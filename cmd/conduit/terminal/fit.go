package terminal

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Fit cuts the lines of a page at width characters, and omits lines beyond height; the last line then has their number.
// Colors take no space.
func Fit(page []byte, width, height int) []byte {
	lines := bytes.SplitAfter(page, []byte("\n"))
	if n := len(lines); n > 0 && len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	if height > 0 && len(lines) > height {
		more := len(lines) - height + 1
		lines = append(lines[:height-1:height-1], fmt.Appendf(nil, "… and %s more\n", Count(more, "line")))
	}
	var fitted []byte
	for _, line := range lines {
		fitted = append(fitted, fitLine(line, width)...)
	}
	return fitted
}

// Shorten returns text, cut if it has more than width characters.
func Shorten(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

func fitLine(line []byte, width int) []byte {
	shown, colored := 0, false
	for i := 0; i < len(line); {
		if line[i] == '\x1b' {
			if sequence := steering(string(line[i:])); sequence != "" {
				colored = sequence != Reset
				i += len(own) + len(sequence)
				continue
			}
		}
		_, size := utf8.DecodeRune(line[i:])
		if shown == width-1 && i+size < len(bytes.TrimRight(line, "\n")) {
			cut := append(bytes.Clone(line[:i]), "…"...)
			if colored {
				cut = append(cut, Steer(Reset)...)
			}
			return append(cut, '\n')
		}
		shown++
		i += size
	}
	return line
}
