package logging

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// textEncoder renders lines for people: time, level, message, the record if there is one, and then other key=value
// pairs, which are dim in color. The journal has the time already, and gets the level as in sd-daemon(3).
type textEncoder struct {
	color   bool
	journal bool
	bare    bool // neither time nor priority, which are fields of their own
	clock   clock
}

// levelNames are in the order of rank.
var levelNames = [...]struct{ short, long, color, journal string }{
	{"TRC", "trace", terminal.Dim, "<7>"},
	{"DBG", "debug", terminal.Magenta, "<7>"},
	{"INF", "info", terminal.Green, "<6>"},
	{"WRN", "warn", terminal.Yellow, "<4>"},
	{"ERR", "error", terminal.BoldRed, "<3>"},
}

// rank returns the index in levelNames of the highest level that l reaches.
func rank(l slog.Level) int {
	return min(max(int(l-levelTrace)>>2, 0), len(levelNames)-1)
}

func (e *textEncoder) begin(b []byte, r *slog.Record) []byte {
	level := &levelNames[rank(r.Level)]
	if e.journal {
		b = append(b, level.journal...)
	} else if !e.bare && !r.Time.IsZero() {
		b = e.paint(b, terminal.Dim)
		b = e.clock.append(b, r.Time)
		b = e.paint(b, terminal.Reset)
		b = append(b, ' ')
	}
	b = e.paint(b, level.color)
	b = append(b, level.short...)
	b = e.paint(b, terminal.Reset)
	if r.Message == "" {
		return b
	}
	b = append(b, ' ')
	if terminal.IsPrintable(r.Message) {
		return append(b, r.Message...)
	}
	return strconv.AppendQuote(b, r.Message)
}

func (e *textEncoder) attr(b []byte, group, key string, v slog.Value) []byte {
	b = append(b, ' ')
	b = e.paint(b, terminal.Dim)
	if group != "" {
		key = group + key
	}
	b = appendText(b, key)
	b = append(b, '=')
	switch key {
	case recordKey:
		b = e.paint(b, terminal.Reset)
		return appendTextValue(b, v)
	case "err":
		b = e.paint(b, terminal.Reset)
		b = e.paint(b, terminal.Red)
	}
	b = appendTextValue(b, v)
	return e.paint(b, terminal.Reset)
}

func (e *textEncoder) recordFirst() bool { return true }

func (e *textEncoder) end(b []byte) []byte { return append(b, '\n') }

func (e *textEncoder) paint(b []byte, color string) []byte {
	if !e.color {
		return b
	}
	return append(b, color...)
}

func appendTextValue(b []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindString:
		return appendText(b, v.String())
	case slog.KindInt64:
		return strconv.AppendInt(b, v.Int64(), 10)
	case slog.KindUint64:
		return strconv.AppendUint(b, v.Uint64(), 10)
	case slog.KindTime:
		return v.Time().AppendFormat(b, time.RFC3339)
	case slog.KindAny:
		switch x := v.Any().(type) {
		case *time.Time:
			if x != nil {
				return x.AppendFormat(b, time.RFC3339)
			}
			return append(b, '-')
		case json.RawMessage:
			return appendRaw(b, x)
		case error:
			return appendText(b, x.Error())
		case []byte:
			return appendText(b, string(x))
		case json.Marshaler:
			if j, err := x.MarshalJSON(); err == nil {
				return appendRaw(b, j)
			}
			return appendText(b, fmt.Sprint(x))
		default:
			return appendText(b, fmt.Sprint(x))
		}
	default:
		return appendText(b, v.String())
	}
}

// appendText appends s, quoted when a character in it could be taken for its end.
func appendText(b []byte, s string) []byte {
	if s == "" || !plain(s) {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}

// plain reports whether s can stand unquoted in a key=value pair.
func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c >= utf8.RuneSelf {
			return terminal.IsPrintable(s) && !containsSpace(s)
		}
		if c <= ' ' || c == '"' || c == '=' || c == 0x7f {
			return false
		}
	}
	return true
}

func containsSpace(s string) bool {
	for _, r := range s {
		if r == '"' || r == '=' || unicode.IsSpace(r) {
			return true
		}
	}
	return false
}

// appendRaw appends JSON unchanged, except for characters that would end the line or steer a terminal: in valid JSON a
// control character is white space.
func appendRaw(b []byte, raw []byte) []byte {
	start := len(b)
	b = append(b, raw...)
	if !hasControl(b[start:]) {
		return b
	}
	for i := start; i < len(b); i++ {
		if b[i] < ' ' {
			b[i] = ' '
		}
	}
	return append(b[:start], terminal.EscapeJSON(b[start:])...)
}
