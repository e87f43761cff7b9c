package pg

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// OIDs of the types that Decode converts, and of numeric. All other types are text.
const (
	OIDBool        = 16
	OIDBytea       = 17
	OIDInt8        = 20
	OIDInt2        = 21
	OIDInt4        = 23
	OIDOID         = 26
	OIDJSON        = 114
	OIDFloat4      = 700
	OIDFloat8      = 701
	OIDDate        = 1082
	OIDTimestamp   = 1114
	OIDTimestamptz = 1184
	OIDNumeric     = 1700
	OIDJSONB       = 3802
)

// Decode returns the value of a column with type oid. text is its output in the Styles, which sessions of the connector
// use. Decode does not retain text. A value that the converted type cannot represent, such as the time infinity, stays
// text.
func Decode(oid uint32, text []byte) any {
	switch oid {
	case OIDBool:
		return len(text) == 1 && text[0] == 't'
	case OIDInt2, OIDInt4:
		if n, ok := ParseInt(text); ok {
			return int32(n)
		}
	case OIDInt8, OIDOID:
		if n, ok := ParseInt(text); ok {
			return n
		}
	case OIDFloat4:
		if f, err := strconv.ParseFloat(string(text), 32); err == nil {
			return float32(f)
		}
	case OIDFloat8:
		if f, err := strconv.ParseFloat(string(text), 64); err == nil {
			return f
		}
	case OIDBytea:
		if b, ok := parseBytea(text); ok {
			return b
		}
	case OIDJSON, OIDJSONB:
		return decodeJSON(text)
	case OIDDate:
		if t, err := time.Parse("2006-01-02", string(text)); err == nil {
			return t
		}
	case OIDTimestamp:
		if t, ok := parseTime(text); ok {
			return t
		}
	case OIDTimestamptz:
		if utc, ok := bytes.CutSuffix(text, []byte("+00")); ok {
			if t, ok := parseTime(utc); ok {
				return t
			}
		}
		if t, err := time.Parse("2006-01-02 15:04:05.999999Z07", string(text)); err == nil {
			return t.UTC()
		}
	}
	return string(text)
}

// decodeJSON decodes JSON to an object, a list, a number or a boolean. A JSON string or null stays JSON text, with its
// quotes: this distinguishes it from NULL, and a destination can write it to a JSON column.
func decodeJSON(text []byte) any {
	var d record.Data
	if first := bytes.TrimLeft(text,
		" \t\r\n"); len(first) == 0 || first[0] == '"' || first[0] == 'n' || !json.Valid(text) {
		return string(text)
	}
	if d.UnmarshalJSON(append(append([]byte(`{"v":`), text...), '}')) != nil {
		return string(text)
	}
	m, _ := d.Structured()
	return m["v"]
}

// parseTime parses a time such as 2006-01-02 15:04:05.999999, with up to six fractional digits.
func parseTime(text []byte) (t time.Time, ok bool) {
	const form = "0000-00-00 00:00:00"
	if len(text) < len(form) || len(text) == len(form)+1 || len(text) > len(form)+len(".000000") {
		return t, false
	}
	var numbers [7]int // the last one is microseconds
	field := 0
	for i, c := range text {
		switch {
		case i < len(form) && form[i] != '0', i == len(form):
			if field++; i < len(form) && c != form[i] || i == len(form) && c != '.' {
				return t, false
			}
		case c < '0' || c > '9':
			return t, false
		default:
			numbers[field] = numbers[field]*10 + int(c-'0')
		}
	}
	for range len(form) + len(".000000") - max(len(text), len(form)+1) {
		numbers[6] *= 10
	}
	year, month, day, hour, minute, second := numbers[0], time.Month(numbers[1]), numbers[2], numbers[3], numbers[4],
		numbers[5]
	if hour > 23 || minute > 59 || second > 59 {
		return t, false
	}
	t = time.Date(year, month, day, hour, minute, second, numbers[6]*int(time.Microsecond), time.UTC)
	return t, t.Month() == month && t.Day() == day
}

// ParseInt parses a decimal number without allocating.
func ParseInt(text []byte) (n int64, ok bool) {
	digits := text
	if len(text) > 0 && text[0] == '-' {
		digits = text[1:]
	}
	if len(digits) == 0 || len(digits) > 18 { // values that may overflow are rare
		n, err := strconv.ParseInt(string(text), 10, 64)
		return n, err == nil
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	if len(digits) < len(text) {
		n = -n
	}
	return n, true
}

func parseBytea(text []byte) ([]byte, bool) {
	if len(text) < 2 || text[0] != '\\' || text[1] != 'x' {
		return nil, false
	}
	b := make([]byte, hex.DecodedLen(len(text)-2))
	_, err := hex.Decode(b, text[2:])
	return b, err == nil
}

// Styles are the session parameters that Decode expects.
var Styles = map[string]string{"datestyle": "ISO, YMD", "timezone": "UTC", "intervalstyle": "postgres",
	"bytea_output": "hex", "extra_float_digits": "1", "client_encoding": "UTF8"}

// Quote returns name as a quoted SQL identifier.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Literal returns s as an SQL string literal.
func Literal(s string) string {
	if strings.Contains(s, `\`) {
		return ` E'` + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `'`, `''`) + `'`
	}
	return `'` + strings.ReplaceAll(s, `'`, `''`) + `'`
}
