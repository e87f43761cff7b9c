package sdk

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// debeziumFormat writes records in the JSON form of Debezium.
type debeziumFormat struct {
	Name   string // name of the schema
	RawKey string // name of the single field of an object for raw data that is not a JSON object
}

type connectEnvelope struct {
	Schema  connectSchema  `json:"schema"`
	Payload connectPayload `json:"payload"`
}

type connectPayload struct {
	Before      record.Data       `json:"before"`
	After       record.Data       `json:"after"`
	Source      map[string]string `json:"source"`
	Op          string            `json:"op"`
	Millis      *int64            `json:"ts_ms"`
	Transaction *struct{}         `json:"transaction"`
}

type connectSchema struct {
	Type     string          `json:"type"`
	Optional bool            `json:"optional,omitempty"`
	Name     string          `json:"name,omitempty"`
	Fields   []connectSchema `json:"fields,omitempty"`
	Items    *connectSchema  `json:"items,omitempty"`
	Field    string          `json:"field,omitempty"`
}

// Append appends the text form of r to dst and returns the extended slice. On error it returns dst unchanged.
func (f debeziumFormat) Append(dst []byte, r *record.Record) ([]byte, error) {
	p := connectPayload{
		Before: f.object(r.Before), After: f.object(r.After), Source: source(r.Metadata),
		Op: operation(r.Operation), Millis: readAt(r.Metadata),
	}
	before, after := objectSchema("before", p.Before, p.After), objectSchema("after", p.After, p.Before)
	b, err := json.Marshal(connectEnvelope{Payload: p, Schema: connectSchema{
		Type: "struct", Name: f.Name, Fields: []connectSchema{
			before, after, sourceSchema(r.Metadata),
			{Type: "string", Field: "op"},
			{Type: "int64", Field: "ts_ms", Optional: true},
			{Type: "struct", Field: "transaction", Optional: true, Fields: transactionFields},
		},
	}})
	if err != nil {
		return dst, fmt.Errorf("cannot format the record: %w", err)
	}
	return append(dst, b...), nil
}

// source returns the metadata as JSON values.
func source(m record.Metadata) map[string]string {
	all := m.Map()
	for _, f := range m {
		delete(all, f.Key)
		all[record.ValidName(f.Key)] = record.ValidName(f.Value)
	}
	return all
}

// transactionFields are the fields of the transaction, which is always null.
var transactionFields = []connectSchema{
	{Type: "string", Field: "id"}, {Type: "int64", Field: "total_order"},
	{Type: "int64", Field: "data_collection_order"},
}

// sourceSchema describes the metadata, which is sorted by key.
func sourceSchema(m record.Metadata) connectSchema {
	s := connectSchema{Type: "struct", Field: "source", Optional: true}
	for i := range m {
		s.Fields = append(s.Fields, connectSchema{Type: "string", Field: record.ValidName(m[i].Key)})
	}
	return s
}

// object returns raw data that is a JSON object as structured data, and other raw data as an object with one field.
func (f debeziumFormat) object(data record.Data) record.Data {
	b, ok := data.Raw()
	if !ok {
		return data
	}
	var d record.Data // keeps all digits of numbers
	if d.UnmarshalJSON(b) == nil {
		if m, ok := d.Structured(); ok && m != nil {
			toDoubles(m)
			return d
		}
	}
	return record.Structured(map[string]any{f.RawKey: b})
}

// toDoubles converts the integers in v, an object or a list, to doubles unless that changes their values. JSON has one
// type for numbers, and the type of a field in the schema must not depend on whether its number is an integer.
func toDoubles(v any) {
	double := func(v any) any {
		if n, ok := v.(int64); ok && n >= -1<<53 && n <= 1<<53 {
			return float64(n)
		}
		toDoubles(v)
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = double(v[k])
		}
	case []any:
		for i := range v {
			v[i] = double(v[i])
		}
	}
}

func operation(o record.Operation) string {
	switch o {
	case record.OperationUpdate:
		return "u"
	case record.OperationDelete:
		return "d"
	case record.OperationSnapshot:
		return "r"
	}
	return "c"
}

func readAt(m record.Metadata) *int64 {
	ns, err := strconv.ParseInt(m.Get(record.KeyReadAt), 10, 64)
	if err != nil {
		return nil
	}
	ms := ns / int64(time.Millisecond)
	return &ms
}

// objectSchema describes the data, or, if there is none, the other data of the record, which has the same fields.
func objectSchema(field string, data, other record.Data) connectSchema {
	m, ok := data.Structured()
	if !ok {
		m, _ = other.Structured()
	}
	s := valueSchema(m)
	s.Field, s.Optional = field, true
	return s
}

// valueSchema describes v as record.AppendJSON writes it.
func valueSchema(v any) connectSchema {
	switch v := v.(type) {
	case nil:
		return connectSchema{Type: "string", Optional: true}
	case bool:
		return connectSchema{Type: "boolean"}
	case float32:
		return connectSchema{Type: "float"}
	case float64, json.Number:
		return connectSchema{Type: "double"}
	case []byte:
		return connectSchema{Type: "bytes"}
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, time.Duration:
		return connectSchema{Type: "int64"}
	case []any:
		items := connectSchema{Type: "string", Optional: true}
		if i := slices.IndexFunc(v, func(e any) bool { return e != nil }); i >= 0 {
			items = valueSchema(v[i])
		}
		return connectSchema{Type: "array", Items: &items}
	case map[string]any:
		s := connectSchema{Type: "struct"}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			f := valueSchema(v[k])
			f.Field = record.ValidName(k)
			s.Fields = append(s.Fields, f)
		}
		return s
	}
	return connectSchema{Type: "string"}
}
