package record

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// AppendInspectJSON appends r in the form of the REST API and its inspector, the protobuf JSON mapping of
// opencdc.v1.Record with every field present:
// {"position":"MQ==","operation":"OPERATION_CREATE","metadata":{},"key":{"rawData":"aw=="},
// "payload":{"before":null,"after":{"structuredData":{}}}}.
func AppendInspectJSON(dst []byte, r *Record) ([]byte, error) {
	dst = append(dst, `{"position":`...)
	dst = appendBase64NotNull(dst, r.Position)
	dst = append(dst, `,"operation":`...)
	dst = appendOperationName(dst, r.Operation)
	dst = append(dst, `,"metadata":`...)
	dst = appendMetadata(dst, r.Metadata, "{}")
	dst, err := appendDatas(dst, r, Data.appendInspectJSON)
	if err != nil {
		return dst, err
	}
	return append(dst, '}', '}'), nil
}

// ParseInspectJSON parses the form that AppendInspectJSON writes.
func ParseInspectJSON(text []byte) (r Record, err error) {
	type data struct {
		Raw        []byte          `json:"rawData"`
		Structured json.RawMessage `json:"structuredData"`
	}
	var in struct {
		Position  []byte            `json:"position"`
		Operation string            `json:"operation"`
		Metadata  map[string]string `json:"metadata"`
		Key       *data             `json:"key"`
		Payload   struct {
			Before *data `json:"before"`
			After  *data `json:"after"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return r, fmt.Errorf("cannot parse record: %w", err)
	}
	r = Record{Position: in.Position, Metadata: NewMetadata(in.Metadata)}
	if name := strings.ToLower(strings.TrimPrefix(in.Operation, "OPERATION_")); name != "unspecified" {
		if r.Operation, err = ParseOperation(name); err != nil {
			return r, fmt.Errorf("cannot parse record: %w", err)
		}
	}
	for to, from := range map[*Data]*data{&r.Key: in.Key, &r.Before: in.Payload.Before, &r.After: in.Payload.After} {
		switch {
		case from == nil:
		case from.Structured != nil:
			if err := to.UnmarshalJSON(from.Structured); err != nil {
				return r, err
			}
		default:
			*to = Raw(append([]byte{}, from.Raw...))
		}
	}
	return r, nil
}

func (d Data) appendInspectJSON(dst []byte) ([]byte, error) {
	switch d.kind {
	case raw:
		dst = append(dst, `{"rawData":`...)
		dst = appendBase64NotNull(dst, d.raw)
		return append(dst, '}'), nil
	case structured:
		dst = append(dst, `{"structuredData":`...)
		m := d.object()
		if m == nil {
			m = map[string]any{}
		}
		dst, err := appendObject(dst, m, 0)
		return append(dst, '}'), err
	}
	return append(dst, "null"...), nil
}

// appendOperationName appends the operation's name in the protobuf enumeration, or its number if it has no name.
func appendOperationName(dst []byte, o Operation) []byte {
	switch {
	case o == 0:
		return append(dst, `"OPERATION_UNSPECIFIED"`...)
	case o > 0 && int(o) < len(operationNames):
		dst = append(dst, `"OPERATION_`...)
		dst = append(dst, strings.ToUpper(operationNames[o])...)
		return append(dst, '"')
	}
	return strconv.AppendInt(dst, int64(o), 10)
}

func appendBase64NotNull(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}
