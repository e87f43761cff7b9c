package record

import (
	"encoding/json"
	"strconv"
	"time"
)

// AppendText appends a value of structured data for human readers: text and bytes unchanged, nothing for nil, a time in
// RFC 3339, and everything else as in JSON. For example, 1e6 is 1000000, and a list is ["a",1]. It fails where
// AppendValue does.
func AppendText(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return dst, nil
	case string:
		return append(dst, v...), nil
	case []byte:
		return append(dst, v...), nil
	case json.Number:
		return append(dst, v...), nil
	case time.Time:
		return AppendTime(dst, v), nil
	case map[string]any:
		if v == nil {
			return dst, nil
		}
	case []any:
		if v == nil {
			return dst, nil
		}
	case float64:
		return appendFloatText(dst, v, 64), nil
	case float32:
		return appendFloatText(dst, float64(v), 32), nil
	}
	return AppendValue(dst, v)
}

// Text returns the output of AppendText.
func Text(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	}
	b, err := AppendText(nil, v)
	return string(b), err
}

// appendFloatText is appendFloat without quotes around numbers that JSON does not have.
func appendFloatText(dst []byte, f float64, bits int) []byte {
	n := len(dst)
	if dst = appendFloat(dst, f, bits); dst[n] == '"' {
		dst = append(dst[:n], dst[n+1:len(dst)-1]...)
	}
	return dst
}
