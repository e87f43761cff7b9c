package protobuf

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/conduit-agent/conduit/plugins/record"
)

// A Decoder selects the form of decoded messages.
type Decoder struct {
	// ProtoNames gives members the names of fields in the proto file, not in lowerCamelCase.
	ProtoNames bool
	// Defaults adds the default values of fields that are absent, if a message cannot tell absence from the default.
	Defaults bool
	// Unknown is what happens to fields that the message type lacks: drop, keep (as bytes in the member @unknown), or else
	// an error.
	Unknown string
	// Take is called with the memory that a value needs, in bytes, before it is allocated. Its error ends the decoding.
	// It must be set.
	Take func(bytes int) error
}

// Memory of values without their text, in bytes.
const (
	memberBytes = 96
	itemBytes   = 32
)

var errTruncated = errors.New("it is no message: it ends inside a field, or a field is invalid")

// Decode returns the object for an encoded message. Well-known types become values: a Timestamp a time.Time, a Duration
// and a FieldMask a text, a wrapper the value in it. Integers become int64, or a json.Number if they are larger.
func (d Decoder) Decode(t *Type, b []byte) (any, error) {
	return (&decoding{d, &t.types}).message(t.message, b, 0)
}

type decoding struct {
	Decoder
	types *types
}

// message returns the value for a message.
func (d *decoding) message(m protoreflect.MessageDescriptor, b []byte, depth int) (any, error) {
	if depth >= maxDepth {
		return nil, errDepth
	}
	if err := d.Take(memberBytes); err != nil {
		return nil, err
	}
	if known, ok := wellKnown[m.FullName()]; ok {
		return known.decode(d, m, b, depth)
	}
	return d.object(m, b, depth)
}

// object returns the members of a message.
func (d *decoding) object(m protoreflect.MessageDescriptor, b []byte, depth int) (map[string]any, error) {
	o := members{decoding: d, message: m, depth: depth, made: map[string]any{}}
	for len(b) > 0 {
		number, wire, n := protowire.ConsumeTag(b)
		if n < 0 || number > protowire.MaxValidNumber {
			return nil, errTruncated
		}
		size := protowire.ConsumeFieldValue(number, wire, b[n:])
		if size < 0 {
			return nil, errTruncated
		}
		known, err := false, error(nil)
		if f := d.types.field(m, number); f != nil {
			known, err = o.read(f, wire, b[n:n+size])
		}
		if err == nil && !known {
			err = o.keep(number, b[:n+size])
		}
		if err != nil {
			return nil, err
		}
		b = b[n+size:]
	}
	return o.end()
}

// members are the members of a message that is decoded.
type members struct {
	*decoding
	message protoreflect.MessageDescriptor
	depth   int
	made    map[string]any
	unknown []byte
	parts   map[protoreflect.FieldDescriptor]parts // messages in fields without a list
	chosen  map[protoreflect.OneofDescriptor]protoreflect.FieldDescriptor
}

// parts are the encoded bytes of a message. Several parts of a message are joined.
type parts struct {
	all []byte
	n   int
}

// add adds a part, whose capacity must be its length. Each of several parts must be complete: a field that begins in
// one may not end in the next.
func (p *parts) add(part []byte) error {
	if p.n++; p.n == 1 {
		p.all = part
		return nil
	}
	if p.n == 2 && !isFields(p.all) || !isFields(part) {
		return errTruncated
	}
	p.all = append(p.all, part...)
	return nil
}

// isFields reports whether b is a sequence of encoded fields.
func isFields(b []byte) bool {
	for len(b) > 0 {
		_, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

func (d *decoding) name(f protoreflect.FieldDescriptor) string {
	if d.ProtoNames {
		return f.TextName()
	}
	return f.JSONName()
}

// read adds the value of a field, and reports whether the type of the field has this form.
func (o *members) read(f protoreflect.FieldDescriptor, wire protowire.Type, b []byte) (bool, error) {
	want := wireType(f.Kind())
	packed := f.IsList() && wire == protowire.BytesType && want != protowire.BytesType && want != protowire.StartGroupType
	if wire != want && !packed {
		return false, nil
	}
	switch {
	case f.IsMap():
		content, _ := protowire.ConsumeBytes(b)
		return true, o.entry(f, content)
	case packed:
		content, _ := protowire.ConsumeBytes(b)
		return true, o.packed(f, want, content)
	case f.IsList():
		if err := o.Take(itemBytes); err != nil {
			return true, err
		}
		v, err := o.value(f, b)
		o.append(f, v)
		return true, err
	}
	name := o.name(f)
	if err := o.Take(memberBytes); err != nil {
		return true, err
	}
	if one := f.ContainingOneof(); one != nil {
		if err := o.choose(one, f); err != nil {
			return true, err
		}
	}
	if f.Message() != nil {
		if o.parts == nil {
			o.parts = map[protoreflect.FieldDescriptor]parts{}
		}
		part := content(f, b)
		p := o.parts[f]
		err := p.add(part)
		o.parts[f] = p
		return true, err
	}
	v, err := o.value(f, b)
	if err != nil {
		return true, err
	}
	if o.made[name] = v; !f.HasPresence() && isZero(v, f) {
		delete(o.made, name)
	}
	return true, nil
}

// choose removes the value of another field of the same oneof, which must be valid nevertheless.
func (o *members) choose(one protoreflect.OneofDescriptor, f protoreflect.FieldDescriptor) error {
	if o.chosen == nil {
		o.chosen = map[protoreflect.OneofDescriptor]protoreflect.FieldDescriptor{}
	}
	if before := o.chosen[one]; before != nil && before != f {
		if p, ok := o.parts[before]; ok {
			if _, err := o.decoding.message(before.Message(), p.all, o.depth+1); err != nil {
				return err
			}
		}
		delete(o.made, o.name(before))
		delete(o.parts, before)
	}
	o.chosen[one] = f
	return nil
}

// content returns the bytes of a message in a field.
func content(f protoreflect.FieldDescriptor, b []byte) (content []byte) {
	if f.Kind() == protoreflect.GroupKind {
		content, _ = protowire.ConsumeGroup(f.Number(), b)
	} else {
		content, _ = protowire.ConsumeBytes(b)
	}
	return content[:len(content):len(content)] // an append must not overwrite the rest of the message
}

func (o *members) append(f protoreflect.FieldDescriptor, v any) {
	name := o.name(f)
	list, _ := o.made[name].([]any)
	o.made[name] = append(list, v)
}

func (o *members) packed(f protoreflect.FieldDescriptor, wire protowire.Type, b []byte) error {
	for len(b) > 0 {
		n := protowire.ConsumeFieldValue(f.Number(), wire, b)
		if n < 0 {
			return errTruncated
		}
		if err := o.Take(itemBytes); err != nil {
			return err
		}
		v, err := o.value(f, b[:n])
		if err != nil {
			return err
		}
		o.append(f, v)
		b = b[n:]
	}
	return nil
}

// entry adds an entry of a map. A missing key or value is the default.
func (o *members) entry(f protoreflect.FieldDescriptor, b []byte) error {
	key, value := f.MapKey(), f.MapValue()
	k, v := any(nil), any(nil)
	var message parts
	for len(b) > 0 {
		number, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errTruncated
		}
		size := protowire.ConsumeFieldValue(number, wire, b[n:])
		if size < 0 {
			return errTruncated
		}
		content := b[n : n+size]
		var err error
		switch {
		case number == key.Number() && wire == wireType(key.Kind()):
			k, err = o.value(key, content)
		case number == value.Number() && wire == wireType(value.Kind()):
			if value.Message() == nil {
				v, err = o.value(value, content)
				break
			}
			part, _ := protowire.ConsumeBytes(content)
			err = message.add(part[:len(part):len(part)])
		case o.Unknown != "drop":
			err = fmt.Errorf("an entry of %s has the unknown field %d", f.FullName(), number)
		}
		if err != nil {
			return err
		}
		b = b[n+size:]
	}
	if k == nil {
		k = zero(key)
	}
	name, err := record.Text(k)
	if err != nil {
		return err
	}
	if err := o.Take(memberBytes + len(name)); err != nil {
		return err
	}
	switch {
	case value.Message() != nil:
		if v, err = o.decoding.message(value.Message(), message.all, o.depth+1); err != nil {
			return err
		}
	case v == nil:
		v = zero(value)
	}
	entries, ok := o.made[o.name(f)].(map[string]any)
	if !ok {
		entries = map[string]any{}
		o.made[o.name(f)] = entries
	}
	entries[name] = v
	return nil
}

// keep keeps, drops or refuses an unknown field, as Unknown demands.
func (o *members) keep(number protowire.Number, whole []byte) error {
	switch o.Unknown {
	case "drop":
		return nil
	case "keep":
		if _, is := wellKnown[o.message.FullName()]; !is {
			o.unknown = append(o.unknown, whole...)
			return nil
		}
	}
	return fmt.Errorf("%s has the unknown field %d: update the descriptor set, or set unknown", o.message.FullName(),
		number)
}

// end returns the members when all fields are read.
func (o *members) end() (map[string]any, error) {
	for f, p := range o.parts {
		v, err := o.decoding.message(f.Message(), p.all, o.depth+1)
		if err != nil {
			return nil, err
		}
		o.made[o.name(f)] = v
	}
	if len(o.unknown) > 0 {
		o.made[unknownName] = o.unknown
	}
	if required := o.message.RequiredNumbers(); required.Len() > 0 {
		for i := range required.Len() {
			f := o.message.Fields().ByNumber(required.Get(i))
			if _, ok := o.made[o.name(f)]; !ok {
				return nil, fmt.Errorf("%s is missing, and required", f.FullName())
			}
		}
	}
	if !o.Defaults {
		return o.made, nil
	}
	for _, f := range o.types.fields[o.message.FullName()] {
		if _, ok := o.made[o.name(f)]; ok || f.HasPresence() {
			continue
		}
		if err := o.Take(memberBytes); err != nil {
			return nil, err
		}
		switch {
		case f.IsMap():
			o.made[o.name(f)] = map[string]any{}
		case f.IsList():
			o.made[o.name(f)] = []any{}
		default:
			o.made[o.name(f)] = zero(f)
		}
	}
	return o.made, nil
}

// value returns the value of a field whose wire type is right.
func (o *members) value(f protoreflect.FieldDescriptor, b []byte) (any, error) {
	if f.Message() != nil {
		return o.decoding.message(f.Message(), content(f, b), o.depth+1)
	}
	switch wireType(f.Kind()) {
	case protowire.Fixed32Type:
		n, _ := protowire.ConsumeFixed32(b)
		return number32(f.Kind(), n), nil
	case protowire.Fixed64Type:
		n, _ := protowire.ConsumeFixed64(b)
		return number64(f.Kind(), n), nil
	case protowire.VarintType:
		n, _ := protowire.ConsumeVarint(b)
		return varint(f, n), nil
	}
	text, _ := protowire.ConsumeBytes(b)
	if err := o.Take(len(text)); err != nil {
		return nil, err
	}
	if f.Kind() == protoreflect.BytesKind {
		return append([]byte{}, text...), nil
	}
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%s is no valid UTF-8", f.FullName())
	}
	return string(text), nil
}

func number32(k protoreflect.Kind, n uint32) any {
	switch k {
	case protoreflect.FloatKind:
		f := math.Float32frombits(n)
		if v, special := specialFloat(float64(f)); special {
			return v
		}
		return f
	case protoreflect.Sfixed32Kind:
		return int64(int32(n))
	}
	return int64(n)
}

func number64(k protoreflect.Kind, n uint64) any {
	switch k {
	case protoreflect.DoubleKind:
		f := math.Float64frombits(n)
		if v, special := specialFloat(f); special {
			return v
		}
		return f
	case protoreflect.Sfixed64Kind:
		return int64(n)
	}
	return unsigned(n)
}

// specialFloat returns the name of a number that JSON lacks.
func specialFloat(f float64) (string, bool) {
	switch {
	case math.IsNaN(f):
		return "NaN", true
	case math.IsInf(f, 1):
		return "Infinity", true
	case math.IsInf(f, -1):
		return "-Infinity", true
	}
	return "", false
}

func unsigned(n uint64) any {
	if n <= math.MaxInt64 {
		return int64(n)
	}
	return record.Number(strconv.FormatUint(n, 10))
}

func varint(f protoreflect.FieldDescriptor, n uint64) any {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protowire.DecodeBool(n)
	case protoreflect.EnumKind:
		return enumValue(f.Enum(), protoreflect.EnumNumber(n))
	case protoreflect.Int32Kind:
		return int64(int32(n))
	case protoreflect.Sint32Kind:
		return int64(int32(protowire.DecodeZigZag(n & math.MaxUint32)))
	case protoreflect.Uint32Kind:
		return int64(uint32(n))
	case protoreflect.Int64Kind:
		return int64(n)
	case protoreflect.Sint64Kind:
		return protowire.DecodeZigZag(n)
	}
	return unsigned(n)
}

const nullValue = "google.protobuf.NullValue"

// enumValue returns the name of a value, or its number if it has no name.
func enumValue(e protoreflect.EnumDescriptor, n protoreflect.EnumNumber) any {
	if e.FullName() == nullValue {
		return nil
	}
	if v := e.Values().ByNumber(n); v != nil {
		return string(v.Name())
	}
	return int64(n)
}

// zero returns the default of a field without a message.
func zero(f protoreflect.FieldDescriptor) any {
	switch f.Kind() {
	case protoreflect.EnumKind:
		return enumValue(f.Enum(), f.Enum().Values().Get(0).Number())
	case protoreflect.StringKind:
		return ""
	case protoreflect.BytesKind:
		return []byte{}
	case protoreflect.BoolKind:
		return false
	case protoreflect.FloatKind:
		return float32(0)
	case protoreflect.DoubleKind:
		return float64(0)
	}
	return int64(0)
}

// isZero reports whether v is the default of f, a field that cannot tell it from absence.
func isZero(v any, f protoreflect.FieldDescriptor) bool {
	switch v := v.(type) {
	case []byte:
		return len(v) == 0
	case float32:
		return math.Float32bits(v) == 0
	case float64:
		return math.Float64bits(v) == 0
	}
	return v == zero(f)
}

// wireType returns the wire type of values of a kind.
func wireType(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	}
	return protowire.VarintType
}
