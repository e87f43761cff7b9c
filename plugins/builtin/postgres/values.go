package postgres

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// OIDs of the types that have a form of their own in records. All others are text.
const (
	oidBool, oidBytea, oidInt8, oidInt2, oidInt4, oidText = 16, 17, 20, 21, 23, 25
	oidOID, oidJSON, oidFloat4, oidFloat8, oidJSONB       = 26, 114, 700, 701, 3802
	oidDate, oidTimestamp, oidTimestamptz                 = 1082, 1114, 1184
)

// decode returns the value of a column of this type, of which text is the output in the
// styles that a session of the connector has. It keeps nothing of text. What does not fit
// the type's form, as the time infinity, stays text.
func decode(oid uint32, text []byte) any {
	switch oid {
	case oidBool:
		return len(text) == 1 && text[0] == 't'
	case oidInt2, oidInt4:
		if n, ok := parseInt(text); ok {
			return int32(n)
		}
	case oidInt8, oidOID:
		if n, ok := parseInt(text); ok {
			return n
		}
	case oidFloat4:
		if f, err := strconv.ParseFloat(string(text), 32); err == nil {
			return float32(f)
		}
	case oidFloat8:
		if f, err := strconv.ParseFloat(string(text), 64); err == nil {
			return f
		}
	case oidBytea:
		if b, ok := parseBytea(text); ok {
			return b
		}
	case oidJSON, oidJSONB:
		return append([]byte(nil), text...)
	case oidDate:
		if t, err := time.Parse("2006-01-02", string(text)); err == nil {
			return t
		}
	case oidTimestamp:
		if t, err := time.Parse("2006-01-02 15:04:05.999999", string(text)); err == nil {
			return t
		}
	case oidTimestamptz:
		if t, err := time.Parse("2006-01-02 15:04:05.999999Z07", string(text)); err == nil {
			return t.UTC()
		}
	}
	return string(text)
}

// parseInt parses a decimal number without allocating.
func parseInt(text []byte) (n int64, ok bool) {
	digits := text
	if len(text) > 0 && text[0] == '-' {
		digits = text[1:]
	}
	if len(digits) == 0 || len(digits) > 18 { // what may overflow is rare
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

// quote returns name as an identifier in SQL.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal returns s as a string literal in SQL.
func literal(s string) string {
	if strings.Contains(s, `\`) {
		return ` E'` + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `'`, `''`) + `'`
	}
	return `'` + strings.ReplaceAll(s, `'`, `''`) + `'`
}
