package deadletter

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// exactKey introduces the last member of the JSON form of a record. It contains the record in binary if JSON changes
// the types of values, such as bytes, times and NaN, so that a replay has the values of the refused record.
const exactKey = `,"exact":"`

// appendExact appends the binary form of r to its JSON form, if the JSON form loses information.
func appendExact(body []byte, r *record.Record) []byte {
	if isJSONExact(r) {
		return body
	}
	var e spoollog.RecordEncoder
	e.Reset(nil)
	if e.Append(r) != nil { // a value without a binary form
		return body
	}
	body = append(body[:len(body)-1], exactKey...)
	body = base64.StdEncoding.AppendEncode(body, e.Take())
	return append(body, `"}`...)
}

// withoutExact returns the JSON form of a record without the binary one.
func withoutExact(body []byte) []byte {
	if i := bytes.LastIndex(body, []byte(exactKey)); i >= 0 &&
		bytes.IndexByte(body[i+len(exactKey):], '"') == len(body)-i-len(exactKey)-len(`"}`) {
		return append(bytes.Clone(body[:i]), '}')
	}
	return body
}

// decode decodes the record in body.
func decode(body []byte) (record.Record, error) {
	var r record.Record
	if err := r.UnmarshalJSON(body); err != nil || len(withoutExact(body)) == len(body) {
		return r, err
	}
	var kept struct {
		Exact []byte `json:"exact"`
	}
	if err := json.Unmarshal(body, &kept); err != nil {
		return r, fmt.Errorf("cannot parse the stored record: %w", err)
	}
	all, err := spoollog.DecodeRecords(nil, kept.Exact, 1)
	if err != nil {
		return r, fmt.Errorf("cannot decode the stored record: %w", err)
	}
	all[0].Position = r.Position // Position has no binary form
	return all[0], nil
}

// maxExactDepth is deeper than the data of any record with a binary form.
const maxExactDepth = 2000

// isJSONExact reports whether decoding the JSON form of r restores the values of r. It does not distinguish kinds of
// integers.
func isJSONExact(r *record.Record) bool {
	for _, f := range r.Metadata {
		if !utf8.ValidString(f.Key) || !utf8.ValidString(f.Value) {
			return false
		}
	}
	for _, d := range []record.Data{r.Key, r.Before, r.After} {
		if m, ok := d.Structured(); ok && !isValueExact(m, 0) {
			return false
		}
	}
	return true
}

func isValueExact(v any, depth int) bool {
	if depth > maxExactDepth {
		return false // too deep: its JSON form contains an error
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if !utf8.ValidString(k) || !isValueExact(e, depth+1) {
				return false
			}
		}
	case []any:
		for _, e := range v {
			if !isValueExact(e, depth+1) {
				return false
			}
		}
	case string:
		return utf8.ValidString(v)
	case float64:
		return !math.IsNaN(v) && !math.IsInf(v, 0)
	case float32:
		return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
	case []byte, time.Time, time.Duration:
		return false
	}
	return true
}
