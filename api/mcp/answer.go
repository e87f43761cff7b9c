package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits on answers: the context of a model is small.
const (
	maxAnswer = 24 << 10 // bytes
	maxItem   = 6 << 10  // bytes of an item of a list
)

// list is a part of a list.
type list struct {
	Items []json.RawMessage `json:"items"`
	More  string            `json:"more,omitempty"` // how to get the rest
}

// listed returns items up to the limit of an answer. rest describes how to get the items after the first n; it is also
// called when all items are shown, and returns "" if there are no more.
func listed[T any](items []T, rest func(shown int) string) (list, error) {
	l, size := list{Items: []json.RawMessage{}}, 0
	for i := range items {
		text, err := compact(items[i])
		if err != nil {
			return l, err
		}
		if text, err = shortened(text); err != nil {
			return l, err
		}
		if size += len(text); size > maxAnswer && len(l.Items) > 0 {
			break
		}
		l.Items = append(l.Items, text)
	}
	l.More = rest(len(l.Items))
	return l, nil
}

// shortened returns an item of a list, or only the beginning of a long one as text.
func shortened(item json.RawMessage) (json.RawMessage, error) {
	if len(item) <= maxItem {
		return item, nil
	}
	return compact(map[string]any{"beginning": string(item[:whole(item, maxItem)]), "bytes": len(item),
		"cut": "this item is too long for an answer"})
}

// whole returns n, or less, so that the text ends with a whole character.
func whole(text []byte, n int) int {
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// compact returns v as JSON without HTML escapes, which only cost a model.
func compact(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("cannot encode the answer: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// part is an argument of tools whose text can be longer than an answer.
type part struct {
	Offset int `json:"offset,omitempty" jsonschema:"byte of the text to begin with, as a cut answer says"`
}

// excerpt returns the part of a text, or of the JSON of any other value, that begins at the offset.
func (p part) excerpt(v any) (any, error) {
	text, ok := v.(string)
	if !ok {
		encoded, err := compact(v)
		if err != nil {
			return nil, err
		}
		text = string(encoded)
	}
	if p.Offset < 0 || p.Offset > len(text) {
		return nil, fmt.Errorf("offset %d is outside the text, which has %d bytes", p.Offset, len(text))
	}
	shown, more := cut(text, p.Offset)
	if more != "" {
		shown += "\nmore: " + more
	}
	return shown, nil
}

// cut returns the part of a text that begins at offset and fits into an answer, and a description of how to get the
// rest, "" if there is none.
func cut(text string, offset int) (shown, more string) {
	rest := text[offset:]
	if len(rest) <= maxAnswer {
		return rest, ""
	}
	n := whole([]byte(rest), maxAnswer)
	return rest[:n], fmt.Sprintf("these are bytes %d to %d of %d; call again with offset %d", offset, offset+n,
		len(text), offset+n)
}

// textOf returns the text of an answer.
func textOf(answer any) string {
	if text, ok := answer.(string); ok {
		return text
	}
	text, err := compact(answer)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// contains reports whether text contains part, whatever the case.
func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// limited returns limit, or usual if it is 0, within 1 and most.
func limited(limit, usual, most int) int {
	if limit == 0 {
		limit = usual
	}
	return min(max(limit, 1), most)
}
