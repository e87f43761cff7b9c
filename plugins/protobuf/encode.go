package protobuf

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
)

// An Encoder encodes objects as messages.
type Encoder struct {
	// DropUnknown leaves out members that the message type lacks. Otherwise they are an error.
	DropUnknown bool
}

// Encode returns the message for an object, whose members have the names of fields in the proto file or in
// lowerCamelCase. It takes what Decode returns and the forms of the JSON mapping. null stands for absence. Equal
// objects have equal messages.
func (e Encoder) Encode(t *Type, v any) ([]byte, error) {
	return (&encoding{e, &t.types}).message(nil, t.message, v, 0)
}

type encoding struct {
	Encoder
	types *types
}

func (e *encoding) message(dst []byte, m protoreflect.MessageDescriptor, v any, depth int) ([]byte, error) {
	if depth >= maxDepth {
		return nil, errDepth
	}
	if known, ok := wellKnown[m.FullName()]; ok {
		return known.encode(e, dst, m, v, depth)
	}
	members, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: want an object, not %s", m.FullName(), fieldref.Kind(v))
	}
	return e.object(dst, m, members, depth)
}

// object appends the fields of a message.
func (e *encoding) object(
	dst []byte, m protoreflect.MessageDescriptor, members map[string]any, depth int,
) (_ []byte, err error) {
	used := 0
	chosen := map[protoreflect.OneofDescriptor]protoreflect.FieldDescriptor{}
	encode := func(f protoreflect.FieldDescriptor, v any) error {
		used++
		if v == nil && !takesNull(f) {
			return nil
		}
		if one := f.ContainingOneof(); one != nil {
			if other := chosen[one]; other != nil {
				return fmt.Errorf("%s and %s exclude each other", other.FullName(), f.Name())
			}
			chosen[one] = f
		}
		dst, err = e.field(dst, f, v, depth)
		return err
	}
	for _, f := range e.types.fields[m.FullName()] {
		v, ok := members[f.JSONName()]
		if f.TextName() != f.JSONName() {
			if other, is := members[f.TextName()]; is && !e.isJSONName(m, f) {
				if ok {
					return nil, fmt.Errorf("%s comes twice: as %s and %s", f.FullName(), f.JSONName(), f.TextName())
				}
				v, ok = other, true
			}
		}
		if !ok {
			if f.Cardinality() == protoreflect.Required {
				return nil, fmt.Errorf("%s is missing, and required", f.FullName())
			}
			continue
		}
		if v == nil && f.Cardinality() == protoreflect.Required {
			return nil, fmt.Errorf("%s is null, and required", f.FullName())
		}
		if err := encode(f, v); err != nil {
			return nil, err
		}
	}
	if used == len(members) {
		return dst, nil
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if m.Fields().ByJSONName(name) != nil || m.Fields().ByTextName(name) != nil {
			continue
		}
		if f := e.extension(m, name); f != nil {
			if err := encode(f, members[name]); err != nil {
				return nil, err
			}
			continue
		}
		if fields, ok := members[name].([]byte); ok && name == unknownName {
			if !isFields(fields) {
				return nil, fmt.Errorf("%s of %s are no fields", unknownName, m.FullName())
			}
			dst = append(dst, fields...)
			continue
		}
		if !e.DropUnknown {
			return nil, fmt.Errorf("%s has no field %q", m.FullName(), name)
		}
	}
	return dst, nil
}

// isJSONName reports whether the name of a field in the proto file is that of another field in JSON.
func (e *encoding) isJSONName(m protoreflect.MessageDescriptor, f protoreflect.FieldDescriptor) bool {
	return m.Fields().ByJSONName(f.TextName()) != nil
}

// extension returns the extension with a name in brackets.
func (e *encoding) extension(m protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	inner, begins := strings.CutPrefix(name, "[")
	inner, ends := strings.CutSuffix(inner, "]")
	if !begins || !ends {
		return nil
	}
	d, _ := e.types.files.FindDescriptorByName(protoreflect.FullName(inner))
	f, ok := d.(protoreflect.ExtensionDescriptor)
	if !ok || !f.IsExtension() || f.ContainingMessage().FullName() != m.FullName() {
		return nil
	}
	return f
}

// takesNull reports whether null is a value of a field. For other fields it stands for absence.
func takesNull(f protoreflect.FieldDescriptor) bool {
	if f.IsList() || f.IsMap() {
		return false
	}
	return f.Message() != nil && f.Message().FullName() == "google.protobuf.Value" ||
		f.Enum() != nil && f.Enum().FullName() == nullValue
}

func (e *encoding) field(dst []byte, f protoreflect.FieldDescriptor, v any, depth int) (_ []byte, err error) {
	switch {
	case f.IsMap():
		return e.entries(dst, f, v, depth)
	case !f.IsList():
		return e.value(dst, f, v, depth, f.HasPresence())
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s: want a list, not %s", f.FullName(), fieldref.Kind(v))
	}
	if !f.IsPacked() {
		for _, item := range list {
			if dst, err = e.value(dst, f, item, depth, true); err != nil {
				return nil, err
			}
		}
		return dst, nil
	}
	if len(list) == 0 {
		return dst, nil
	}
	dst = protowire.AppendTag(dst, f.Number(), protowire.BytesType)
	return withLength(dst, func(dst []byte) ([]byte, error) {
		for _, item := range list {
			if dst, _, err = appendScalar(dst, f, item); err != nil {
				return nil, err
			}
		}
		return dst, nil
	})
}

// withLength appends what add appends, with its length before it.
func withLength(dst []byte, add func(dst []byte) ([]byte, error)) ([]byte, error) {
	start := len(dst)
	dst, err := add(dst)
	if err != nil {
		return nil, err
	}
	n := len(dst) - start
	size := protowire.SizeVarint(uint64(n))
	dst = append(dst, make([]byte, size)...)
	copy(dst[start+size:], dst[start:start+n])
	protowire.AppendVarint(dst[:start], uint64(n))
	return dst, nil
}

func (e *encoding) entries(dst []byte, f protoreflect.FieldDescriptor, v any, depth int) (_ []byte, err error) {
	entries, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: want an object, not %s", f.FullName(), fieldref.Kind(v))
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		key := any(name)
		if f.MapKey().Kind() == protoreflect.BoolKind {
			if name != "true" && name != "false" {
				return nil, fmt.Errorf("%s: %q is no boolean", f.FullName(), name)
			}
			key = name == "true"
		}
		dst = protowire.AppendTag(dst, f.Number(), protowire.BytesType)
		dst, err = withLength(dst, func(dst []byte) ([]byte, error) {
			dst, err := e.value(dst, f.MapKey(), key, depth, true)
			if err != nil {
				return nil, err
			}
			return e.value(dst, f.MapValue(), entries[name], depth, true)
		})
		if err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// value appends the tag and a value of a field. It leaves out the default if the field cannot tell it from absence.
func (e *encoding) value(
	dst []byte, f protoreflect.FieldDescriptor, v any, depth int, presence bool,
) (_ []byte, err error) {
	start := len(dst)
	dst = protowire.AppendTag(dst, f.Number(), wireType(f.Kind()))
	if f.Message() == nil {
		dst, zero, err := appendScalar(dst, f, v)
		if zero && !presence {
			dst = dst[:start]
		}
		return dst, err
	}
	if f.Kind() == protoreflect.GroupKind {
		if dst, err = e.message(dst, f.Message(), v, depth+1); err != nil {
			return nil, err
		}
		return protowire.AppendTag(dst, f.Number(), protowire.EndGroupType), nil
	}
	return withLength(dst, func(dst []byte) ([]byte, error) { return e.message(dst, f.Message(), v, depth+1) })
}

// appendScalar appends a value without a message, and reports whether it is zero.
func appendScalar(dst []byte, f protoreflect.FieldDescriptor, v any) (_ []byte, zero bool, err error) {
	wrong := func() ([]byte, bool, error) {
		return nil, false, fmt.Errorf("%s: %s is no %s", f.FullName(), describe(v), f.Kind())
	}
	switch f.Kind() {
	case protoreflect.BoolKind:
		b, ok := v.(bool)
		if !ok {
			return wrong()
		}
		return protowire.AppendVarint(dst, protowire.EncodeBool(b)), !b, nil
	case protoreflect.StringKind:
		text, ok := v.(string)
		if b, is := v.([]byte); is {
			text, ok = string(b), true
		}
		if !ok || !utf8.ValidString(text) {
			return wrong()
		}
		return protowire.AppendString(dst, text), text == "", nil
	case protoreflect.BytesKind:
		b, ok := bytesOf(v)
		if !ok {
			return wrong()
		}
		return protowire.AppendBytes(dst, b), len(b) == 0, nil
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		n, ok := float(v)
		if f.Kind() == protoreflect.DoubleKind {
			if !ok {
				return wrong()
			}
			return protowire.AppendFixed64(dst, math.Float64bits(n)), math.Float64bits(n) == 0, nil
		}
		bits := math.Float32bits(float32(n))
		if !ok || math.IsInf(float64(float32(n)), 0) && !math.IsInf(n, 0) {
			return wrong()
		}
		return protowire.AppendFixed32(dst, bits), bits == 0, nil
	}
	n, ok := integer(v)
	if f.Kind() == protoreflect.EnumKind {
		n, ok = enumNumber(f.Enum(), v)
	}
	if !ok {
		return wrong()
	}
	dst, ok = appendInteger(dst, f.Kind(), n)
	if !ok {
		return wrong()
	}
	return dst, n.magnitude == 0, nil
}

// describe returns a value for a message, which may be long.
func describe(v any) string {
	switch v := v.(type) {
	case string:
		if len(v) > 60 {
			return fmt.Sprintf("%q…", v[:60])
		}
		return strconv.Quote(v)
	case []byte, []any, map[string]any:
		return "a value of type " + fieldref.Kind(v)
	}
	return fmt.Sprint(v)
}

// whole is an integer of 64 bits with or without a sign.
type whole struct {
	negative  bool
	magnitude uint64
}

func signed(n int64) whole {
	if n < 0 {
		return whole{true, -uint64(n)}
	}
	return whole{false, uint64(n)}
}

// integer returns the integer that v is, also as a text or a float without a fraction.
func integer(v any) (whole, bool) {
	switch v := v.(type) {
	case int64:
		return signed(v), true
	case int:
		return signed(int64(v)), true
	case int32:
		return signed(int64(v)), true
	case uint64:
		return whole{false, v}, true
	case float32:
		return integer(float64(v))
	case float64:
		if v != math.Trunc(v) || math.Abs(v) >= 1<<63 {
			return whole{}, false
		}
		return signed(int64(v)), true
	case json.Number:
		return integer(v.String())
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return signed(n), v[0] != '+'
		}
		if n, err := strconv.ParseUint(v, 10, 64); err == nil {
			return whole{false, n}, true
		}
		if f, ok := float(v); ok && math.Abs(f) <= 1<<53 { // 1.0 and 1e3 are integers of JSON
			return integer(f)
		}
	}
	return whole{}, false
}

func enumNumber(e protoreflect.EnumDescriptor, v any) (whole, bool) {
	if v == nil {
		return whole{}, e.FullName() == nullValue
	}
	if name, ok := v.(string); ok {
		value := e.Values().ByName(protoreflect.Name(name))
		if value == nil {
			return whole{}, false
		}
		return signed(int64(value.Number())), true
	}
	return integer(v)
}

// appendInteger appends n if the kind has it.
func appendInteger(dst []byte, k protoreflect.Kind, n whole) ([]byte, bool) {
	limit, bits := uint64(math.MaxInt64), uint64(math.MaxUint64)
	switch k {
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		limit, bits = math.MaxUint32, 0
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		limit, bits = math.MaxUint64, 0
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind, protoreflect.EnumKind:
		limit = math.MaxInt32
	}
	if n.negative {
		if bits == 0 || n.magnitude > limit+1 {
			return nil, false
		}
	} else if n.magnitude > limit {
		return nil, false
	}
	value := n.magnitude
	if n.negative {
		value = -value
	}
	switch k {
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		return protowire.AppendVarint(dst, protowire.EncodeZigZag(int64(value))), true
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return protowire.AppendFixed32(dst, uint32(value)), true
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return protowire.AppendFixed64(dst, value), true
	}
	return protowire.AppendVarint(dst, value), true
}

// float returns the number that v is, also as a text.
func float(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case float32:
		return float64(v), true
	case json.Number:
		return float(v.String())
	case string:
		switch v {
		case "NaN":
			return math.NaN(), true
		case "Infinity":
			return math.Inf(1), true
		case "-Infinity":
			return math.Inf(-1), true
		}
		f, err := strconv.ParseFloat(v, 64)
		return f, err == nil && !math.IsInf(f, 0) && strings.Trim(v, "+-.0123456789eE") == ""
	}
	n, ok := integer(v)
	f := float64(n.magnitude)
	if n.negative {
		f = -f
	}
	return f, ok
}

// bytesOf returns the bytes that v is, also as base64 of RFC 4648 with or without padding.
func bytesOf(v any) ([]byte, bool) {
	switch v := v.(type) {
	case []byte:
		return v, true
	case string:
		encoding := base64.RawStdEncoding
		if strings.ContainsAny(v, "-_") {
			encoding = base64.RawURLEncoding
		}
		if strings.ContainsAny(v, "\r\n") {
			return nil, false
		}
		b, err := encoding.DecodeString(strings.TrimRight(v, "="))
		return b, err == nil
	}
	return nil, false
}
