package record

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// UnmarshalJSON parses the form that AppendJSON writes. Keys may be missing and unknown ones are ignored. Numbers are
// converted by Number.
func (r *Record) UnmarshalJSON(b []byte) error {
	var in struct {
		Position  []byte            `json:"position"`
		Operation string            `json:"operation"`
		Metadata  map[string]string `json:"metadata"`
		Key       Data              `json:"key"`
		Payload   struct {
			Before Data `json:"before"`
			After  Data `json:"after"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("cannot parse record: %w", err)
	}
	var op Operation
	if in.Operation != "" {
		var err error
		if op, err = ParseOperation(in.Operation); err != nil {
			return fmt.Errorf("cannot parse record: %w", err)
		}
	}
	*r = Record{
		Position:  in.Position,
		Operation: op,
		Metadata:  NewMetadata(in.Metadata),
		Key:       in.Key,
		Before:    in.Payload.Before,
		After:     in.Payload.After,
	}
	return nil
}

// UnmarshalJSON parses the form that AppendJSON writes: a base64 string is raw data, an object structured data, null
// none.
func (d *Data) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	switch {
	case string(b) == "null":
		*d = Data{}
		return nil
	case len(b) > 0 && b[0] == '"':
		v := []byte{}
		if err := json.Unmarshal(b, &v); err != nil {
			return fmt.Errorf("cannot parse raw data: %w", err)
		}
		*d = Raw(v)
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		return fmt.Errorf("cannot parse structured data: %w", err)
	}
	fixNumbers(m)
	*d = Structured(m)
	return nil
}

// fixNumbers converts every json.Number inside v, a map or a slice, with Number.
func fixNumbers(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if n, ok := e.(json.Number); ok {
				v[k] = Number(string(n))
			} else {
				fixNumbers(e)
			}
		}
	case []any:
		for i, e := range v {
			if n, ok := e.(json.Number); ok {
				v[i] = Number(string(n))
			} else {
				fixNumbers(e)
			}
		}
	}
}
