package schema

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// maxDepth bounds the nesting of values.
const maxDepth = 100

var (
	errTooDeep = errors.New("nested too deeply")
	errRange   = errors.New("number out of range")
)

// encoder encodes one record.
type encoder struct {
	work     int // number of values that it may still visit
	defaults int // bytes that may still come from defaults
}

func (e *encoder) value(dst []byte, t *avroType, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	if e.work--; e.work < 0 {
		return nil, errWork
	}
	switch t.kind {
	case avroUnion:
		return e.union(dst, t, v, depth)
	case avroRecord:
		if m, ok := v.(map[string]any); ok {
			return e.record(dst, t, m, depth)
		}
	case avroMap:
		if m, ok := v.(map[string]any); ok {
			return e.object(dst, t, m, depth)
		}
	case avroArray:
		if a, ok := v.([]any); ok {
			return e.array(dst, t, a, depth)
		}
	case avroEnum:
		if i, ok := t.indexOf[symbolOf(v)]; ok {
			return binary.AppendVarint(dst, int64(i)), nil
		}
	case avroFixed:
		return appendFixed(dst, t, v)
	case avroNull:
		if v == nil {
			return dst, nil
		}
	default:
		return appendPrimitive(dst, t, v)
	}
	return nil, mismatch(t, v)
}

// symbolOf returns the symbol for a value.
func symbolOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any, []any: // not a symbol; the text may be long
		return ""
	}
	return fmt.Sprint(v)
}

func mismatch(t *avroType, v any) error {
	if symbol, ok := v.(string); ok && t.kind == avroEnum {
		return fmt.Errorf("%.50q is not a symbol of the enum", symbol)
	}
	if t.logical != "" {
		return fmt.Errorf("must be %s (%s), not %s", t.name, t.logical, typeName(v))
	}
	return fmt.Errorf("must be %s, not %s", t.name, typeName(v))
}

// typeName returns the type of a value in a record in plain words.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "text"
	case []byte:
		return "bytes"
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case time.Time:
		return "time"
	case time.Duration:
		return "duration"
	case float32, float64:
		return "floating-point number"
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return "integer"
	}
	return fmt.Sprintf("%T", v)
}

func (e *encoder) record(dst []byte, t *avroType, m map[string]any, depth int) ([]byte, error) {
	var err error
	known := 0
	for i := range t.fields {
		f := &t.fields[i]
		v, ok := m[f.name]
		if ok {
			known++
		} else if v, err = missing(f); err != nil {
			return nil, err
		}
		before := len(dst)
		if dst, err = e.value(dst, f.typ, v, depth+1); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if !ok {
			if e.defaults -= len(dst) - before; e.defaults < 0 {
				return nil, errDefaults
			}
		}
	}
	if known < len(m) {
		return nil, unknownField(t, m)
	}
	return dst, nil
}

// missing returns the value to encode for a field that the object lacks.
func missing(f *avroField) (any, error) {
	switch {
	case f.hasDefault:
		return f.fallback, nil
	case f.typ.kind == avroNull || f.typ.nullable:
		return nil, nil
	}
	return nil, fmt.Errorf("%s: is required", f.name)
}

func unknownField(t *avroType, m map[string]any) error {
	known := make(map[string]bool, len(t.fields))
	for i := range t.fields {
		known[t.fields[i].name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !known[name] {
			return fmt.Errorf("%s: is not in the schema", name)
		}
	}
	return nil
}

func (e *encoder) object(dst []byte, t *avroType, m map[string]any, depth int) ([]byte, error) {
	if len(m) > 0 {
		dst = binary.AppendVarint(dst, int64(len(m)))
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		var err error
		if dst, err = e.value(appendString(dst, k), t.items, m[k], depth+1); err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
	}
	return append(dst, 0), nil
}

func (e *encoder) array(dst []byte, t *avroType, a []any, depth int) ([]byte, error) {
	if len(a) > 0 {
		dst = binary.AppendVarint(dst, int64(len(a)))
	}
	for i, v := range a {
		var err error
		if dst, err = e.value(dst, t.items, v, depth+1); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return append(dst, 0), nil
}

// union encodes v with the branch for its kind, or else with the first branch that can hold v.
func (e *encoder) union(dst []byte, t *avroType, v any, depth int) ([]byte, error) {
	k := kindOf(v)
	for pass := range 2 {
		for i, branch := range t.branches {
			if natural := branch.natural == k; natural != (pass == 0) {
				continue
			}
			defaults := e.defaults
			if out, err := e.value(binary.AppendVarint(dst, int64(i)), branch, v, depth+1); err == nil {
				return out, nil
			} else if errors.Is(err, errWork) {
				return nil, err
			} else if pass == 0 && len(t.branches) == 2 && t.nullable {
				return nil, err // the error of the only branch for v is the most precise
			}
			e.defaults, e.work = defaults, e.work-failedBranch
		}
	}
	return nil, fmt.Errorf("no branch of the union accepts %s", typeName(v))
}

func appendPrimitive(dst []byte, t *avroType, v any) ([]byte, error) {
	switch t.kind {
	case avroBoolean:
		if b, ok := v.(bool); ok {
			return append(dst, map[bool]byte{true: 1}[b]), nil
		}
	case avroInt, avroLong:
		n, ok, err := integer(t, v)
		if err == nil && t.kind == avroInt && n != int64(int32(n)) {
			err = errRange
		}
		if ok {
			return binary.AppendVarint(dst, n), err
		}
	case avroFloat:
		if f, ok := toFloat(v); ok {
			return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(f))), nil
		}
	case avroDouble:
		if f, ok := toFloat(v); ok {
			return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f)), nil
		}
	case avroString, avroBytes:
		if t.logical == logicalDecimal {
			b, err := decimalBytes(t, v, 0)
			return append(binary.AppendVarint(dst, int64(len(b))), b...), err
		}
		if t.logical == logicalJSON {
			text, err := record.AppendValue(nil, v)
			return append(binary.AppendVarint(dst, int64(len(text))), text...), err
		}
		switch v := v.(type) {
		case string:
			return appendString(dst, v), nil
		case []byte:
			return append(binary.AppendVarint(dst, int64(len(v))), v...), nil
		}
	}
	return nil, mismatch(t, v)
}

func appendString(dst []byte, v string) []byte {
	return append(binary.AppendVarint(dst, int64(len(v))), v...)
}

func appendFixed(dst []byte, t *avroType, v any) ([]byte, error) {
	if t.logical == logicalDecimal {
		b, err := decimalBytes(t, v, t.size)
		return append(dst, b...), err
	}
	b, ok := v.([]byte)
	if text, isText := v.(string); isText && t.logical != "" {
		var err error
		if t.logical == logicalUUID {
			b, err = uuidBytes(text)
		} else {
			b, err = durationBytes(text)
		}
		return append(dst, b...), err
	}
	if !ok || len(b) != t.size {
		return nil, fmt.Errorf("must be %d bytes", t.size)
	}
	return append(dst, b...), nil
}

// integer returns v in the unit of t.
func integer(t *avroType, v any) (n int64, ok bool, err error) {
	switch v := v.(type) {
	case time.Time:
		n, err = fromTime(t.logical, v)
		return n, true, err
	case time.Duration:
		switch t.logical {
		case logicalTimeMillis:
			return v.Milliseconds(), true, nil
		case logicalTimeMicros:
			return v.Microseconds(), true, nil
		}
	}
	return toInt(v)
}

func fromTime(logical string, t time.Time) (int64, error) {
	if y := t.Year(); y < -290000 || y > 290000 {
		return 0, errRange
	}
	switch logical {
	case logicalTimestampMicros, logicalLocalTimestampMicros:
		return t.UnixMicro(), nil
	case logicalTimestampMillis, logicalLocalTimestampMillis:
		return t.UnixMilli(), nil
	case logicalTimestampNanos, logicalLocalTimestampNanos:
		if n := t.UnixNano(); time.Unix(0, n).Equal(t) {
			return n, nil
		}
		return 0, errRange
	case logicalDate:
		return floorDiv(t.Unix(), 86400), nil
	}
	return 0, errors.New("must be an integer without a unit of time, not a time")
}

func floorDiv(a, b int64) int64 {
	if q := a / b; a%b >= 0 {
		return q
	}
	return a/b - 1
}

func toInt(v any) (n int64, ok bool, err error) {
	switch v := v.(type) {
	case int:
		return int64(v), true, nil
	case int64:
		return v, true, nil
	case int32:
		return int64(v), true, nil
	case int16:
		return int64(v), true, nil
	case int8:
		return int64(v), true, nil
	case uint:
		return fromUint(uint64(v))
	case uint64:
		return fromUint(v)
	case uint32:
		return int64(v), true, nil
	case uint16:
		return int64(v), true, nil
	case uint8:
		return int64(v), true, nil
	case time.Duration:
		return int64(v), true, nil
	case json.Number:
		n, err := v.Int64()
		if errors.Is(err, strconv.ErrRange) {
			return 0, true, errRange
		}
		return n, err == nil, nil
	case float64: // an integer that was decoded from JSON
		if n = int64(v); v >= -1<<53 && v <= 1<<53 && float64(n) == v {
			return n, true, nil
		}
	}
	return 0, false, nil
}

func fromUint(v uint64) (int64, bool, error) {
	if v > math.MaxInt64 {
		return 0, true, errRange
	}
	return int64(v), true, nil
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case float32:
		return float64(v), true
	case json.Number: // the schema permits a double, if one is close to it
		f, err := v.Float64()
		return f, err == nil
	}
	n, ok, err := toInt(v)
	return float64(n), ok && err == nil
}
