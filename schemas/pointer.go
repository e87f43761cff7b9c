package schemas

import (
	"strconv"
	"strings"
)

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// EscapePointer returns name as a token of a JSON pointer (RFC 6901), such as /pipelines/0/connectors/1/settings/path.
func EscapePointer(name string) string { return escaper.Replace(name) }

// UnescapePointer undoes EscapePointer.
func UnescapePointer(token string) string { return unescaper.Replace(token) }

// AtPointer returns the value in v at a JSON pointer, or nil if there is none. v consists of map[string]any and []any.
// The empty pointer returns v.
func AtPointer(v any, pointer string) any {
	if pointer == "" {
		return v
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		switch in := v.(type) {
		case map[string]any:
			v = in[UnescapePointer(token)]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}
