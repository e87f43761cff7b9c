package parse

import (
	"fmt"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/texttype"
)

// moment has the parts of a time that have been read.
type moment struct {
	year, month, day, yearDay        int
	hour, minute, second, nanosecond int
	pm, am                           bool
	epoch                            int64
	hasEpoch                         bool
	zone                             *time.Location
}

// directives are the characters that may follow %.
const directives = "YmdHIMSjybapfszZ%"

// read reads the part for a directive from the beginning of text.
func (m *moment) read(directive byte, text string) (rest string, ok bool) {
	n, most, low, high := &m.year, 2, 0, 9999
	switch directive {
	case 'Y':
		most = 4
	case 'm':
		n, low, high = &m.month, 1, 12
	case 'd':
		n, low, high = &m.day, 1, 31
	case 'H':
		n, high = &m.hour, 23
	case 'I':
		n, low, high = &m.hour, 1, 12
	case 'M':
		n, high = &m.minute, 59
	case 'S':
		n, high = &m.second, 59
	case 'j':
		n, most, low, high = &m.yearDay, 3, 1, 366
	case 'y':
	case 'f':
		n, most, high = &m.nanosecond, 9, 999999999
	default:
		return m.readWord(directive, text)
	}
	*n, rest, ok = number(text, most)
	ok = ok && *n >= low && *n <= high
	switch {
	case directive == 'y' && m.year < 69: // as POSIX has it
		m.year += 2000
	case directive == 'y':
		m.year += 1900
	case directive == 'f':
		for range most - (len(text) - len(rest)) {
			m.nanosecond *= 10
		}
	}
	return rest, ok
}

// readWord is like read, for directives whose text is not just digits.
func (m *moment) readWord(directive byte, text string) (rest string, ok bool) {
	switch directive {
	case 'b':
		for month := time.January; month <= time.December && !ok; month++ {
			m.month = int(month)
			rest, ok = word(text, month.String())
		}
	case 'a':
		for day := time.Sunday; day <= time.Saturday && !ok; day++ {
			rest, ok = word(text, day.String())
		}
	case 'p':
		if m.am, m.pm = hasPrefix(text, "am"), hasPrefix(text, "pm"); m.am || m.pm {
			return text[2:], true
		}
	case 's':
		end := len(text) - len(strings.TrimLeft(text, "-0123456789"))
		t, ok := epoch(text[:end], 0)
		m.epoch, m.hasEpoch = t.Unix(), true
		return text[end:], ok
	case 'z', 'Z':
		for _, name := range []string{"UTC", "GMT", "Z"} {
			if rest, ok = strings.CutPrefix(text, name); ok && (directive == 'Z' || name == "Z") {
				m.zone = time.UTC
				return rest, true
			}
		}
		return m.readOffset(directive, text)
	}
	return rest, ok
}

// readOffset reads the offset of a zone.
func (m *moment) readOffset(directive byte, text string) (rest string, ok bool) {
	for _, layout := range []string{"-07:00", "-0700"} {
		if directive == 'z' && len(text) >= len(layout) {
			if t, err := time.Parse(layout, text[:len(layout)]); err == nil {
				m.zone = t.Location()
				return text[len(layout):], true
			}
		}
	}
	return "", false
}

// replaced has directives and their replacements.
var replaced = []string{"%%", "%%", "%B", "%b", "%h", "%b", "%A", "%a", "%e", "%d", "%k", "%H", "%l", "%I", "%N", "%f",
	"%L", "%f", "%F", "%Y-%m-%d", "%T", "%H:%M:%S", "%D", "%m/%d/%y", "%R", "%H:%M", "%n", " ", "%t", " "}

// strptime returns a format of strptime.
func strptime(format string) (timeFormat, error) {
	format = strings.NewReplacer(replaced...).Replace(format)
	yearless := true
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		if i++; i == len(format) || strings.IndexByte(directives, format[i]) < 0 {
			return timeFormat{}, fmt.Errorf("%s has an unknown directive: want Y, y, m, b, B, d, e, j, H, I, k, l, M, "+
				"S, f, N, L, p, a, A, z, Z, s, F, T, D, R, n, t or %% behind %%", texttype.Quoted(format))
		}
		yearless = yearless && strings.IndexByte("Yys", format[i]) < 0
	}
	return timeFormat{yearless: yearless, read: func(text string, zone *time.Location) (time.Time, bool) {
		m := moment{zone: zone, month: 1, day: 1}
		rest := text
		for i := 0; i < len(format); i++ {
			switch c := format[i]; {
			case c == ' ': // any number of spaces, also none
				rest = strings.TrimLeft(rest, " \t")
			case c == '%' && format[i+1] != '%':
				i++
				if c := format[i]; c != 'b' && c != 'a' && c != 'p' && c != 'z' && c != 'Z' && c != 'f' {
					rest = strings.TrimLeft(rest, " ")
				}
				var ok bool
				if rest, ok = m.read(format[i], rest); !ok {
					return time.Time{}, false
				}
			default:
				if c == '%' {
					i++
				}
				if rest == "" || rest[0] != c {
					return time.Time{}, false
				}
				rest = rest[1:]
			}
		}
		if rest != "" {
			return time.Time{}, false
		}
		return m.time()
	}}, nil
}

// time returns the time, unless there is no such day.
func (m *moment) time() (time.Time, bool) {
	if m.hasEpoch {
		return time.Unix(m.epoch, int64(m.nanosecond)).UTC(), true
	}
	switch {
	case m.pm && m.hour < 12:
		m.hour += 12
	case m.am && m.hour == 12:
		m.hour = 0
	}
	if m.yearDay > 0 {
		m.month, m.day = 1, m.yearDay
	}
	t := time.Date(m.year, time.Month(m.month), m.day, m.hour, m.minute, m.second, m.nanosecond, m.zone)
	if m.yearDay > 0 {
		return t, t.Year() == m.year
	}
	return t, t.Day() == m.day
}

// number returns the number at the beginning of text, of at most most digits.
func number(text string, most int) (n int, rest string, ok bool) {
	i := 0
	for i < len(text) && i < most && text[i] >= '0' && text[i] <= '9' {
		n = 10*n + int(text[i]-'0')
		i++
	}
	return n, text[i:], i > 0
}

// word removes a name, or its first three letters, in any case, from the beginning of text.
func word(text, name string) (rest string, ok bool) {
	if hasPrefix(text, name) {
		return text[len(name):], true
	}
	if hasPrefix(text, name[:3]) {
		return text[3:], true
	}
	return "", false
}

// hasPrefix reports whether text begins with a word, in any case.
func hasPrefix(text, word string) bool {
	return len(text) >= len(word) && strings.EqualFold(text[:len(word)], word)
}
