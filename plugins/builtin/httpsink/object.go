package httpsink

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Member is a member of a JSON object: a text, or a number in Text.
type Member struct {
	Name, Text string
	Number     bool
}

// AppendObject appends a payload as a JSON object on one line: structured data, or text that is a JSON object. Other
// text becomes the member message. The object begins with those of more that the payload does not have.
func AppendObject(dst []byte, payload record.Data, message string, more ...Member) ([]byte, error) {
	start := len(dst)
	dst, has, err := appendObject(dst, payload, message, len(more) > 0)
	if err != nil {
		return dst, err
	}
	var added []byte
	for _, m := range more {
		if has(m.Name) {
			continue
		}
		added = append(record.AppendJSONText(added, m.Name), ':')
		if m.Number {
			added = append(added, m.Text...)
		} else {
			added = record.AppendJSONText(added, m.Text)
		}
		added = append(added, ',')
	}
	if len(added) == 0 {
		return dst, nil
	}
	if rest := dst[start+1:]; len(rest) == len("}") {
		added = added[:len(added)-1]
	}
	dst = append(dst, added...)
	copy(dst[start+1+len(added):], dst[start+1:])
	copy(dst[start+1:], added)
	return dst, nil
}

// appendObject appends the object without further members. has reports whether it has a member; it is nil unless names
// are needed.
func appendObject(
	dst []byte, payload record.Data, message string, names bool,
) (_ []byte, has func(name string) bool, err error) {
	if fields, ok := payload.Structured(); ok {
		if dst, err = payload.AppendJSON(dst); err != nil {
			return dst, nil, fmt.Errorf("cannot encode the payload: %w", err)
		}
		return dst, func(name string) bool { _, ok := fields[name]; return ok }, nil
	}
	raw, _ := payload.Raw()
	if text := bytes.TrimSpace(raw); len(text) > 0 && text[0] == '{' && json.Valid(text) {
		var fields map[string]json.RawMessage
		if names {
			if err := json.Unmarshal(text, &fields); err != nil {
				return dst, nil, fmt.Errorf("cannot decode the payload: %w", err)
			}
		}
		line := bytes.NewBuffer(dst)
		err := json.Compact(line, text) // the text may have line breaks
		return line.Bytes(), func(name string) bool { _, ok := fields[name]; return ok }, err
	}
	if !utf8.Valid(raw) {
		return dst, nil, errors.New("cannot write the record: its payload is neither structured nor UTF-8 text")
	}
	dst = append(record.AppendJSONText(append(dst, '{'), message), ':')
	return append(record.AppendJSONText(dst, string(raw)), '}'), func(name string) bool { return name == message }, nil
}

// TimeOf returns the time of creation of a record, or else the time of reading.
func TimeOf(r *record.Record) (at time.Time, known bool) {
	if at, known = timeIn(r, record.KeyCreatedAt); !known {
		at, known = timeIn(r, record.KeyReadAt)
	}
	return at, known
}

// timeIn returns a time in the metadata. Sources of other authors may write it in RFC 3339.
func timeIn(r *record.Record, name string) (time.Time, bool) {
	text := r.Metadata.Get(name)
	if nanoseconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Unix(0, nanoseconds), true
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, err == nil
}
