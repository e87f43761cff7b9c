package protobuf_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/conduit-agent/conduit/plugins/protobuf"
)

//go:generate protoc --proto_path=testdata --include_imports --descriptor_set_out=testdata/all.binpb all.proto old.proto

var compared = flag.Int("messages", 1000, "random messages of each type that are compared with the library")

func descriptors(t testing.TB) []byte {
	t.Helper()
	set, err := os.ReadFile("testdata/all.binpb")
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func typeOf(t testing.TB, name string) *protobuf.Type {
	t.Helper()
	made, err := protobuf.Parse(descriptors(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// library decodes and encodes with the library for Go.
type library struct {
	message protoreflect.MessageDescriptor
	types   *dynamicpb.Types
}

func libraryOf(t testing.TB, name string) library {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(descriptors(t), &set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		t.Fatal(err)
	}
	return library{d.(protoreflect.MessageDescriptor), dynamicpb.NewTypes(files)}
}

// errPanic is the error for a message that the library cannot decode: it panics if the key of a map's entry is repeated
// with another wire type (see TestRepeatedKey).
var errPanic = errors.New("the library panicked")

func (l library) unmarshal(b []byte) (m *dynamicpb.Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			if !strings.Contains(fmt.Sprint(p), "cannot convert nil to map key") {
				panic(p)
			}
			err = errPanic
		}
	}()
	m = dynamicpb.NewMessage(l.message)
	return m, proto.UnmarshalOptions{Resolver: l.types}.Unmarshal(b, m)
}

// json returns the JSON mapping of a message, with numbers as their text.
func (l library) json(m proto.Message, o protojson.MarshalOptions) (v any, err error) {
	o.Resolver = l.types
	b, err := o.Marshal(m)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	return v, d.Decode(&v)
}

func unlimited(int) error { return nil }

// same reports whether got is want, its form in the JSON mapping.
func same(got, want any) bool {
	switch got := got.(type) {
	case map[string]any:
		all, ok := want.(map[string]any)
		if !ok || len(all) != len(got) {
			return false
		}
		for name, v := range got {
			other, ok := all[name]
			if !ok || !same(v, other) {
				return false
			}
		}
		return true
	case []any:
		all, ok := want.([]any)
		if !ok || len(all) != len(got) {
			return false
		}
		for i, v := range got {
			if !same(v, all[i]) {
				return false
			}
		}
		return true
	case []byte:
		return want == base64.StdEncoding.EncodeToString(got)
	case int64:
		return fmt.Sprint(want) == strconv.FormatInt(got, 10)
	case json.Number:
		return fmt.Sprint(want) == got.String()
	case float32:
		f, err := strconv.ParseFloat(fmt.Sprint(want), 32)
		return err == nil && math.Float32bits(float32(f)) == math.Float32bits(got)
	case float64:
		f, err := strconv.ParseFloat(fmt.Sprint(want), 64)
		return err == nil && math.Float64bits(f) == math.Float64bits(got)
	case time.Time:
		text, _ := want.(string)
		t, err := time.Parse(time.RFC3339Nano, text)
		return err == nil && t.Equal(got) && got.Location() == time.UTC
	}
	return got == want
}

// compare decodes b, and encodes the result. It reports whether b is a message that JSON can hold.
func compare(t *testing.T, typ *protobuf.Type, l library, b []byte) bool {
	t.Helper()
	ours, oursErr := protobuf.Decoder{Unknown: "drop", Take: unlimited}.Decode(typ, b)
	m, err := l.unmarshal(b)
	if err == errPanic {
		return false
	}
	var want any
	if err == nil {
		want, err = l.json(m, protojson.MarshalOptions{})
	}
	if err == nil && oursErr != nil { // what later bytes replace may be no value of JSON
		if b, err = proto.Marshal(m); err != nil {
			t.Fatal(err)
		}
		ours, oursErr = protobuf.Decoder{Unknown: "drop", Take: unlimited}.Decode(typ, b)
	}
	if (err == nil) != (oursErr == nil) {
		t.Fatalf("%x: the error is %v, that of the library %v", b, oursErr, err)
	}
	if err != nil {
		return false
	}
	if !same(ours, want) {
		t.Fatalf("%x\ngot  %v\nwant %v", b, ours, want)
	}
	names, err := protobuf.Decoder{Unknown: "drop", Take: unlimited, ProtoNames: true, Defaults: true}.Decode(typ, b)
	if err != nil {
		t.Fatal(err)
	}
	want, err = l.json(m, protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true})
	if err != nil || !same(names, want) {
		t.Fatalf("%x with names and defaults: %v\ngot  %v\nwant %v", b, err, names, want)
	}
	kept, err := protobuf.Decoder{Unknown: "keep", Take: unlimited}.Decode(typ, b)
	if err != nil {
		kept = ours // a well-known type has unknown fields
		l.discard(m)
	}
	for _, v := range []any{kept, names, want} {
		encoded, err := protobuf.Encoder{}.Encode(typ, v)
		if err != nil {
			t.Fatalf("%x: cannot encode %v: %v", b, v, err)
		}
		again, err := l.unmarshal(encoded)
		if err != nil || !proto.Equal(m, again) && !l.equalInJSON(m, again) {
			t.Fatalf("%x: %v: %v\ngot  %v\nwant %v", b, v, err, again, m)
		}
		l.discard(m) // the other forms have no unknown fields
	}
	return true
}

// discard removes unknown fields.
func (l library) discard(m proto.Message) {
	b, _ := proto.Marshal(m)
	proto.Reset(m)
	_ = proto.UnmarshalOptions{DiscardUnknown: true, Resolver: l.types}.Unmarshal(b, m)
}

// equalInJSON reports whether a and b have the same JSON, which has one value for all numbers of a NullValue.
func (l library) equalInJSON(a, b proto.Message) bool {
	one, err := l.json(a, protojson.MarshalOptions{})
	other, otherErr := l.json(b, protojson.MarshalOptions{})
	return err == nil && otherErr == nil && cmp.Equal(one, other)
}

// TestRepeatedKey decodes an entry of a map with a second key of another wire type. That is an unknown field, so the
// first key counts.
func TestRepeatedKey(t *testing.T) {
	b := []byte("\xc2\x02\x08\x0a\x01a\x08\x05\x12\x01b")
	if _, err := libraryOf(t, "test.All").unmarshal(b); err != errPanic {
		t.Errorf("the library decodes it now (%v): compare the results again", err)
	}
	got, err := protobuf.Decoder{Unknown: "drop", Take: unlimited}.Decode(typeOf(t, "test.All"), b)
	want := map[string]any{"bytesByString": map[string]any{"a": []byte("b")}}
	if diff := cmp.Diff(any(want), any(got)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestTypeIsThatOfTheLibrary compares random messages.
func TestTypeIsThatOfTheLibrary(t *testing.T) {
	for _, name := range []string{"test.All", "test.Old", "google.protobuf.Struct", "google.protobuf.Timestamp"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			typ, l, seed := typeOf(t, name), libraryOf(t, name), rand.Uint64()
			t.Logf("seed %d", seed)
			rnd, valid := rand.New(rand.NewPCG(seed, 0)), 0
			for range *compared {
				b := randomMessage(rnd, l, l.message, 3)
				if rnd.IntN(10) == 0 && len(b) > 0 {
					b[rnd.IntN(len(b))]++
				}
				if compare(t, typ, l, b) {
					valid++
				}
			}
			if valid < *compared/10 {
				t.Errorf("only %d messages are valid", valid)
			}
		})
	}
}

// randomMessage returns an encoded message, which may be invalid.
func randomMessage(rnd *rand.Rand, l library, m protoreflect.MessageDescriptor, depth int) (b []byte) {
	fields := []protoreflect.FieldDescriptor{}
	for i := range m.Fields().Len() {
		fields = append(fields, m.Fields().Get(i))
	}
	for n := protowire.Number(100); m.ExtensionRanges().Has(n); n++ {
		if e, err := l.types.FindExtensionByNumber(m.FullName(), n); err == nil {
			fields = append(fields, e.TypeDescriptor())
		}
	}
	share := 4.0 / float64(len(fields)+4)
	for _, f := range fields {
		if f.Cardinality() != protoreflect.Required && rnd.Float64() > max(share, 0.1) ||
			f.Message() != nil && depth == 0 && f.Message().FullName() != "google.protobuf.Value" {
			continue
		}
		for range 1 + rnd.IntN(2) {
			b = appendRandom(rnd, l, b, f, depth)
		}
	}
	if rnd.IntN(20) == 0 {
		b = protowire.AppendTag(b, 999, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	return b
}

func appendRandom(rnd *rand.Rand, l library, b []byte, f protoreflect.FieldDescriptor, depth int) []byte {
	number := func() uint64 {
		return []uint64{0, 1, rnd.Uint64N(1000), -rnd.Uint64N(1000), rnd.Uint64(), 1 << 63, 1<<31 - 1}[rnd.IntN(7)]
	}
	if f.IsPacked() && rnd.IntN(2) == 0 {
		var list []byte
		for range rnd.IntN(4) {
			list = protowire.AppendVarint(list, number())
		}
		return protowire.AppendBytes(protowire.AppendTag(b, f.Number(), protowire.BytesType), list)
	}
	const url = "type.googleapis.com/"
	text := []string{"", "a", "é", "2024", "a_b.c", url + "test.All", url + "google.protobuf.Empty",
		"\xff"}[rnd.IntN(7)+rnd.IntN(50)/49]
	switch f.Kind() {
	case protoreflect.MessageKind:
		content := randomMessage(rnd, l, f.Message(), max(0, depth-1))
		return protowire.AppendBytes(protowire.AppendTag(b, f.Number(), protowire.BytesType), content)
	case protoreflect.GroupKind:
		b = append(protowire.AppendTag(b, f.Number(), protowire.StartGroupType), randomMessage(rnd, l, f.Message(),
			max(0, depth-1))...)
		return protowire.AppendTag(b, f.Number(), protowire.EndGroupType)
	case protoreflect.StringKind, protoreflect.BytesKind:
		if f.FullName() == "google.protobuf.Any.value" {
			text = string(protowire.AppendVarint([]byte{byte(f.Number()) << 3}, 3))
		}
		return protowire.AppendString(protowire.AppendTag(b, f.Number(), protowire.BytesType), text)
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		n := []uint32{0, uint32(number()), math.Float32bits(rnd.Float32()), math.Float32bits(float32(math.Inf(1)))}
		return protowire.AppendFixed32(protowire.AppendTag(b, f.Number(), protowire.Fixed32Type), n[rnd.IntN(4)])
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		n := []uint64{0, number(), math.Float64bits(rnd.Float64()), math.Float64bits(math.Copysign(0, -1))}
		return protowire.AppendFixed64(protowire.AppendTag(b, f.Number(), protowire.Fixed64Type), n[rnd.IntN(4)])
	case protoreflect.EnumKind:
		return protowire.AppendVarint(protowire.AppendTag(b, f.Number(), protowire.VarintType), rnd.Uint64N(4))
	}
	return protowire.AppendVarint(protowire.AppendTag(b, f.Number(), protowire.VarintType), number())
}

// FuzzDecode compares arbitrary bytes.
func FuzzDecode(f *testing.F) {
	typ, l := typeOf(f, "test.All"), libraryOf(f, "test.All")
	old, oldLibrary := typeOf(f, "test.Old"), libraryOf(f, "test.Old")
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		f.Add(randomMessage(rnd, l, l.message, 2))
		f.Add(randomMessage(rnd, oldLibrary, oldLibrary.message, 2))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		compare(t, typ, l, b)
		compare(t, old, oldLibrary, b)
	})
}

func TestTypesOfRecords(t *testing.T) {
	typ := typeOf(t, "test.All")
	in := map[string]any{
		"doubleValue": 1.5, "floatValue": float32(0.1), "int32Value": int64(-1), "int64Value": int64(math.MinInt64),
		"uint64Value": json.Number("18446744073709551615"), "boolValue": true, "stringValue": "é",
		"bytesValue": []byte{0, 255}, "color": "BLUE", "colors": []any{"GREEN", int64(7)}, "optionalInt64": int64(0),
		"otherName": "", "packed": []any{int64(-1), int64(1)}, "bytesByString": map[string]any{"": []byte("x")},
		"allByInt64":  map[string]any{"-5": map[string]any{"child": map[string]any{}}},
		"colorByBool": map[string]any{"true": "RED"}, "chosenNull": nil, "struct": map[string]any{"a": []any{nil, 1.5}},
		"timestamp": time.Date(2024, 1, 2, 3, 4, 5, 6, time.UTC), "duration": "-0.000000500s", "mask": "a.bC,d",
		"value": nil, "int64Wrapper": int64(0), "empty": map[string]any{}, "stringWrappers": []any{""},
		"any":            map[string]any{"@type": "x/test.All", "color": "GREEN"},
		"values":         []any{nil, true, "x"},
		"doubleByUint64": map[string]any{"7": "NaN"},
	}
	b, err := protobuf.Encoder{}.Encode(typ, in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := protobuf.Decoder{Take: unlimited}.Decode(typ, b)
	in["duration"] = "-0.000000500s"
	if diff := cmp.Diff(any(in), got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	same, err := protobuf.Encoder{}.Encode(typ, got)
	if err != nil || string(same) != string(b) {
		t.Errorf("the same object becomes other bytes: %v\n%x\n%x", err, same, b)
	}
}

func TestUnknownFields(t *testing.T) {
	newer, old := typeOf(t, "test.Newer"), typeOf(t, "test.All")
	in := map[string]any{"int64Value": int64(3), "added": "x"}
	b, err := protobuf.Encoder{}.Encode(newer, in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = (protobuf.Decoder{Take: unlimited}).Decode(old, b); err == nil ||
		!strings.Contains(err.Error(), "test.All has the unknown field 100") {
		t.Errorf("an unknown field is no error: %v", err)
	}
	dropped, err := protobuf.Decoder{Unknown: "drop", Take: unlimited}.Decode(old, b)
	if diff := cmp.Diff(any(map[string]any{"int64Value": int64(3)}), dropped); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	kept, err := protobuf.Decoder{Unknown: "keep", Take: unlimited}.Decode(old, b)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = (protobuf.Encoder{}).Encode(old, kept); err != nil {
		t.Fatal(err)
	}
	again, err := protobuf.Decoder{Take: unlimited}.Decode(newer, b)
	if diff := cmp.Diff(any(in), again); err != nil || diff != "" {
		t.Errorf("what was kept is another message: %v\n%s", err, diff)
	}
}

func TestWrongObjects(t *testing.T) {
	for _, c := range []struct {
		message string
		v       any
		want    string
	}{
		{"test.All", "x", "test.All: want an object, not text"},
		{"test.All", map[string]any{"nothing": 1}, `test.All has no field "nothing"`},
		{"test.All", map[string]any{"int64_value": 1, "int64Value": 1}, "comes twice: as int64Value and int64_value"},
		{"test.All", map[string]any{"int32Value": int64(1 << 31)}, "test.All.int32_value: 2147483648 is no int32"},
		{"test.All", map[string]any{"int64Value": 1.5}, "1.5 is no int64"},
		{"test.All", map[string]any{"int64Value": json.Number("9223372036854775808")}, "is no int64"},
		{"test.All", map[string]any{"uint32Value": int64(-1)}, "-1 is no uint32"},
		{"test.All", map[string]any{"uint64Value": "-1"}, `"-1" is no uint64`},
		{"test.All", map[string]any{"floatValue": 1e39}, "is no float"},
		{"test.All", map[string]any{"boolValue": "true"}, "is no bool"},
		{"test.All", map[string]any{"stringValue": int64(1)}, "1 is no string"},
		{"test.All", map[string]any{"stringValue": "\xff"}, "is no string"},
		{"test.All", map[string]any{"bytesValue": "?"}, "is no bytes"},
		{"test.All", map[string]any{"color": "PINK"}, `"PINK" is no enum`},
		{"test.All", map[string]any{"packed": int64(1)}, "want a list, not integer"},
		{"test.All", map[string]any{"packed": []any{nil}}, "is no sint64"},
		{"test.All", map[string]any{"colorByBool": map[string]any{"1": "RED"}}, `"1" is no boolean`},
		{"test.All", map[string]any{"allByInt64": map[string]any{"x": map[string]any{}}}, `"x" is no int64`},
		{"test.All", map[string]any{"chosenString": "", "chosenNull": nil}, "exclude each other"},
		{"test.All", map[string]any{"timestamp": "today"}, "google.protobuf.Timestamp: want a time of RFC 3339"},
		{"test.All", map[string]any{"duration": "1"}, "want seconds such as 1.5s"},
		{"test.All", map[string]any{"duration": "315576000000.1s"}, "want seconds such as 1.5s"},
		{"test.All", map[string]any{"mask": "a_b"}, `"a_b" is no path`},
		{"test.All", map[string]any{"any": map[string]any{"@type": "x/none.Such"}}, `no message "none.Such"`},
		{"test.All", map[string]any{"any": map[string]any{"x": 1}}, "the object has no @type"},
		{"test.All", map[string]any{"value": []byte("x")}, "want a value of JSON"},
		{"test.All", map[string]any{"@unknown": []byte{0xff}}, "are no fields"},
		{"test.Old", map[string]any{}, "test.Old.id is missing, and required"},
		{"test.Old", map[string]any{"id": nil}, "test.Old.id is null, and required"},
		{"test.Old", map[string]any{"id": 1, "[test.none]": 1}, `has no field "[test.none]"`},
	} {
		b, err := protobuf.Encoder{}.Encode(typeOf(t, c.message), c.v)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %x, the error is %v, want %s", c.v, b, err, c.want)
		}
	}
	v := map[string]any{"nothing": map[string]any{}, "boolValue": true}
	if b, err := (protobuf.Encoder{DropUnknown: true}).Encode(typeOf(t, "test.All"), v); err != nil || len(b) != 2 {
		t.Errorf("%x: %v", b, err)
	}
}

func TestWrongDescriptorSets(t *testing.T) {
	set := descriptors(t)
	var partial descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &partial); err != nil {
		t.Fatal(err)
	}
	partial.File = partial.GetFile()[len(partial.GetFile())-2:]
	without, err := proto.Marshal(&partial)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set        []byte
		name, want string
	}{
		{nil, "test.All", "it is not a descriptor set: write it with protoc"},
		{[]byte("syntax"), "test.All", "it is not a descriptor set"},
		{without, "test.All", "it is not complete: write it with protoc --include_imports"},
		{set, "test.Al", `it has no message "test.Al": did you mean "test.All"?`},
		{set, "test.Color", `it has no message "test.Color"`},
		{set, "", `it has no message ""`},
	} {
		if _, err := protobuf.Parse(c.set, c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %s", c.name, err, c.want)
		}
	}
}

// A message costs memory within the limit, and neither depth nor repetition makes it slow.
func TestHostileMessages(t *testing.T) {
	typ := typeOf(t, "test.All")
	var deep, deepObject = []byte{}, any(map[string]any{})
	for range 401 {
		deep = protowire.AppendBytes(protowire.AppendTag(nil, 17, protowire.BytesType), deep)
		deepObject = map[string]any{"child": deepObject}
	}
	if _, err := (protobuf.Decoder{Take: unlimited}).Decode(typ, deep); err == nil ||
		!strings.Contains(err.Error(), "more than 400 messages are in each other") {
		t.Errorf("a deep message: %v", err)
	}
	if _, err := (protobuf.Encoder{}).Encode(typ, deepObject); err == nil ||
		!strings.Contains(err.Error(), "more than 400 messages are in each other") {
		t.Errorf("a deep object: %v", err)
	}
	full := errors.New("full")
	for name, one := range map[string][]byte{
		"messages": {0x8a, 0x02, 0}, "numbers": {0xf2, 0x01, 1, 1}, "entries": {0xc2, 0x02, 0}, "texts": {0x82, 0x02, 0},
		"values": {0xc2, 0x04, 0},
	} {
		b, limit := []byte(strings.Repeat(string(one), 100_000)), 1<<20
		_, err := protobuf.Decoder{Unknown: "drop", Take: func(n int) error {
			if limit -= n; limit < 0 {
				return full
			}
			return nil
		}}.Decode(typ, b)
		if name != "values" && !errors.Is(err, full) {
			t.Errorf("%s: %v, want the limit", name, err)
		}
	}
	parts := protowire.AppendBytes([]byte{0x8a, 1}, append([]byte{0x72, 0xc0, 0x84, 0x3d}, make([]byte, 1_000_000)...))
	parts = append(parts, strings.Repeat("\x8a\x01\x02\x18\x01", 200_000)...)
	v, err := protobuf.Decoder{Take: unlimited}.Decode(typ, parts)
	if m, _ := v.(map[string]any); err != nil || m["child"] == nil {
		t.Errorf("a message in parts: %v", err)
	}
}

func BenchmarkDecode(b *testing.B) {
	typ, l := typeOf(b, "test.All"), libraryOf(b, "test.All")
	message, err := protobuf.Encoder{}.Encode(typ, map[string]any{"int64Value": 17, "stringValue": "Ada", "color": "BLUE",
		"timestamp": "2024-01-02T03:04:05Z", "children": []any{map[string]any{"int32Value": 2, "stringValue": "Lamp"},
			map[string]any{"int32Value": 1, "stringValue": "Globe"}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.unmarshal(message); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := (protobuf.Decoder{Take: unlimited}).Decode(typ, message); err != nil {
				b.Fatal(err)
			}
		}
	})
	v, err := protobuf.Decoder{Take: unlimited}.Decode(typ, message)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := (protobuf.Encoder{}).Encode(typ, v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
