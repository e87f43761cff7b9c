package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxJSONDepth is the maximum depth of structured data in its JSON form. It leaves room for envelopes around data of
// the maximum depth in the wire form.
const maxJSONDepth = 2 * maxDepth

// AppendValue appends a value of structured data like encoding/json, without reflection for the types of structured
// data. Values that JSON cannot represent become text:
//   - the numbers "NaN", "Infinity" and "-Infinity", as in the JSON mapping of protobuf;
//   - a time outside of the years 0 to 9999 with a year of six digits and a sign, as in ECMAScript;
//   - text that is not UTF-8 as base64 of its bytes;
//   - a byte of a field name that is not UTF-8 as \x and two hexadecimal digits.
//
// It fails on values of unsupported types, and on data nested deeper than 2000.
func AppendValue(dst []byte, v any) ([]byte, error) { return appendValue(dst, v, 0) }

func appendValue(dst []byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case string:
		return AppendJSONText(dst, v), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case float64:
		return appendFloat(dst, v, 64), nil
	case float32:
		return appendFloat(dst, float64(v), 32), nil
	case []byte:
		return appendBase64(dst, v), nil
	case time.Time:
		return appendTime(dst, v), nil
	case map[string]any:
		return appendObject(dst, v, depth)
	case map[string]string:
		if v == nil {
			return append(dst, "null"...), nil
		}
		return appendTexts(dst, v), nil
	case []any:
		return appendArray(dst, v, depth)
	case []string:
		return appendStrings(dst, v), nil
	case json.Number:
		return appendJSONNumber(dst, v), nil
	}
	if n, ok := asInt(v); ok {
		return strconv.AppendInt(dst, n, 10), nil
	}
	if n, ok := asUint(v); ok {
		return strconv.AppendUint(dst, n, 10), nil
	}
	if !isWithin(reflect.ValueOf(v), maxJSONDepth) {
		return dst, errTooDeepForJSON
	}
	b, err := json.Marshal(v)
	return append(dst, b...), err
}

// asInt returns v if it is a signed integer, or a duration in nanoseconds.
func asInt(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case int32:
		return int64(v), true
	case int16:
		return int64(v), true
	case int8:
		return int64(v), true
	case time.Duration:
		return int64(v), true
	}
	return 0, false
}

// asUint returns v if it is an unsigned integer.
func asUint(v any) (uint64, bool) {
	switch v := v.(type) {
	case uint:
		return uint64(v), true
	case uint64:
		return v, true
	case uint32:
		return uint64(v), true
	case uint16:
		return uint64(v), true
	case uint8:
		return uint64(v), true
	}
	return 0, false
}

// smallObject is the maximum number of fields of an object that is sorted on the stack.
const smallObject = 16

type member struct {
	key   string
	value any
}

func appendObject(dst []byte, m map[string]any, depth int) ([]byte, error) {
	if m == nil {
		return append(dst, "null"...), nil
	}
	if depth > maxJSONDepth {
		return dst, errTooDeepForJSON
	}
	var small [smallObject]member
	members := sortMembers(small[:0], m)
	dst = append(dst, '{')
	for i := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, members[i].key)
		dst = append(dst, ':')
		var err error
		if dst, err = appendValue(dst, members[i].value, depth+1); err != nil {
			return dst, within(members[i].key, err)
		}
	}
	return append(dst, '}'), nil
}

var errTooDeepForJSON = fmt.Errorf("nested deeper than %d", maxJSONDepth)

// within adds the path in an object or a list to an error, except to an error about the depth, whose path would be too
// long.
func within(at string, err error) error {
	if errors.Is(err, errTooDeepForJSON) || errors.Is(err, errTooDeep) {
		return err
	}
	return fmt.Errorf("%s: %w", at, err)
}

// sortMembers returns the fields of m by key, in buf if they fit.
func sortMembers(buf []member, m map[string]any) []member {
	buf = slices.Grow(buf, len(m))
	for k, v := range m {
		buf = append(buf, member{k, v})
	}
	slices.SortFunc(buf, func(a, b member) int { return strings.Compare(a.key, b.key) })
	return buf
}

func appendArray(dst []byte, s []any, depth int) ([]byte, error) {
	if s == nil {
		return append(dst, "null"...), nil
	}
	if depth > maxJSONDepth {
		return dst, errTooDeepForJSON
	}
	dst = append(dst, '[')
	for i, v := range s {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendValue(dst, v, depth+1); err != nil {
			return dst, within(fmt.Sprintf("[%d]", i), err)
		}
	}
	return append(dst, ']'), nil
}

func appendStrings(dst []byte, s []string) []byte {
	if s == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, v := range s {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendJSONText(dst, v)
	}
	return append(dst, ']')
}

func appendTexts(dst []byte, m map[string]string) []byte {
	dst = append(dst, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, k), ':')
		dst = AppendJSONText(dst, m[k])
	}
	return append(dst, '}')
}

// appendJSONNumber writes n unchanged. A text that is not a JSON number, such as NaN, becomes a string.
func appendJSONNumber(dst []byte, n json.Number) []byte {
	if n == "" {
		return append(dst, '0')
	}
	if IsNumber(string(n)) {
		return append(dst, n...)
	}
	return AppendJSONText(dst, string(n))
}

// appendFloat writes the shortest text that parses to f, with an exponent only where ECMAScript has one.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	abs := math.Abs(f)
	small, big := abs < 1e-6, abs >= 1e21
	if bits == 32 {
		small, big = float32(abs) < 1e-6, float32(abs) >= 1e21
	}
	if abs == 0 || !small && !big {
		return strconv.AppendFloat(dst, f, 'f', -1, bits)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, bits)
	if n := len(dst); dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 becomes e-9
		dst = dst[:n-1]
	}
	return dst
}

func appendTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	dst = AppendTime(dst, t)
	return append(dst, '"')
}

// AppendTime appends t in UTC in RFC 3339 format. A year that RFC 3339 cannot represent has a sign and six or more
// digits, as in ECMAScript.
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	y := t.Year()
	if y >= 0 && y <= 9999 {
		return t.AppendFormat(dst, time.RFC3339Nano)
	}
	dst = fmt.Appendf(dst, "%+07d", y)
	return t.AppendFormat(dst, "-01-02T15:04:05.999999999Z07:00")
}
