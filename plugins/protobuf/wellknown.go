package protobuf

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
)

// special is a well-known type whose value is no object with the fields as members.
type special struct {
	decode func(d *decoding, m protoreflect.MessageDescriptor, b []byte, depth int) (any, error)
	encode func(e *encoding, dst []byte, m protoreflect.MessageDescriptor, v any, depth int) ([]byte, error)
}

var wellKnown map[protoreflect.FullName]special

func init() {
	wellKnown = map[protoreflect.FullName]special{
		"google.protobuf.Any":       {decodeAny, encodeAny},
		"google.protobuf.Timestamp": fromFields(decodeTimestamp, encodeTimestamp),
		"google.protobuf.Duration":  fromFields(decodeDuration, encodeDuration),
		"google.protobuf.FieldMask": fromFields(decodeMask, encodeMask),
		"google.protobuf.Struct":    fromFields(decodeStruct, encodeStruct),
		"google.protobuf.ListValue": fromFields(decodeList, encodeList),
		"google.protobuf.Value":     fromFields(decodeValue, encodeValue),
	}
	for _, kind := range []string{"Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes"} {
		wellKnown[protoreflect.FullName("google.protobuf."+kind+"Value")] = special{decodeWrapper, encodeWrapper}
	}
}

// fromFields makes a special of functions between the value and the fields of the message.
func fromFields(decode func(fields map[string]any) (any, error), encode func(v any) (map[string]any, error)) special {
	return special{
		func(d *decoding, m protoreflect.MessageDescriptor, b []byte, depth int) (any, error) {
			plain := *d
			plain.ProtoNames, plain.Defaults = true, false
			fields, err := plain.object(m, b, depth)
			if err != nil {
				return nil, err
			}
			v, err := decode(fields)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.FullName(), err)
			}
			return v, nil
		},
		func(e *encoding, dst []byte, m protoreflect.MessageDescriptor, v any, depth int) ([]byte, error) {
			fields, err := encode(v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.FullName(), err)
			}
			return e.object(dst, m, fields, depth)
		},
	}
}

const (
	minSeconds, maxSeconds = -62135596800, 253402300799 // of the years 1 to 9999
	maxDuration            = 315576000000               // in seconds
)

func secondsAndNanos(fields map[string]any) (seconds, nanos int64) {
	seconds, _ = fields["seconds"].(int64)
	nanos, _ = fields["nanos"].(int64)
	return seconds, nanos
}

func decodeTimestamp(fields map[string]any) (any, error) {
	seconds, nanos := secondsAndNanos(fields)
	if seconds < minSeconds || seconds > maxSeconds || nanos < 0 || nanos > 999999999 {
		return nil, errors.New("it is not in the years 1 to 9999")
	}
	return time.Unix(seconds, nanos).UTC(), nil
}

func encodeTimestamp(v any) (map[string]any, error) {
	t, ok := v.(time.Time)
	if text, is := v.(string); is {
		var err error
		if t, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return nil, errors.New("want a time of RFC 3339")
		}
		ok = true
	}
	if !ok {
		return nil, fmt.Errorf("want a time, not %s", fieldref.Kind(v))
	}
	if t.Unix() < minSeconds || t.Unix() > maxSeconds {
		return nil, errors.New("it is not in the years 1 to 9999")
	}
	return map[string]any{"seconds": t.Unix(), "nanos": int64(t.Nanosecond())}, nil
}

func decodeDuration(fields map[string]any) (any, error) {
	seconds, nanos := secondsAndNanos(fields)
	if max(seconds, -seconds) > maxDuration || seconds == math.MinInt64 || max(nanos, -nanos) > 999999999 ||
		seconds < 0 && nanos > 0 || seconds > 0 && nanos < 0 {
		return nil, errors.New("its seconds and nanoseconds are no duration")
	}
	sign := ""
	if seconds < 0 || nanos < 0 {
		sign = "-"
	}
	text := fmt.Sprintf("%s%d.%09d", sign, max(seconds, -seconds), max(nanos, -nanos))
	for range 3 { // 0, 3, 6 or 9 digits, as in the JSON mapping
		text = strings.TrimSuffix(text, "000")
	}
	return strings.TrimSuffix(text, ".") + "s", nil
}

func encodeDuration(v any) (map[string]any, error) {
	if d, ok := v.(time.Duration); ok {
		return map[string]any{"seconds": int64(d / time.Second), "nanos": int64(d % time.Second)}, nil
	}
	text, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("want a duration such as 1.5s, not %s", fieldref.Kind(v))
	}
	number, seconds := strings.CutSuffix(text, "s")
	number, negative := strings.CutPrefix(number, "-")
	whole, fraction, point := strings.Cut(number, ".")
	s, ok := digits(whole, 12)
	n, fine := digits(fraction+strings.Repeat("0", max(0, 9-len(fraction))), 9)
	if !seconds || !ok || !fine || point && fraction == "" || s > maxDuration || s == maxDuration && n > 0 {
		return nil, errors.New("want seconds such as 1.5s, with at most nine digits after the point")
	}
	if negative {
		s, n = -s, -n
	}
	return map[string]any{"seconds": s, "nanos": n}, nil
}

// digits returns the number of at most n digits.
func digits(text string, n int) (number int64, ok bool) {
	if text == "" || len(text) > n {
		return 0, false
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		number = 10*number + int64(c-'0')
	}
	return number, true
}

func decodeMask(fields map[string]any) (any, error) {
	paths, _ := fields["paths"].([]any)
	all := make([]string, len(paths))
	for i, p := range paths {
		path, _ := p.(string)
		if all[i] = camelCase(path); snakeCase(all[i]) != path || !protoreflect.FullName(path).IsValid() {
			return nil, fmt.Errorf("the path %q has no form in JSON", path)
		}
	}
	return strings.Join(all, ","), nil
}

func encodeMask(v any) (map[string]any, error) {
	text, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("want a text of paths, not %s", fieldref.Kind(v))
	}
	if text == "" {
		return nil, nil
	}
	paths := []any{}
	for path := range strings.SplitSeq(text, ",") {
		snake := snakeCase(path)
		if camelCase(snake) != path || !protoreflect.FullName(snake).IsValid() || strings.Contains(path, "_") {
			return nil, fmt.Errorf("%q is no path", path)
		}
		paths = append(paths, snake)
	}
	return map[string]any{"paths": paths}, nil
}

func camelCase(path string) string {
	var b strings.Builder
	upper := false
	for _, c := range []byte(path) {
		switch {
		case c == '_':
			upper = true
			continue
		case upper && c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		}
		upper = false
		b.WriteByte(c)
	}
	return b.String()
}

func snakeCase(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

func decodeStruct(fields map[string]any) (any, error) {
	if members, ok := fields["fields"].(map[string]any); ok {
		return members, nil
	}
	return map[string]any{}, nil
}

func encodeStruct(v any) (map[string]any, error) {
	if _, ok := v.(map[string]any); !ok {
		return nil, fmt.Errorf("want an object, not %s", fieldref.Kind(v))
	}
	return map[string]any{"fields": v}, nil
}

func decodeList(fields map[string]any) (any, error) {
	if values, ok := fields["values"].([]any); ok {
		return values, nil
	}
	return []any{}, nil
}

func encodeList(v any) (map[string]any, error) {
	if _, ok := v.([]any); !ok {
		return nil, fmt.Errorf("want a list, not %s", fieldref.Kind(v))
	}
	return map[string]any{"values": v}, nil
}

func decodeValue(fields map[string]any) (any, error) {
	for name, v := range fields {
		if _, isText := v.(string); isText && name == "number_value" {
			return nil, fmt.Errorf("JSON has no number %s", v)
		}
		return v, nil
	}
	return nil, errors.New("it has no value")
}

func encodeValue(v any) (map[string]any, error) {
	switch v.(type) {
	case nil:
		return map[string]any{"null_value": "NULL_VALUE"}, nil
	case bool:
		return map[string]any{"bool_value": v}, nil
	case string:
		return map[string]any{"string_value": v}, nil
	case map[string]any:
		return map[string]any{"struct_value": v}, nil
	case []any:
		return map[string]any{"list_value": v}, nil
	case []byte, time.Time, time.Duration:
		return nil, fmt.Errorf("want a value of JSON, not %s", fieldref.Kind(v))
	}
	return map[string]any{"number_value": v}, nil
}

func decodeWrapper(d *decoding, m protoreflect.MessageDescriptor, b []byte, depth int) (any, error) {
	plain := *d
	plain.Defaults = true
	fields, err := plain.object(m, b, depth)
	return fields["value"], err
}

func encodeWrapper(
	e *encoding, dst []byte, m protoreflect.MessageDescriptor, v any, depth int,
) ([]byte, error) {
	return e.object(dst, m, map[string]any{"value": v}, depth)
}

func decodeAny(d *decoding, m protoreflect.MessageDescriptor, b []byte, depth int) (any, error) {
	plain := *d
	plain.ProtoNames, plain.Defaults = true, false
	fields, err := plain.object(m, b, depth)
	if err != nil || len(fields) == 0 {
		return fields, err
	}
	url, _ := fields["type_url"].(string)
	content, _ := fields["value"].([]byte)
	inner, err := d.types.any(url)
	if err != nil {
		return nil, err
	}
	v, err := d.message(inner, content, depth+1)
	if err != nil {
		return nil, err
	}
	if _, is := wellKnown[inner.FullName()]; is {
		return map[string]any{typeName: url, "value": v}, nil
	}
	made := v.(map[string]any)
	made[typeName] = url
	return made, nil
}

// empty is a type without fields. In a google.protobuf.Any, some senders add its value.
const empty = "google.protobuf.Empty"

func encodeAny(e *encoding, dst []byte, m protoreflect.MessageDescriptor, v any, depth int) ([]byte, error) {
	members, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: want an object, not %s", m.FullName(), fieldref.Kind(v))
	}
	if len(members) == 0 {
		return dst, nil
	}
	url, ok := members[typeName].(string)
	if !ok {
		return nil, fmt.Errorf("%s: the object has no %s", m.FullName(), typeName)
	}
	inner, err := e.types.any(url)
	if err != nil {
		return nil, err
	}
	rest := make(map[string]any, len(members))
	for name, v := range members {
		if name != typeName {
			rest[name] = v
		}
	}
	content := any(rest)
	_, is := wellKnown[inner.FullName()]
	if _, value := rest["value"]; is || value && inner.FullName() == empty {
		if content, ok = rest["value"]; !ok || len(rest) != 1 {
			return nil, fmt.Errorf("%s: want the members %s and value for %s", m.FullName(), typeName, inner.FullName())
		}
	}
	b, err := e.message(nil, inner, content, depth+1)
	if err != nil {
		return nil, err
	}
	return e.object(dst, m, map[string]any{"type_url": url, "value": b}, depth)
}
