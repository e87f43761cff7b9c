package prometheus

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
)

// NaNs of Prometheus: that of missing results, and the marker for the end of a series.
const (
	nanBits   = 0x7ff8000000000001
	staleBits = 0x7ff0000000000002
)

const stale = "StaleNaN"

// valueOf returns a value as structured data. NaN and infinities, which JSON cannot express, become texts that keep
// their bits.
func valueOf(bits uint64) any {
	f := math.Float64frombits(bits)
	switch {
	case bits == staleBits:
		return stale
	case bits == nanBits:
		return "NaN"
	case math.IsNaN(f):
		return fmt.Sprintf("NaN(%#016x)", bits)
	case math.IsInf(f, 1):
		return "+Inf"
	case math.IsInf(f, -1):
		return "-Inf"
	}
	return f
}

var errNoNumber = errors.New("it is no number")

// bitsOf is the inverse of valueOf. It accepts numbers of all types, and texts that are numbers.
func bitsOf(v any) (uint64, error) {
	switch v := v.(type) {
	case float64:
		return math.Float64bits(v), nil
	case string:
		return parseValue(v)
	case json.Number:
		return parseValue(v.String())
	case int64:
		return math.Float64bits(float64(v)), nil
	case nil:
		return 0, errNoNumber
	}
	text, err := record.AppendValue(nil, v)
	if err != nil || !record.IsNumber(text) {
		return 0, errNoNumber
	}
	return parseValue(string(text))
}

func parseValue(text string) (uint64, error) {
	text = strings.TrimSpace(text)
	if text == stale {
		return staleBits, nil
	}
	if digits, ok := strings.CutPrefix(text, "NaN(0x"); ok {
		bits, err := strconv.ParseUint(strings.TrimSuffix(digits, ")"), 16, 64)
		if err != nil || !math.IsNaN(math.Float64frombits(bits)) {
			return 0, fmt.Errorf("%.64q is no NaN", text)
		}
		return bits, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("the number %.64q is too large", text)
	case err != nil:
		return 0, fmt.Errorf("%.64q is no number", text)
	case math.IsNaN(f):
		return nanBits, nil
	}
	return math.Float64bits(f), nil
}

// wholeOf returns a value as an integer.
func wholeOf(v any) (int64, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case float64:
		if v == math.Trunc(v) && v >= math.MinInt64 && v < math.MaxInt64 {
			return int64(v), nil
		}
	case nil:
	default:
		if text, err := record.AppendValue(nil, v); err == nil {
			if n, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64); err == nil {
				return n, nil
			}
		}
	}
	return 0, errors.New("it is no whole number of 64 bits")
}

// unsignedOf returns a value as an unsigned integer.
func unsignedOf(v any) (uint64, error) {
	if n, err := wholeOf(v); err == nil && n >= 0 {
		return uint64(n), nil
	}
	text, err := record.AppendValue(nil, v)
	if err == nil {
		var n uint64
		if n, err = strconv.ParseUint(strings.Trim(string(text), `"`), 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, errors.New("it is no whole number from 0 to 2⁶⁴-1")
}

// unsignedValue returns an unsigned integer as structured data. Only numbers above 63 bits keep their type.
func unsignedValue(n uint64) any {
	if n > math.MaxInt64 {
		return n
	}
	return int64(n)
}
