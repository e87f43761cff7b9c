package sdk

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// debezium writes records as Kafka Connect does for Debezium: a schema and a payload.
type debezium struct {
	Name   string `json:"debezium.schema.name"`
	RawKey string `json:"debezium.rawData.key" default:"opencdc.rawData"`
}

func newDebezium(options string) (Format, error) {
	settings := map[string]string{}
	for _, option := range splitList(options) {
		if option == "" {
			continue
		}
		k, v, ok := strings.Cut(option, "=")
		if !ok {
			return nil, fmt.Errorf("cannot read the option %q: want name=value", option)
		}
		settings[k] = v
	}
	var d debezium
	if err := Decode(settings, &d); err != nil {
		return nil, err
	}
	return d.format, nil
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
	Optional bool            `json:"optional"`
	Field    string          `json:"field,omitempty"`
	Name     string          `json:"name,omitempty"`
	Fields   []connectSchema `json:"fields,omitempty"`
	Items    *connectSchema  `json:"items,omitempty"`
	Keys     *connectSchema  `json:"keys,omitempty"`
	Values   *connectSchema  `json:"values,omitempty"`
}

func (d debezium) format(dst []byte, r *record.Record) ([]byte, error) {
	p := connectPayload{
		Before: d.object(r.Before), After: d.object(r.After), Source: r.Metadata.Map(),
		Op: debeziumOp(r.Operation), Millis: readAt(r.Metadata),
	}
	text := &connectSchema{Type: "string"}
	b, err := json.Marshal(connectEnvelope{Payload: p, Schema: connectSchema{
		Type: "struct", Name: d.Name, Fields: []connectSchema{
			objectSchema("before", p.Before),
			objectSchema("after", p.After),
			{Type: "map", Field: "source", Optional: true, Keys: text, Values: text},
			{Type: "string", Field: "op"},
			{Type: "int64", Field: "ts_ms", Optional: true},
			{Type: "struct", Field: "transaction", Optional: true},
		},
	}})
	if err != nil {
		return dst, fmt.Errorf("cannot format the record: %w", err)
	}
	return append(dst, b...), nil
}

// object gives raw data the form of an object with one field.
func (d debezium) object(data record.Data) record.Data {
	if b, ok := data.Raw(); ok {
		return record.Structured(map[string]any{d.RawKey: b})
	}
	return data
}

func debeziumOp(o record.Operation) string {
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

func objectSchema(field string, d record.Data) connectSchema {
	m, _ := d.Structured()
	s := valueSchema(m)
	s.Field = field
	return s
}

// valueSchema describes v as record.AppendJSON writes it. Anything may be null.
func valueSchema(v any) connectSchema {
	s := connectSchema{Type: "string", Optional: true}
	switch v := v.(type) {
	case bool:
		s.Type = "boolean"
	case float32, float64:
		s.Type = "double"
	case []byte:
		s.Type = "bytes"
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, time.Duration:
		s.Type = "int64"
	case []any:
		s.Type = "array"
		var first any
		if i := slices.IndexFunc(v, func(e any) bool { return e != nil }); i >= 0 {
			first = v[i]
		}
		items := valueSchema(first)
		s.Items = &items
	case map[string]any:
		s.Type = "struct"
		for _, k := range slices.Sorted(maps.Keys(v)) {
			f := valueSchema(v[k])
			f.Field = k
			s.Fields = append(s.Fields, f)
		}
	}
	return s
}
