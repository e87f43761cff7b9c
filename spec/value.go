package spec

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/schemas"
)

// Value returns the text of the field at the path of a Change in p. ok is false when p, which may be nil, has no field
// there, or several.
func Value(p *Pipeline, path string) (text string, ok bool) {
	encoded, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings, numbers, maps and slices can always be encoded
	}
	var at any
	_ = json.Unmarshal(encoded, &at) // valid, as it was just encoded
	for token := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		token = schemas.UnescapePointer(token)
		switch v := at.(type) {
		case map[string]any:
			at = v[token]
		case []any:
			at = withID(v, token)
		default:
			return "", false
		}
	}
	switch v := at.(type) {
	case string:
		return v, true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

// withID returns the element of list that has the id, nil if none has.
func withID(list []any, id string) any {
	i := slices.IndexFunc(list, func(v any) bool {
		fields, ok := v.(map[string]any)
		return ok && fields["id"] == id
	})
	if i < 0 {
		return nil
	}
	return list[i]
}
