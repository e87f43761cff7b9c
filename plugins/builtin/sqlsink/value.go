package sqlsink

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// plain converts v to nil, bool, int64, float64, string, []byte or time.Time. JSON numbers are exact; a number without
// an exact form stays text, and NaN becomes text. Nested values become JSON.
func plain(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, int64, string, []byte, time.Time:
		return v, nil
	case float64:
		return notNaN(v), nil
	case json.Number:
		return number(v), nil
	case int:
		return int64(v), nil
	case int8:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint:
		return unsigned(uint64(v)), nil
	case uint64:
		return unsigned(v), nil
	case float32:
		// Use the shortest decimal for this float32, without the additional digits of the float64.
		f, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
		return notNaN(f), err
	case time.Duration:
		return int64(v), nil
	}
	text, err := record.AppendValue(nil, v)
	return string(text), err
}

// notNaN returns f, or a text if f is NaN, which SQLite would store as NULL.
func notNaN(f float64) any {
	if math.IsNaN(f) {
		return "NaN"
	}
	return f
}

func unsigned(n uint64) any {
	if n>>63 == 0 {
		return int64(n)
	}
	return strconv.FormatUint(n, 10)
}

func number(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	if f, err := n.Float64(); err == nil && strconv.FormatFloat(f, 'f', -1, 64) == n.String() {
		return f
	}
	return n.String()
}
