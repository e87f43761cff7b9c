package parquet

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/conduit-agent/conduit/plugins/record"
)

// unfit is the error of a value that does not fit its column.
type unfit struct {
	column *column
	value  any
	reason string // "": the value has another type
}

func (u unfit) Error() string {
	return strings.TrimSpace(fmt.Sprintf("its type is %s, and the value is %s %s", u.column, typeName(u.value), u.reason))
}

// String returns the type of c for errors.
func (c *column) String() string {
	if c.kind == kindDecimal {
		return fmt.Sprintf("DECIMAL(%d,%d)", c.precision, c.scale)
	}
	return [...]string{"NULL", "BOOLEAN", "INT64", "DOUBLE", "text", "text of a decimal", "JSON", "bytes", "TIMESTAMP",
		"TIMESTAMP", "DATE", "TIME", "DECIMAL", "UUID", "LIST", "MAP", "struct"}[c.kind]
}

// typeName returns the type of a value with an article.
func typeName(v any) string {
	switch v.(type) {
	case bool:
		return "a boolean"
	case string:
		return "text"
	case []byte:
		return "bytes"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case time.Time:
		return "a time"
	case time.Duration:
		return "a duration"
	case float32, float64:
		return "a floating-point number"
	case json.Number:
		return "a number"
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return "an integer"
	}
	return fmt.Sprintf("a %T", v)
}

// scalar returns the value of a column without nested columns.
func scalar(c *column, v any) (parquet.Value, error) {
	switch c.kind {
	case kindBoolean:
		if b, ok := v.(bool); ok {
			return parquet.BooleanValue(b), nil
		}
	case kindInteger:
		return integer(c, v)
	case kindFloat:
		return float(c, v)
	case kindText:
		if s, ok := v.(string); ok {
			return text(c, s)
		}
	case kindDigits:
		return digits(c, v)
	case kindJSON, kindStruct:
		if c.kind == kindJSON || len(c.fields) == 0 && isObject(v) {
			b, err := record.AppendValue(nil, v)
			return parquet.ByteArrayValue(b), err
		}
	case kindBytes:
		if b, ok := v.([]byte); ok {
			return parquet.ByteArrayValue(b), nil
		}
	case kindTimestamp, kindDatetime, kindDate:
		if t, ok := v.(time.Time); ok {
			return instant(c, t)
		}
	case kindTime:
		if d, ok := v.(time.Duration); ok {
			return timeOfDay(c, d)
		}
	case kindDecimal:
		return decimal(c, v)
	case kindUUID:
		return uuid(c, v)
	}
	return parquet.Value{}, unfit{c, v, ""}
}

func isObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

const (
	notInteger = "that an integer of 64 bits cannot represent"
	notFloat   = "that a DOUBLE cannot represent exactly"
)

// integer returns an integer, also for a float that is one.
func integer(c *column, v any) (parquet.Value, error) {
	var n int64
	ok := true
	switch v := v.(type) {
	case int:
		n = int64(v)
	case int64:
		n = v
	case int32:
		n = int64(v)
	case int16:
		n = int64(v)
	case int8:
		n = int64(v)
	case uint:
		n, ok = int64(v), uint64(v) <= math.MaxInt64
	case uint64:
		n, ok = int64(v), v <= math.MaxInt64
	case uint32:
		n = int64(v)
	case uint16:
		n = int64(v)
	case uint8:
		n = int64(v)
	case float32:
		return integer(c, float64(v))
	case float64:
		if n, ok = whole(v); !ok {
			return parquet.Value{}, unfit{c, v, notInteger}
		}
	case json.Number:
		var err error
		n, err = v.Int64()
		ok = err == nil
	default:
		return parquet.Value{}, unfit{c, v, ""}
	}
	if !ok {
		return parquet.Value{}, unfit{c, v, notInteger}
	}
	return parquet.Int64Value(n), nil
}

// whole returns f as an integer, and whether neither its value nor its sign changes.
func whole(f float64) (n int64, ok bool) {
	if f >= -1<<53 && f <= 1<<53 && f == math.Trunc(f) && !(f == 0 && math.Signbit(f)) {
		return int64(f), true
	}
	return 0, false
}

// float returns a floating-point number, also for an integer that is exact as one.
func float(c *column, v any) (parquet.Value, error) {
	switch v := v.(type) {
	case float64:
		return parquet.DoubleValue(v), nil
	case float32:
		return parquet.DoubleValue(float64(v)), nil
	case json.Number:
		if f, exact := record.ExactFloat(string(v)); exact {
			return parquet.DoubleValue(f), nil
		}
		return parquet.Value{}, unfit{c, v, notFloat}
	}
	n, err := integer(c, v)
	if err != nil {
		return parquet.Value{}, err
	}
	f := float64(n.Int64())
	if f >= 1<<63 || int64(f) != n.Int64() {
		return parquet.Value{}, unfit{c, v, notFloat}
	}
	return parquet.DoubleValue(f), nil
}

// text returns UTF-8 text: readers refuse a file with other text.
func text(c *column, s string) (parquet.Value, error) {
	if !utf8.ValidString(s) {
		return parquet.Value{}, unfit{c, s, "that is not UTF-8"}
	}
	return parquet.ByteArrayValue([]byte(s)), nil
}

// digits returns the text of a decimal.
func digits(c *column, v any) (parquet.Value, error) {
	s, err := numberText(v)
	if err != nil {
		return parquet.Value{}, unfit{c, v, ""}
	}
	return text(c, s)
}

// numberText returns a number as text. Text stays as it is.
func numberText(v any) (string, error) {
	switch v.(type) {
	case string, json.Number, float32, float64, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return record.Text(v)
	}
	return "", errors.New("not a number")
}

// hasNanos reports whether v is a time that microseconds cannot represent.
func hasNanos(v any) bool {
	switch v := v.(type) {
	case time.Time:
		return v.Nanosecond()%1000 != 0
	case time.Duration:
		return v%time.Microsecond != 0
	}
	return false
}

const secondsPerDay = 24 * 60 * 60

// instant returns the value of a timestamp or a date.
func instant(c *column, t time.Time) (parquet.Value, error) {
	var n int64
	switch year := t.Year(); {
	case year < -290000 || year > 290000:
		return parquet.Value{}, unfit{c, t, "out of range"}
	case c.kind == kindDate:
		if t.Unix()%secondsPerDay != 0 || t.Nanosecond() != 0 {
			return parquet.Value{}, unfit{c, t, "with a time of day"}
		}
		return parquet.Int32Value(int32(t.Unix() / secondsPerDay)), nil
	case c.nanos:
		if n = t.UnixNano(); !time.Unix(0, n).Equal(t) {
			return parquet.Value{}, unfit{c, t, "outside of the years that nanoseconds can represent, 1678 to 2261"}
		}
	case hasNanos(t):
		return parquet.Value{}, unfit{c, t, "that microseconds cannot represent"}
	default:
		n = t.UnixMicro()
	}
	return parquet.Int64Value(n), nil
}

func timeOfDay(c *column, d time.Duration) (parquet.Value, error) {
	switch {
	case d < 0 || d >= 24*time.Hour:
		return parquet.Value{}, unfit{c, d, "that is not a time of day"}
	case c.nanos:
		return parquet.Int64Value(d.Nanoseconds()), nil
	case hasNanos(d):
		return parquet.Value{}, unfit{c, d, "that microseconds cannot represent"}
	}
	return parquet.Int64Value(d.Microseconds()), nil
}

// maxDecimal bounds the text and the exponent of a number for a decimal column.
const maxDecimal = 1000

// decimal returns a decimal as a big-endian number in two's complement of 16 bytes.
func decimal(c *column, v any) (parquet.Value, error) {
	s, err := numberText(v)
	if err != nil {
		return parquet.Value{}, unfit{c, v, ""}
	}
	n, ok := unscaled(s, c.scale)
	if !ok {
		return parquet.Value{}, unfit{c, v, fmt.Sprintf("that is not a number with at most %d decimal places", c.scale)}
	}
	if len(new(big.Int).Abs(n).String()) > c.precision {
		return parquet.Value{}, unfit{c, v, fmt.Sprintf("that has more than %d digits", c.precision)}
	}
	if n.Sign() < 0 {
		n.Add(n, new(big.Int).Lsh(big.NewInt(1), 8*decimalBytes))
	}
	return parquet.FixedLenByteArrayValue(n.FillBytes(make([]byte, decimalBytes))), nil
}

// unscaled returns the number in s times 10^scale, if that is an integer.
func unscaled(s string, scale int) (*big.Int, bool) {
	if len(s) > maxDecimal || strings.ContainsAny(s, "/_xXpPoObB") { // big.Rat accepts more than numbers
		return nil, false
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		if e, err := strconv.Atoi(s[i+1:]); err != nil || e > maxDecimal || e < -maxDecimal {
			return nil, false
		}
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, false
	}
	r.Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)))
	return new(big.Int).Set(r.Num()), r.IsInt()
}

func uuid(c *column, v any) (parquet.Value, error) {
	s, ok := v.(string)
	if !ok {
		return parquet.Value{}, unfit{c, v, ""}
	}
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != 16 {
		return parquet.Value{}, unfit{c, v, "that is not a UUID"}
	}
	return parquet.FixedLenByteArrayValue(b), nil
}
