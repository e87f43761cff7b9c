package otlp

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/conduit-agent/conduit/plugins/record"
)

const (
	traceIDBytes = 16
	spanIDBytes  = 8

	// maxDepth is the maximum nesting of values. Encoders of records allow much more.
	maxDepth = 100
)

// Types in keyTypes.
const (
	typeDouble = "double" // a whole number, NaN or infinity
	typeBytes  = "bytes"
)

// decoder makes payloads of messages. It collects the types of values that JSON does not tell apart.
type decoder struct {
	path  []step
	types []typed
}

// step is a part of a JSON pointer: a key, or an index if the key is empty and list is true.
type step struct {
	key   string
	index int
	list  bool
}

// typed is the type of the value at a JSON pointer.
type typed struct{ pointer, kind string }

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointer returns the JSON pointer (RFC 6901) of a path.
func pointer(path []step) string {
	var b strings.Builder
	for _, s := range path {
		b.WriteByte('/')
		if s.list {
			b.WriteString(strconv.Itoa(s.index))
		} else {
			_, _ = pointerEscapes.WriteString(&b, s.key)
		}
	}
	return b.String()
}

func (d *decoder) mark(kind string) { d.types = append(d.types, typed{pointer(d.path), kind}) }

func (d *decoder) enter(key string) { d.path = append(d.path, step{key: key}) }
func (d *decoder) enterIndex(i int) { d.path = append(d.path, step{index: i, list: true}) }
func (d *decoder) leave()           { d.path = d.path[:len(d.path)-1] }

var errDepth = fmt.Errorf("a value is nested deeper than %d", maxDepth)

// value returns the value of structured data for a.
func (d *decoder) value(a *common.AnyValue, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	switch v := a.GetValue().(type) {
	case nil:
		return nil, nil
	case *common.AnyValue_StringValue:
		return v.StringValue, nil
	case *common.AnyValue_BoolValue:
		return v.BoolValue, nil
	case *common.AnyValue_IntValue:
		return v.IntValue, nil
	case *common.AnyValue_DoubleValue:
		if _, whole := wholeNumber(v.DoubleValue); whole || math.IsNaN(v.DoubleValue) || math.IsInf(v.DoubleValue, 0) {
			d.mark(typeDouble)
		}
		return v.DoubleValue, nil
	case *common.AnyValue_BytesValue:
		d.mark(typeBytes)
		return notNil(v.BytesValue), nil
	case *common.AnyValue_ArrayValue:
		list := make([]any, len(v.ArrayValue.GetValues()))
		for i, one := range v.ArrayValue.GetValues() {
			d.enterIndex(i)
			var err error
			if list[i], err = d.value(one, depth+1); err != nil {
				return nil, err
			}
			d.leave()
		}
		return list, nil
	case *common.AnyValue_KvlistValue:
		return d.keyValues(v.KvlistValue.GetValues(), depth+1)
	}
	return nil, errors.New("a value refers to a table of texts, which only profiles have")
}

// wholeNumber returns f as an integer, if it is one of 64 bits.
func wholeNumber(f float64) (n int64, ok bool) {
	if f != math.Trunc(f) || f < math.MinInt64 || f >= math.MaxInt64 {
		return 0, false
	}
	return int64(f), true
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// keyValues returns attributes as an object. The values of a key that occurs several times become a list: the protocol
// forbids it, and senders do it.
func (d *decoder) keyValues(all []*common.KeyValue, depth int) (map[string]any, error) {
	object := make(map[string]any, len(all))
	for _, kv := range all {
		if kv.GetKeyStrindex() != 0 {
			return nil, errors.New("a key refers to a table of texts, which only profiles have")
		}
		d.enter(kv.GetKey())
		types := len(d.types)
		v, err := d.value(kv.GetValue(), depth)
		if err != nil {
			return nil, err
		}
		if before, repeated := object[kv.GetKey()]; repeated {
			d.types = d.types[:types]
			v = []any{before, v}
		}
		object[kv.GetKey()] = v
		d.leave()
	}
	return object, nil
}

// object is an object of a payload under construction.
type object map[string]any

func (o object) text(key, value string) {
	if value != "" {
		o[key] = value
	}
}

func (o object) number(key string, value int64) {
	if value != 0 {
		o[key] = value
	}
}

// count sets an unsigned number. Those above 63 bits keep their type.
func (o object) count(key string, value uint64) { o[key] = unsigned(value) }

func unsigned(n uint64) any {
	if n > math.MaxInt64 {
		return n
	}
	return int64(n)
}

func (o object) name(key string, value int32, names []string) {
	switch {
	case value == 0:
	case value > 0 && int(value) < len(names):
		o[key] = names[value]
	default:
		o[key] = int64(value)
	}
}

// time sets a time that is given in Unix nanoseconds. 0 is no time.
func (o object) time(key string, nanoseconds uint64) {
	if nanoseconds != 0 {
		o[key] = timeOf(nanoseconds)
	}
}

func timeOf(nanoseconds uint64) time.Time {
	return time.Unix(int64(nanoseconds/1e9), int64(nanoseconds%1e9)).UTC()
}

// id sets a trace or span id.
func (o object) id(key string, id []byte, size int) error {
	switch len(id) {
	case 0:
	case size:
		o[key] = hex.EncodeToString(id)
	default:
		return fmt.Errorf("%s has %d bytes instead of %d", key, len(id), size)
	}
	return nil
}

func (o object) attributes(d *decoder, key string, all []*common.KeyValue) error {
	if len(all) == 0 {
		return nil
	}
	d.enter(key)
	values, err := d.keyValues(all, 1)
	if err != nil {
		return err
	}
	d.leave()
	o[key] = values
	return nil
}

// head is the resource and the scope of items.
type head struct {
	resource    *resource.Resource
	resourceURL string // of the schema
	scope       *common.InstrumentationScope
	scopeURL    string
}

// resourceObject returns the resource, nil if there is none.
func (d *decoder) resourceObject(h *head) (map[string]any, error) {
	if h.resource == nil && h.resourceURL == "" {
		return nil, nil
	}
	d.enter("resource")
	defer d.leave()
	o := object{}
	if err := o.attributes(d, "attributes", h.resource.GetAttributes()); err != nil {
		return nil, err
	}
	o.number("droppedAttributesCount", int64(h.resource.GetDroppedAttributesCount()))
	o.text("schemaUrl", h.resourceURL)
	if refs := h.resource.GetEntityRefs(); len(refs) > 0 {
		list := make([]any, len(refs))
		for i, ref := range refs {
			one := object{}
			one.text("schemaUrl", ref.GetSchemaUrl())
			one.text("type", ref.GetType())
			one.texts("idKeys", ref.GetIdKeys())
			one.texts("descriptionKeys", ref.GetDescriptionKeys())
			list[i] = map[string]any(one)
		}
		o["entityRefs"] = list
	}
	return o, nil
}

func (o object) texts(key string, all []string) {
	if len(all) == 0 {
		return
	}
	list := make([]any, len(all))
	for i, s := range all {
		list[i] = s
	}
	o[key] = list
}

// scopeObject returns the scope, nil if there is none.
func (d *decoder) scopeObject(h *head) (map[string]any, error) {
	if h.scope == nil && h.scopeURL == "" {
		return nil, nil
	}
	d.enter("scope")
	defer d.leave()
	o := object{}
	o.text("name", h.scope.GetName())
	o.text("version", h.scope.GetVersion())
	if err := o.attributes(d, "attributes", h.scope.GetAttributes()); err != nil {
		return nil, err
	}
	o.number("droppedAttributesCount", int64(h.scope.GetDroppedAttributesCount()))
	o.text("schemaUrl", h.scopeURL)
	return o, nil
}

// typesText returns the value of keyTypes, "" without types.
func typesText(all ...[]typed) (string, error) {
	kinds := map[string]any{}
	for _, types := range all {
		for _, t := range types {
			kinds[t.pointer] = t.kind
		}
	}
	if len(kinds) == 0 {
		return "", nil
	}
	text, err := record.AppendValue(nil, kinds)
	return string(text), err
}
