package http

import (
	"bytes"
	"fmt"
	"mime"
	"strings"

	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/record"
)

// The forms of a body.
const (
	bodyAuto  = "auto"
	bodyRaw   = "raw"
	bodyLines = "lines"
	bodyJSON  = "json"
)

// split returns the payloads in a body.
func split(form, contentType string, body []byte) ([]record.Data, error) {
	if form == bodyAuto {
		form = formOf(contentType)
	}
	switch form {
	case bodyLines:
		return splitLines(body), nil
	case bodyJSON:
		return splitJSON(body)
	}
	if len(body) == 0 {
		return nil, nil
	}
	return []record.Data{record.Raw(body)}, nil
}

func formOf(contentType string) string {
	kind, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
		return bodyRaw
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		return bodyJSON
	case kind == "application/x-ndjson" || kind == "application/jsonl" || kind == "application/x-jsonlines":
		return bodyLines
	}
	return bodyRaw
}

// splitLines returns each line that is not empty.
func splitLines(body []byte) []record.Data {
	all := make([]record.Data, 0, bytes.Count(body, []byte{'\n'})+1)
	for line := range bytes.Lines(body) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) > 0 {
			all = append(all, record.Raw(line[:len(line):len(line)]))
		}
	}
	return all
}

// splitJSON returns the elements of an array, or else the one value. Objects become structured
// payloads, other values stay text.
func splitJSON(body []byte) ([]record.Data, error) {
	value, err := jsonvalue.Parse(body)
	if err != nil {
		return nil, fmt.Errorf("the body is not one JSON value: %w", err)
	}
	return payloadsOf(value)
}

func payloadsOf(value any) ([]record.Data, error) {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	all := make([]record.Data, len(list))
	for i, v := range list {
		if object, ok := v.(map[string]any); ok {
			all[i] = record.Structured(object)
			continue
		}
		text, err := record.AppendValue(nil, v)
		if err != nil {
			return nil, err
		}
		all[i] = record.Raw(text)
	}
	return all, nil
}
