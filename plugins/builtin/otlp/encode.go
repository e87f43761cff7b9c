package otlp

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/conduit-agent/conduit/plugins/record"
)

// encoder makes messages of payloads. It is the inverse of decoder.
type encoder struct {
	types map[string]string // value of keyTypes
	path  []step
}

func (e *encoder) enter(s step) { e.path = append(e.path, s) }
func (e *encoder) leave()       { e.path = e.path[:len(e.path)-1] }

// typeOf returns the type of the value at the current path, "" if its form tells.
func (e *encoder) typeOf() string {
	if len(e.types) == 0 {
		return ""
	}
	return e.types[pointer(e.path)]
}

// value returns the message for a value of structured data. A whole number is an integer, unless keyTypes says that it
// is not: numbers lose their type where they become JSON.
func (e *encoder) value(v any, depth int) (*common.AnyValue, error) {
	if depth > 2*maxDepth { // more than the source allows, because processors nest values
		return nil, errDepth
	}
	switch v := v.(type) {
	case nil:
		return &common.AnyValue{}, nil
	case bool:
		return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: v}}, nil
	case string:
		return e.text(v)
	case []byte:
		return bytesValue(v), nil
	case []any:
		return e.list(v, depth)
	case map[string]any:
		all, err := e.keyValues(v, depth+1)
		return &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{Values: all}}},
			err
	case time.Duration:
		return textValue(v.String()), nil
	case time.Time:
		return textValue(string(record.AppendTime(nil, v))), nil
	}
	return e.number(v)
}

func textValue(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}

func bytesValue(b []byte) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_BytesValue{BytesValue: b}}
}

func doubleValue(f float64) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: f}}
}

// text returns the message for a text. Bytes and special numbers became texts where the record became JSON.
func (e *encoder) text(s string) (*common.AnyValue, error) {
	switch e.typeOf() {
	case typeBytes:
		if b, err := base64.StdEncoding.DecodeString(s); err == nil {
			return bytesValue(b), nil
		}
	case typeDouble:
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return doubleValue(f), nil
		}
	}
	if !utf8.ValidString(s) {
		return bytesValue([]byte(s)), nil
	}
	return textValue(s), nil
}

func (e *encoder) list(v []any, depth int) (*common.AnyValue, error) {
	all := make([]*common.AnyValue, len(v))
	for i, one := range v {
		e.enter(step{index: i, list: true})
		var err error
		if all[i], err = e.value(one, depth+1); err != nil {
			return nil, err
		}
		e.leave()
	}
	return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: all}}}, nil
}

// number returns the message for a number: an integer, a double, or a text if the number fits neither.
func (e *encoder) number(v any) (*common.AnyValue, error) {
	f, isFloat := asFloat(v)
	if e.typeOf() == typeDouble && isFloat {
		return doubleValue(f), nil
	}
	if n, ok := asInt(v); ok {
		return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: n}}, nil
	}
	switch v.(type) {
	case float32, float64:
		return doubleValue(f), nil
	}
	text, err := record.Text(v)
	return textValue(text), err
}

// asInt returns v as an integer, if it is a whole number of 64 bits.
func asInt(v any) (int64, bool) {
	switch v := v.(type) {
	case float64:
		return wholeNumber(v)
	case float32:
		return wholeNumber(float64(v))
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 64)
		return n, err == nil
	}
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return r.Int(), true
	case r.CanUint():
		return int64(r.Uint()), r.Uint() <= math.MaxInt64
	}
	return 0, false
}

// asUint returns v as an integer without a sign, if it is a whole number of 64 bits.
func asUint(v any) (uint64, bool) {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && v >= 0 && v < math.MaxUint64 {
			return uint64(v), true
		}
	case uint64:
		return v, true
	case json.Number:
		n, err := strconv.ParseUint(v.String(), 10, 64)
		return n, err == nil
	}
	n, ok := asInt(v)
	return uint64(n), ok && n >= 0
}

// asFloat returns v as a double. Not-a-number and infinity may be texts.
func asFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case float32:
		return float64(v), true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case string:
		switch v {
		case "NaN", "Infinity", "-Infinity":
			f, err := strconv.ParseFloat(v, 64)
			return f, err == nil
		}
		return 0, false
	}
	if n, ok := asInt(v); ok {
		return float64(n), true
	}
	n, ok := asUint(v)
	return float64(n), ok
}

// keyValues returns an object as attributes, sorted by key.
func (e *encoder) keyValues(o map[string]any, depth int) ([]*common.KeyValue, error) {
	all := make([]*common.KeyValue, 0, len(o))
	for _, key := range slices.Sorted(maps.Keys(o)) {
		e.enter(step{key: key})
		v, err := e.value(o[key], depth)
		if err != nil {
			return nil, err
		}
		e.leave()
		all = append(all, &common.KeyValue{Key: record.ValidName(key), Value: v})
	}
	return all, nil
}

// fields reads the fields of an object. Its methods return zero for a missing field. The first error is kept: a field
// of another type, or in the end one that was not read, because it would be lost.
type fields struct {
	encoder *encoder
	values  map[string]any
	read    int // number of existing fields that were read
	known   []string
	err     error
}

func (e *encoder) fields(o map[string]any) *fields { return &fields{encoder: e, values: o} }

func (f *fields) get(key string) (any, bool) {
	v, ok := f.values[key]
	if f.known = append(f.known, key); ok {
		f.read++
	}
	return v, ok && v != nil
}

func (f *fields) fail(key, want string) {
	if f.err == nil {
		f.err = fmt.Errorf("the field %q is not %s", key, want)
	}
}

// end returns the first error. what names the object.
func (f *fields) end(what string) error {
	if f.err != nil || f.read == len(f.values) {
		return f.err
	}
	for _, key := range slices.Sorted(maps.Keys(f.values)) {
		if !slices.Contains(f.known, key) {
			return fmt.Errorf("%s has no field %q: move it to attributes, or remove it", what, key)
		}
	}
	return nil
}

func (f *fields) text(key string) string {
	v, ok := f.get(key)
	if !ok {
		return ""
	}
	s, ok := v.(string)
	if !ok || !utf8.ValidString(s) {
		f.fail(key, "text in UTF-8")
		return ""
	}
	return s
}

func (f *fields) bool(key string) bool {
	v, ok := f.get(key)
	b, isBool := v.(bool)
	if ok && !isBool {
		f.fail(key, "a boolean")
	}
	return b
}

func (f *fields) int(key string) int64 {
	v, ok := f.get(key)
	n, isInt := asInt(v)
	if ok && !isInt {
		f.fail(key, "a whole number")
	}
	return n
}

func (f *fields) int32(key string) int32 {
	n := f.int(key)
	if n != int64(int32(n)) {
		f.fail(key, "a whole number of 32 bits")
	}
	return int32(n)
}

func (f *fields) uint32(key string) uint32 {
	n := f.int(key)
	if n != int64(uint32(n)) {
		f.fail(key, "a positive whole number of 32 bits")
	}
	return uint32(n)
}

func (f *fields) uint(key string) uint64 {
	v, ok := f.get(key)
	n, isInt := asUint(v)
	if ok && !isInt {
		f.fail(key, "a positive whole number")
	}
	return n
}

func (f *fields) float(key string) *float64 {
	v, ok := f.get(key)
	if !ok {
		return nil
	}
	n, isNumber := asFloat(v)
	if !isNumber {
		f.fail(key, "a number")
	}
	return &n
}

// name returns the number of an enumerated value: the index of a name, or a number.
func (f *fields) name(key string, names []string) int32 {
	v, ok := f.get(key)
	if !ok {
		return 0
	}
	if s, isText := v.(string); isText {
		if i := slices.Index(names, s); i >= 0 {
			return int32(i)
		}
	} else if n, isInt := asInt(v); isInt && n == int64(int32(n)) {
		return int32(n)
	}
	f.fail(key, fmt.Sprintf("one of %q", names[1:]))
	return 0
}

// time returns a time in Unix nanoseconds.
func (f *fields) time(key string) uint64 {
	v, ok := f.get(key)
	if !ok {
		return 0
	}
	n, err := nanoseconds(v)
	if err != nil {
		f.fail(key, "a time: "+err.Error())
	}
	return n
}

// nanoseconds returns a time, a text in RFC 3339, or a number of nanoseconds, as Unix nanoseconds.
func nanoseconds(v any) (uint64, error) {
	if s, ok := v.(string); ok {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return 0, errors.New("it must be in the form 2006-01-02T15:04:05Z, or a number of nanoseconds since 1970")
		}
		v = t
	}
	if t, ok := v.(time.Time); ok {
		high, low := bits.Mul64(uint64(t.Unix()), 1_000_000_000) // negative seconds overflow
		low, carry := bits.Add64(low, uint64(t.Nanosecond()), 0)
		if high+carry > 0 {
			return 0, errors.New("it must be between 1970 and 2554")
		}
		return low, nil
	}
	n, ok := asUint(v)
	if !ok {
		return 0, errors.New("it must be a time, or a number of nanoseconds since 1970")
	}
	return n, nil
}

// id returns a trace or span id.
func (f *fields) id(key string, size int) []byte {
	digits := f.text(key)
	if digits == "" {
		return nil
	}
	id, err := hex.DecodeString(digits)
	if err != nil || len(id) != size {
		f.fail(key, fmt.Sprintf("an id of %d hexadecimal digits", 2*size))
	}
	return id
}

// object returns an object.
func (f *fields) object(key string) (map[string]any, bool) {
	v, ok := f.get(key)
	o, isObject := v.(map[string]any)
	if ok && !isObject {
		f.fail(key, "an object")
	}
	return o, isObject
}

func (f *fields) list(key string) []any {
	v, ok := f.get(key)
	all, isList := v.([]any)
	if ok && !isList {
		f.fail(key, "a list")
	}
	return all
}

func (f *fields) texts(key string) []string {
	return listOf(f, key, "texts in UTF-8", func(v any) (string, bool) {
		s, ok := v.(string)
		return s, ok && utf8.ValidString(s)
	})
}

func (f *fields) counts(key string) []uint64 { return listOf(f, key, "positive whole numbers", asUint) }

func (f *fields) floats(key string) []float64 { return listOf(f, key, "numbers", asFloat) }

// listOf returns the values of a list, each of which as must accept. what names them in an error.
func listOf[T any](f *fields, key, what string, as func(any) (T, bool)) (all []T) {
	for _, v := range f.list(key) {
		one, ok := as(v)
		if !ok {
			f.fail(key, "a list of "+what)
		}
		all = append(all, one)
	}
	return all
}

func (f *fields) attributes(key string) []*common.KeyValue {
	o, ok := f.object(key)
	if !ok || f.err != nil {
		return nil
	}
	f.encoder.enter(step{key: key})
	all, err := f.encoder.keyValues(o, 1)
	if err != nil {
		f.err = err
		return nil
	}
	f.encoder.leave()
	return all
}

// encodeList returns a list of objects as messages.
func encodeList[T any](f *fields, key, what string, encode func(*fields) T) (all []T) {
	f.encoder.enter(step{key: key})
	for i, v := range f.list(key) {
		o, ok := v.(map[string]any)
		if !ok {
			f.fail(key, "a list of objects")
		}
		if f.err != nil {
			return nil
		}
		f.encoder.enter(step{index: i, list: true})
		inner := f.encoder.fields(o)
		one := encode(inner)
		if err := inner.end(what); err != nil {
			f.err = fmt.Errorf("%s: %w", key, err)
			return nil
		}
		f.encoder.leave()
		all = append(all, one)
	}
	f.encoder.leave()
	return all
}

// head returns resource and scope.
func (e *encoder) head(res, scope map[string]any) (h head, err error) {
	if res != nil {
		e.enter(step{key: "resource"})
		f := e.fields(res)
		h.resourceURL = f.text("schemaUrl")
		h.resource = &resource.Resource{Attributes: f.attributes("attributes"),
			DroppedAttributesCount: f.uint32("droppedAttributesCount"),
			EntityRefs: encodeList(f, "entityRefs", "an entity reference", func(f *fields) *common.EntityRef {
				return &common.EntityRef{SchemaUrl: f.text("schemaUrl"), Type: f.text("type"),
					IdKeys:          f.texts("idKeys"),
					DescriptionKeys: f.texts("descriptionKeys")}
			})}
		if err := f.end("a resource"); err != nil {
			return h, fmt.Errorf("resource: %w", err)
		}
		e.leave()
	}
	if scope != nil {
		e.enter(step{key: "scope"})
		f := e.fields(scope)
		h.scopeURL = f.text("schemaUrl")
		h.scope = &common.InstrumentationScope{Name: f.text("name"), Version: f.text("version"),
			Attributes: f.attributes("attributes"), DroppedAttributesCount: f.uint32("droppedAttributesCount")}
		if err := f.end("a scope"); err != nil {
			return h, fmt.Errorf("scope: %w", err)
		}
		e.leave()
	}
	return h, nil
}
