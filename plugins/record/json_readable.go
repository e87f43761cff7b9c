package record

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// bytesPrefix is the prefix of bytes that are not text in the readable form of a record.
const bytesPrefix = "base64:"

// AppendReadable appends r on one line in the form for human readers: like AppendJSON, but with the position and raw
// data as text. Bytes that are not UTF-8, and text that begins with "base64:", are written as that prefix and base64,
// so that ParseReadable returns the same bytes. Bytes within structured data are written in the same way. HTML
// characters are not escaped.
func AppendReadable(dst []byte, r *Record) ([]byte, error) {
	start := len(dst)
	dst = append(dst, `{"position":`...)
	dst = appendReadableBytes(dst, r.Position)
	dst = append(dst, `,"operation":"`...)
	dst = append(dst, r.Operation.String()...)
	dst = append(dst, `","metadata":`...)
	dst = appendMetadata(dst, r.Metadata, "{}")
	dst, err := appendDatas(dst, r, Data.appendReadable)
	if err != nil {
		return dst, err
	}
	return append(dst[:start], withoutHTMLEscapes(append(dst[start:], '}', '}'))...), nil
}

// withoutHTMLEscapes replaces, in place, the JSON escapes that only HTML requires.
func withoutHTMLEscapes(text []byte) []byte {
	kept := text[:0]
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '\\' || i+1 == len(text) {
			kept = append(kept, c)
			continue
		}
		if text[i+1] == 'u' && i+6 <= len(text) {
			if plain, ok := htmlEscapes[string(text[i+2:i+6])]; ok {
				kept = append(kept, plain)
				i += 5
				continue
			}
		}
		kept = append(kept, c, text[i+1])
		i++
	}
	return kept
}

var htmlEscapes = map[string]byte{"003c": '<', "003e": '>', "0026": '&'}

func (d Data) appendReadable(dst []byte) ([]byte, error) {
	if d.kind == raw {
		return appendReadableBytes(dst, d.raw), nil
	}
	if m, ok := d.Structured(); ok && hasBytes(m, 0) {
		return appendObject(dst, readableBytes(m).(map[string]any), 0)
	}
	return d.AppendJSON(dst)
}

func appendReadableBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, "null"...)
	}
	return appendString(dst, ReadableBytes(b))
}

// ReadableBytes returns the text for b in the readable form of a record.
func ReadableBytes(b []byte) string {
	if utf8.Valid(b) && !bytes.HasPrefix(b, []byte(bytesPrefix)) {
		return string(b)
	}
	return bytesPrefix + base64.StdEncoding.EncodeToString(b)
}

// ParseReadableBytes is the inverse of ReadableBytes.
func ParseReadableBytes(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, bytesPrefix)
	if !ok {
		return []byte(text), nil
	}
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("cannot read bytes in base64 behind %q: %w", bytesPrefix, err)
	}
	return b, nil
}

// hasBytes reports whether v contains bytes.
func hasBytes(v any, depth int) bool {
	if depth > maxJSONDepth {
		return false // writing the value fails
	}
	switch v := v.(type) {
	case []byte:
		return true
	case map[string]any:
		for _, e := range v {
			if hasBytes(e, depth+1) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if hasBytes(e, depth+1) {
				return true
			}
		}
	}
	return false
}

// readableBytes returns a copy of v with bytes as text.
func readableBytes(v any) any {
	switch v := v.(type) {
	case []byte:
		if v == nil {
			return nil
		}
		return ReadableBytes(v)
	case map[string]any:
		all := make(map[string]any, len(v))
		for k, e := range v {
			all[k] = readableBytes(e)
		}
		return all
	case []any:
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = readableBytes(e)
		}
		return all
	}
	return v
}

// document is the JSON form of a record, or the readable form.
type document struct {
	Position  json.RawMessage `json:"position,omitempty"`
	Operation json.RawMessage `json:"operation,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	Key       json.RawMessage `json:"key,omitempty"`
	Payload   struct {
		Before json.RawMessage `json:"before,omitempty"`
		After  json.RawMessage `json:"after,omitempty"`
	} `json:"payload"`
}

// ParseReadable parses the readable form of a record. Missing members are empty; an unknown member is an error.
func ParseReadable(text []byte) (r Record, err error) {
	var d document
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return r, fmt.Errorf("cannot parse record: %w", err)
	}
	if decoder.More() {
		return r, errors.New("cannot parse record: there is more behind it")
	}
	encode := func(text string) (string, error) {
		b, err := ParseReadableBytes(text)
		return base64.StdEncoding.EncodeToString(b), err
	}
	if err := d.each(encode); err != nil {
		return r, fmt.Errorf("cannot parse record: %w", err)
	}
	plain, err := json.Marshal(d)
	if err != nil {
		return r, fmt.Errorf("cannot parse record: %w", err)
	}
	return r, r.UnmarshalJSON(plain)
}

// Readable converts the output of AppendJSON to the readable form, without changes to structured data.
func Readable(text []byte) ([]byte, error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("cannot parse record: %w", err)
	}
	decode := func(text string) (string, error) {
		b, err := base64.StdEncoding.DecodeString(text)
		return ReadableBytes(b), err
	}
	if err := d.each(decode); err != nil {
		return nil, fmt.Errorf("cannot parse record: %w", err)
	}
	readable, err := json.Marshal(d)
	return withoutHTMLEscapes(readable), err
}

// each replaces the texts of the position and of raw data.
func (d *document) each(replace func(string) (string, error)) error {
	for _, part := range []struct {
		name  string
		value *json.RawMessage
	}{
		{"position", &d.Position}, {"key", &d.Key},
		{"payload.before", &d.Payload.Before}, {"payload.after", &d.Payload.After},
	} {
		if len(*part.value) == 0 || (*part.value)[0] != '"' {
			continue
		}
		var text string
		err := json.Unmarshal(*part.value, &text)
		if err == nil {
			text, err = replace(text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		*part.value = appendString(nil, text)
	}
	return nil
}
