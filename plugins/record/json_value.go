package record

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AppendValue appends a value of structured data as encoding/json writes it, without
// reflection for the types that structured data is made of. It fails on what JSON cannot hold.
func AppendValue(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case string:
		return appendString(dst, v), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case float64:
		return appendFloat(dst, v, 64)
	case float32:
		return appendFloat(dst, float64(v), 32)
	case []byte:
		return appendBase64(dst, v), nil
	case time.Time:
		return appendTime(dst, v)
	case map[string]any:
		return appendObject(dst, v)
	case map[string]string:
		if v == nil {
			return append(dst, "null"...), nil
		}
		return appendMetadata(dst, NewMetadata(v), "null"), nil
	case []any:
		return appendArray(dst, v, AppendValue)
	case []string:
		return appendArray(dst, v, func(dst []byte, s string) ([]byte, error) {
			return appendString(dst, s), nil
		})
	case json.Number:
		if v == "" {
			return append(dst, '0'), nil
		}
	}
	if n, ok := asInt(v); ok {
		return strconv.AppendInt(dst, n, 10), nil
	}
	if n, ok := asUint(v); ok {
		return strconv.AppendUint(dst, n, 10), nil
	}
	b, err := json.Marshal(v)
	return append(dst, b...), err
}

// asInt returns v if it is a signed integer or a duration, which counts in nanoseconds.
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

// smallObject is the number of fields up to which an object is sorted on the stack.
const smallObject = 16

type member struct {
	key   string
	value any
}

func appendObject(dst []byte, m map[string]any) ([]byte, error) {
	if m == nil {
		return append(dst, "null"...), nil
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
		if dst, err = AppendValue(dst, members[i].value); err != nil {
			return dst, fmt.Errorf("%s: %w", members[i].key, err)
		}
	}
	return append(dst, '}'), nil
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

func appendArray[T any](dst []byte, s []T, write func([]byte, T) ([]byte, error)) ([]byte, error) {
	if s == nil {
		return append(dst, "null"...), nil
	}
	dst = append(dst, '[')
	for i, v := range s {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = write(dst, v); err != nil {
			return dst, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return append(dst, ']'), nil
}

// appendFloat writes the shortest text that reads back as f, with an exponent only
// where ECMAScript has one.
func appendFloat(dst []byte, f float64, bits int) ([]byte, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return dst, fmt.Errorf("JSON has no number %v", f)
	}
	abs := math.Abs(f)
	small, big := abs < 1e-6, abs >= 1e21
	if bits == 32 {
		small, big = float32(abs) < 1e-6, float32(abs) >= 1e21
	}
	if abs == 0 || !small && !big {
		return strconv.AppendFloat(dst, f, 'f', -1, bits), nil
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, bits)
	if n := len(dst); dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 is written e-9
		dst = dst[:n-1]
	}
	return dst, nil
}

func appendTime(dst []byte, t time.Time) ([]byte, error) {
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return dst, fmt.Errorf("year %d does not fit RFC 3339", y)
	}
	dst = append(dst, '"')
	dst = t.AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"'), nil
}
