package record

import (
	"bytes"
	"reflect"
)

// Data is a record's key or one side of its payload: raw bytes, a structured object, or nothing. The zero Data is
// nothing. Empty raw bytes differ from nothing.
type Data struct {
	raw        []byte
	structured map[string]any
	encoded    *object // replaces structured until the first use
	kind       dataKind
}

type dataKind uint8

const (
	none dataKind = iota
	raw
	structured
)

// Raw returns data with the bytes b. It keeps b.
func Raw(b []byte) Data { return Data{raw: b, kind: raw} }

// Structured returns data with the object m. It keeps m. Values are nil, bool, string, []byte, integers, floats,
// json.Number for a number that none of these can represent exactly (see Number), time.Time, time.Duration, []any and
// map[string]any of the same.
func Structured(m map[string]any) Data { return Data{structured: m, kind: structured} }

// IsNone reports whether d holds nothing.
func (d Data) IsNone() bool { return d.kind == none }

// Raw returns the bytes of raw data, and whether d is raw.
func (d Data) Raw() ([]byte, bool) { return d.raw, d.kind == raw }

// Structured returns the object of structured data, and whether d is structured.
func (d Data) Structured() (map[string]any, bool) { return d.object(), d.kind == structured }

// object returns the object of structured data, nil for other data.
func (d Data) object() map[string]any {
	if d.encoded != nil {
		return d.encoded.get()
	}
	return d.structured
}

// Equal reports whether d and o have the same kind and the same values.
func (d Data) Equal(o Data) bool {
	if d.kind != o.kind {
		return false
	}
	if d.kind == structured {
		return reflect.DeepEqual(d.object(), o.object())
	}
	return bytes.Equal(d.raw, o.raw)
}

// Clone returns a deep copy of d.
func (d Data) Clone() Data {
	if d.encoded != nil {
		return d.encoded.clone()
	}
	d.raw = bytes.Clone(d.raw)
	if d.kind == structured {
		d.structured, _ = CloneValue(d.structured).(map[string]any)
	}
	return d
}

// CloneValue returns a deep copy of a value of structured data. The copy of a value that is nested too deeply for JSON,
// or contains itself, is truncated, and every encoder refuses it, too.
func CloneValue(v any) any {
	c, ok := cloneValue(v, 0)
	if !ok {
		return shallow(v)
	}
	return c
}

// cloneValue returns ok false for a value that is too deep.
func cloneValue(v any, depth int) (_ any, ok bool) {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return v, true
		}
		if depth > maxJSONDepth {
			return nil, false
		}
		m := make(map[string]any, len(v))
		for k, e := range v {
			if m[k], ok = cloneValue(e, depth+1); !ok {
				return nil, false
			}
		}
		return m, true
	case []any:
		if v == nil {
			return v, true
		}
		if depth > maxJSONDepth {
			return nil, false
		}
		s := make([]any, len(v))
		for i, e := range v {
			if s[i], ok = cloneValue(e, depth+1); !ok {
				return nil, false
			}
		}
		return s, true
	case []byte:
		return bytes.Clone(v), true
	}
	return v, true
}

// FromYAML converts a value from a YAML decoder to a value of structured data: a copy whose integers are int64.
func FromYAML(v any) any { return widen(CloneValue(v)) }

func widen(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = widen(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = widen(v[k])
		}
	}
	return v
}
