package template

import (
	"github.com/conduit-agent/conduit/plugins/record"
)

// view presents a record to a template.
type view struct {
	Position  text
	Operation record.Operation
	Metadata  metadata
	Key       any
	Payload   payload

	record *record.Record
}

type payload struct {
	Before, After any // nil, text or structured
}

// text holds raw bytes that print as text.
type text []byte

// String returns the bytes.
func (t text) String() string { return string(t) }

func viewOf(r *record.Record) view {
	return view{
		Position:  text(r.Position),
		Operation: r.Operation,
		Metadata:  metadata(r.Metadata.Map()),
		Key:       dataOf(r.Key),
		Payload:   payload{dataOf(r.Before), dataOf(r.After)},
		record:    r,
	}
}

func dataOf(d record.Data) any {
	if b, ok := d.Raw(); ok {
		return text(b)
	}
	if m, ok := d.Structured(); ok {
		return structured(m)
	}
	return nil
}

// MarshalJSON returns the JSON form of the record.
func (v view) MarshalJSON() ([]byte, error) { return v.record.MarshalJSON() }

// Bytes returns the JSON form of the record.
func (v view) Bytes() (text, error) {
	b, err := v.record.MarshalJSON()
	return text(b), err
}

// Map returns the record as structured data.
func (v view) Map() map[string]any { return v.record.Map() }

// Clone returns a copy that shares nothing with the record.
func (v view) Clone() view {
	r := v.record.Clone()
	return viewOf(&r)
}
