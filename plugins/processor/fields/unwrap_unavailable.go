package fields

import (
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/conduit-agent/conduit/plugins/record"
)

// placeholder is the text that Debezium writes in place of a large value that PostgreSQL did not send because the
// change did not touch it. It appears as text, in the forms of Debezium's binary.handling.mode, or as the MD5 UUID of
// the text.
const placeholder = "__debezium_unavailable_value"

var placeholders = []string{
	placeholder, base64.StdEncoding.EncodeToString([]byte(placeholder)), hex.EncodeToString([]byte(placeholder)),
	"b68a35a7-17ad-35b3-af2a-ae46edb4545a",
}

// isUnavailable reports whether v stands for an unknown value: the placeholder, an array with a placeholder or the
// bytes of a placeholder, or a map with the placeholder as key and value.
func isUnavailable(v any) bool {
	switch v := v.(type) {
	case string:
		return slices.Contains(placeholders, v)
	case []byte:
		return string(v) == placeholder
	case map[string]any:
		return len(v) == 1 && v[placeholder] == placeholder
	case []any:
		return len(v) == 1 && isUnavailable(v[0]) || isBytes(v)
	}
	return false
}

// isBytes reports whether the elements are the bytes of the placeholder as numbers.
func isBytes(elements []any) bool {
	if len(elements) != len(placeholder) {
		return false
	}
	for i, e := range elements {
		var n float64
		switch e := e.(type) {
		case float64:
			n = e
		case int64:
			n = float64(e)
		default:
			return false
		}
		if n != float64(placeholder[i]) {
			return false
		}
	}
	return true
}

// available returns the data without the fields whose values are unknown, and the sorted names of these fields.
func available(d record.Data) (record.Data, []string) {
	fields, _ := d.Structured()
	var unknown []string
	for name, v := range fields {
		if isUnavailable(v) {
			unknown = append(unknown, name)
		}
	}
	if unknown == nil {
		return d, nil
	}
	rest := maps.Clone(fields)
	for _, name := range unknown {
		delete(rest, name)
	}
	slices.Sort(unknown)
	return record.Structured(rest), unknown
}
