package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/hamba/avro/v2"
)

// maxDepth bounds the nesting of values.
const maxDepth = 100

var (
	errTooDeep = errors.New("nested too deeply")
	errRange   = errors.New("number out of range")
)

func appendValue(dst []byte, s avro.Schema, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	s = deref(s)
	switch s := s.(type) {
	case *avro.UnionSchema:
		return appendUnion(dst, s, v, depth)
	case *avro.RecordSchema:
		if m, ok := v.(map[string]any); ok {
			return appendRecord(dst, s, m, depth)
		}
	case *avro.MapSchema:
		if m, ok := v.(map[string]any); ok {
			return appendMap(dst, s, m, depth)
		}
	case *avro.ArraySchema:
		if a, ok := v.([]any); ok {
			return appendArray(dst, s, a, depth)
		}
	case *avro.EnumSchema:
		if i := slices.Index(s.Symbols(), fmt.Sprint(v)); i >= 0 {
			return binary.AppendVarint(dst, int64(i)), nil
		}
	case *avro.FixedSchema:
		return appendFixed(dst, s, v)
	case *avro.NullSchema:
		if v == nil {
			return dst, nil
		}
	case *avro.PrimitiveSchema:
		return appendPrimitive(dst, s, v)
	}
	return nil, mismatch(s, v)
}

func mismatch(s avro.Schema, v any) error {
	if l := logical(s); l != "" {
		return fmt.Errorf("a %T is no %s (%s)", v, s.Type(), l)
	}
	return fmt.Errorf("a %T is no %s", v, s.Type())
}

func appendRecord(dst []byte, s *avro.RecordSchema, m map[string]any, depth int) ([]byte, error) {
	var err error
	known := 0
	for _, f := range s.Fields() {
		v, ok := m[f.Name()]
		if ok {
			known++
		} else if v, err = missing(f); err != nil {
			return nil, err
		}
		if dst, err = appendValue(dst, f.Type(), v, depth+1); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	if known < len(m) {
		return nil, unknownField(s, m)
	}
	return dst, nil
}

// missing returns what stands for a field that the object does not have.
func missing(f *avro.Field) (any, error) {
	if f.HasDefault() {
		return plainDefault(f.Default()), nil
	}
	switch t := deref(f.Type()).(type) {
	case *avro.NullSchema:
		return nil, nil
	case *avro.UnionSchema:
		if slices.ContainsFunc(t.Types(), func(s avro.Schema) bool { return s.Type() == avro.Null }) {
			return nil, nil
		}
	}
	return nil, fmt.Errorf("%s: is missing", f.Name())
}

// plainDefault turns the array that stands for the default of a fixed into bytes.
func plainDefault(def any) any {
	if v := reflect.ValueOf(def); v.IsValid() && v.Kind() == reflect.Array {
		b := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(b), v)
		return b
	}
	return def
}

func unknownField(s *avro.RecordSchema, m map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.ContainsFunc(s.Fields(), func(f *avro.Field) bool { return f.Name() == name }) {
			return fmt.Errorf("%s: is not in the schema", name)
		}
	}
	return nil
}

func appendMap(dst []byte, s *avro.MapSchema, m map[string]any, depth int) ([]byte, error) {
	if len(m) > 0 {
		dst = binary.AppendVarint(dst, int64(len(m)))
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		var err error
		if dst, err = appendValue(appendString(dst, k), s.Values(), m[k], depth+1); err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
	}
	return append(dst, 0), nil
}

func appendArray(dst []byte, s *avro.ArraySchema, a []any, depth int) ([]byte, error) {
	if len(a) > 0 {
		dst = binary.AppendVarint(dst, int64(len(a)))
	}
	for i, v := range a {
		var err error
		if dst, err = appendValue(dst, s.Items(), v, depth+1); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return append(dst, 0), nil
}

// appendUnion takes the branch that is made for v, or else the first that can hold it.
func appendUnion(dst []byte, s *avro.UnionSchema, v any, depth int) ([]byte, error) {
	k := kindOf(v)
	for pass := range 2 {
		for i, t := range s.Types() {
			if natural := naturalKind(deref(t)) == k; natural != (pass == 0) {
				continue
			}
			if out, err := appendValue(binary.AppendVarint(dst, int64(i)), t, v, depth+1); err == nil {
				return out, nil
			} else if pass == 0 && len(s.Types()) == 2 && s.Nullable() {
				return nil, err // the only branch there is for v knows best
			}
		}
	}
	return nil, fmt.Errorf("no branch of the union holds a %T", v)
}

// naturalKind returns the kind of values that s is made for.
func naturalKind(s avro.Schema) kind {
	switch s.Type() {
	case avro.Null:
		return kindNull
	case avro.Boolean:
		return kindBool
	case avro.Int, avro.Long:
		switch logical(s) {
		case "", avro.TimeMillis, avro.TimeMicros:
			return kindLong
		}
		return kindTime
	case avro.Float, avro.Double:
		return kindDouble
	case avro.String, avro.Enum:
		return kindString
	case avro.Bytes, avro.Fixed:
		return kindBytes
	case avro.Array:
		return kindArray
	}
	return kindObject
}

func appendPrimitive(dst []byte, s *avro.PrimitiveSchema, v any) ([]byte, error) {
	switch s.Type() {
	case avro.Boolean:
		if b, ok := v.(bool); ok {
			return append(dst, map[bool]byte{true: 1}[b]), nil
		}
	case avro.Int, avro.Long:
		n, ok, err := integer(s, v)
		if err == nil && s.Type() == avro.Int && n != int64(int32(n)) {
			err = errRange
		}
		if ok {
			return binary.AppendVarint(dst, n), err
		}
	case avro.Float:
		if f, ok := toFloat(v); ok {
			return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(f))), nil
		}
	case avro.Double:
		if f, ok := toFloat(v); ok {
			return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f)), nil
		}
	case avro.String, avro.Bytes:
		if d, ok := decimalOf(s); ok {
			b, err := decimalBytes(d, v, 0)
			return append(binary.AppendVarint(dst, int64(len(b))), b...), err
		}
		switch v := v.(type) {
		case string:
			return appendString(dst, v), nil
		case []byte:
			return append(binary.AppendVarint(dst, int64(len(v))), v...), nil
		}
	}
	return nil, mismatch(s, v)
}

func appendString(dst []byte, v string) []byte {
	return append(binary.AppendVarint(dst, int64(len(v))), v...)
}

func appendFixed(dst []byte, s *avro.FixedSchema, v any) ([]byte, error) {
	if d, ok := decimalOf(s); ok {
		b, err := decimalBytes(d, v, s.Size())
		return append(dst, b...), err
	}
	b, ok := v.([]byte)
	if !ok || len(b) != s.Size() {
		return nil, fmt.Errorf("want %d bytes", s.Size())
	}
	return append(dst, b...), nil
}

// integer returns v in the unit of s.
func integer(s avro.Schema, v any) (n int64, ok bool, err error) {
	switch v := v.(type) {
	case time.Time:
		n, err = fromTime(logical(s), v)
		return n, true, err
	case time.Duration:
		switch logical(s) {
		case avro.TimeMillis:
			return v.Milliseconds(), true, nil
		case avro.TimeMicros:
			return v.Microseconds(), true, nil
		}
	}
	return toInt(v)
}

func fromTime(l avro.LogicalType, t time.Time) (int64, error) {
	if y := t.Year(); y < -290000 || y > 290000 {
		return 0, errRange
	}
	switch l {
	case avro.TimestampMicros, avro.LocalTimestampMicros:
		return t.UnixMicro(), nil
	case avro.TimestampMillis, avro.LocalTimestampMillis:
		return t.UnixMilli(), nil
	case avro.Date:
		return floorDiv(t.Unix(), 86400), nil
	}
	return 0, errors.New("a time.Time is no plain integer")
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
	case float64: // a whole number that came through JSON
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
	}
	n, ok, err := toInt(v)
	return float64(n), ok && err == nil
}
