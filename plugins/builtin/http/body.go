package http

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"strings"

	"github.com/conduit-agent/conduit/plugins/charset"
	"github.com/conduit-agent/conduit/plugins/csv"
	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/record"
)

// Formats of a body.
const (
	bodyAuto  = "auto"
	bodyRaw   = "raw"
	bodyLines = "lines"
	bodyJSON  = "json"
	bodyCSV   = "csv"
)

// payloads are the payloads of a body. They become records one at a time: a body of 8 MB may have millions.
type payloads struct {
	left     int // number of remaining payloads
	lines    []byte
	elements *jsonvalue.Elements
	table    *csv.Table // of lines; nil: they are no CSV
	raw      []byte
}

// split validates a body, and returns its payloads. limit is the maximum memory of a payload, in bytes. If leave is
// not nil, larger elements of an array and lines that do not fit the header of CSV are omitted, and leave is called
// with the number of each.
func (s *sourceSettings) split(
	contentType string, body []byte, limit int, leave func(n int, err error),
) (*payloads, error) {
	form := s.Body
	if form == bodyAuto {
		form = formOf(contentType)
	}
	body, err := decoded(form, contentType, body)
	if err != nil {
		return nil, err
	}
	switch {
	case form == bodyLines:
		p := &payloads{lines: body}
		for line := range bytes.Lines(body) {
			if len(bytes.TrimRight(line, "\r\n")) > 0 {
				p.left++
			}
		}
		return p, nil
	case form == bodyCSV:
		return splitCSV(s.csv, body, leave)
	case form == bodyJSON:
		elements, err := jsonvalue.ParseElements(body, limit, leave)
		if err != nil {
			return nil, fmt.Errorf("the body is not one JSON value: %w", err)
		}
		return &payloads{left: elements.Left, elements: elements}, nil
	case len(body) == 0:
		return &payloads{}, nil
	}
	return &payloads{left: 1, raw: body}, nil
}

// errEncoding is wrapped by the error for a body whose text cannot be decoded.
var errEncoding = errors.New("cannot decode the text of the body")

// decoded converts text to UTF-8: JSON, CSV, and lines if the content type names an encoding. Other bodies are returned
// as they are.
func decoded(form, contentType string, body []byte) ([]byte, error) {
	name := charset.Of(contentType)
	if form == bodyRaw || form == bodyLines && name == "" {
		return body, nil
	}
	text, err := charset.UTF8(body, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEncoding, err)
	}
	return text, nil
}

// next returns the next n payloads. Objects are structured; other JSON values stay text.
func (p *payloads) next(n int) ([]record.Data, error) {
	n = min(n, p.left)
	p.left -= n
	switch {
	case n == 0:
		return nil, nil
	case p.elements != nil:
		return p.nextElements(n)
	case p.table != nil:
		return p.nextObjects(n), nil
	case p.lines == nil:
		return []record.Data{record.Raw(p.raw)}, nil
	}
	all := make([]record.Data, 0, n)
	for len(all) < n {
		line, rest, _ := bytes.Cut(p.lines, []byte{'\n'})
		p.lines = rest
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
			all = append(all, record.Raw(line[:len(line):len(line)]))
		}
	}
	return all, nil
}

func (p *payloads) nextElements(n int) ([]record.Data, error) {
	all := make([]record.Data, n)
	for i := range all {
		v, err := p.elements.Next()
		if err != nil {
			return nil, err
		}
		if all[i], err = payloadOf(v); err != nil {
			return nil, err
		}
	}
	return all, nil
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

// payloadsOf returns the elements of an array; any other value is the only payload.
func payloadsOf(value any) ([]record.Data, error) {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	all := make([]record.Data, len(list))
	for i, v := range list {
		var err error
		if all[i], err = payloadOf(v); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func payloadOf(v any) (record.Data, error) {
	if object, ok := v.(map[string]any); ok {
		return record.Structured(object), nil
	}
	text, err := record.AppendValue(nil, v)
	return record.Raw(text), err
}
