package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// recordDocument is a record as the agent shows it, with unchanged numbers and order of fields.
type recordDocument struct {
	Position  []byte            `json:"position"`
	Operation string            `json:"operation"`
	Metadata  map[string]string `json:"metadata"`
	Key       *content          `json:"key"`
	Payload   struct {
		Before *content `json:"before"`
		After  *content `json:"after"`
	} `json:"payload"`
}

// content is raw or structured data.
type content struct {
	Raw        []byte          `json:"rawData"`
	Structured json.RawMessage `json:"structuredData"`
}

// writeRecord writes record number n for people: a field to a line, with text as text.
func writeRecord(w io.Writer, n int, text []byte, paint func(text, color string) string) error {
	var r recordDocument
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("cannot read a record: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, paint(fmt.Sprintf("record %d: %s", n,
		strings.ToLower(strings.TrimPrefix(r.Operation, "OPERATION_"))), terminal.Cyan))
	field := func(name, value string) {
		value = strings.ReplaceAll(strings.TrimRight(terminal.Clean(value), "\n"), "\n", "\n            ")
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("  %-8s  %s", name, value), " "))
	}
	field("position", plain(r.Position))
	for i, key := range slices.Sorted(maps.Keys(r.Metadata)) {
		name := ""
		if i == 0 {
			name = "metadata"
		}
		field(name, key+" = "+terminal.OneLine(r.Metadata[key]))
	}
	for _, part := range []struct {
		name string
		data *content
	}{{"key", r.Key}, {"before", r.Payload.Before}, {"after", r.Payload.After}} {
		if value, ok := dataText(part.data); ok {
			field(part.name, value)
		}
	}
	_, err := w.Write(append(b.Bytes(), '\n'))
	return err
}

// dataText returns a key or a payload for people; ok is false when there is none.
func dataText(data *content) (text string, ok bool) {
	switch {
	case data == nil:
		return "", false
	case data.Structured != nil:
		return indented(data.Structured), true
	case len(data.Raw) > 0 && strings.ContainsRune("{[", rune(data.Raw[0])):
		return indented(data.Raw), true
	}
	return plain(data.Raw), true
}

// indented returns JSON on several lines.
func indented(text []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return plain(text)
	}
	return b.String()
}

// plain returns bytes as text if they are text, line breaks included, or else in hexadecimal.
func plain(raw []byte) string {
	text := string(raw)
	if utf8.Valid(raw) && terminal.IsPrintable(strings.Map(withoutSpace, text)) {
		return text
	}
	const most = 256
	if len(raw) > most {
		return fmt.Sprintf("% x … (%d bytes, not text)", raw[:most], len(raw))
	}
	return fmt.Sprintf("% x (%s, not text)", raw, terminal.Count(len(raw), "byte"))
}

// withoutSpace removes characters that break lines.
func withoutSpace(r rune) rune {
	if r == '\n' || r == '\t' || r == '\r' {
		return -1
	}
	return r
}
