package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/avro"
	"pgregory.net/rapid"
)

func recordOf(fields string) string {
	return `{"type":"record","name":"r","fields":[` + fields + `]}`
}

func field(typ string) string { return recordOf(`{"name":"v","type":` + typ + `}`) }

func TestCodec(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	tests := map[string]struct {
		schema   string
		in, want any
	}{
		"beyond 2^53":   {field(`"long"`), int64(1<<53 + 1), int64(1<<53 + 1)},
		"smallest":      {field(`"long"`), int64(math.MinInt64), int64(math.MinInt64)},
		"unsigned":      {field(`"long"`), uint64(math.MaxInt64), int64(math.MaxInt64)},
		"whole float":   {field(`"long"`), 7.0, int64(7)},
		"int to double": {field(`"double"`), 7, 7.0},
		"float":         {field(`"float"`), 1.5, float32(1.5)},
		"int":           {field(`"int"`), -5, int64(-5)},
		"bool":          {field(`"boolean"`), true, true},
		"bytes":         {field(`"bytes"`), []byte{0, 1}, []byte{0, 1}},
		"no bytes":      {field(`"bytes"`), []byte{}, []byte{}},
		"duration":      {field(`"long"`), time.Second, int64(1e9)},
		"time":          {field(`{"type":"long","logicalType":"timestamp-micros"}`), at, at},
		"time in a zone": {field(`{"type":"long","logicalType":"timestamp-millis"}`),
			at.In(time.FixedZone("x", 3600)), at.Truncate(time.Millisecond)},
		"time before 1970": {field(`{"type":"long","logicalType":"timestamp-micros"}`), time.Unix(-1, 5000).UTC(),
			time.Unix(-1, 5000).UTC()},
		"date": {field(`{"type":"int","logicalType":"date"}`), at,
			time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)},
		"date before 1970": {field(`{"type":"int","logicalType":"date"}`), time.Unix(-1, 0),
			time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)},
		"time of day":         {field(`{"type":"long","logicalType":"time-micros"}`), time.Hour, time.Hour},
		"time of day, coarse": {field(`{"type":"int","logicalType":"time-millis"}`), time.Hour, time.Hour},
		"decimal": {field(`{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`),
			"-12.34", "-12.34"},
		"small decimal":  {field(`{"type":"bytes","logicalType":"decimal","precision":9,"scale":3}`), 0.005, "0.005"},
		"negative power": {field(`{"type":"bytes","logicalType":"decimal","precision":9,"scale":0}`), -128, "-128"},
		"fixed decimal": {field(`{"type":"fixed","name":"f","size":4,"logicalType":"decimal","precision":9,"scale":2}`),
			"-1", "-1.00"},
		"decimal of zero": {field(`{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`), 0, "0.00"},
		"decimal of a number": {field(`{"type":"bytes","logicalType":"decimal","precision":30,"scale":4}`),
			json.Number("12345678901234567890.12"), "12345678901234567890.1200"},
		"decimal of a float": {field(`{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`),
			1234.56, "1234.56"},
		"decimal, all digits": {field(`{"type":"fixed","name":"f","size":2,"logicalType":"decimal","precision":4,"scale":4}`),
			"-0.9999", "-0.9999"},
		"decimal in a union": {field(`["null",{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}]`),
			"7.5", "7.50"},
		"nanoseconds":       {field(`{"type":"long","logicalType":"timestamp-nanos"}`), at.Add(1), at.Add(1)},
		"local nanoseconds": {field(`{"type":"long","logicalType":"local-timestamp-nanos"}`), at, at},
		"uuid": {field(`{"type":"fixed","name":"f","size":16,"logicalType":"uuid"}`),
			"00112233-4455-6677-8899-AABBCCDDEEFF", "00112233-4455-6677-8899-aabbccddeeff"},
		"uuid in text": {field(`{"type":"string","logicalType":"uuid"}`),
			"00112233-4455-6677-8899-aabbccddeeff", "00112233-4455-6677-8899-aabbccddeeff"},
		"span": {field(`{"type":"fixed","name":"f","size":12,"logicalType":"duration"}`),
			"P1Y2M1W3DT1H2M3.45S", "P14M10DT3723.45S"},
		"span of nothing": {field(`{"type":"fixed","name":"f","size":12,"logicalType":"duration"}`),
			make([]byte, 12), "PT0S"},
		"span without time": {field(`{"type":"fixed","name":"f","size":12,"logicalType":"duration"}`),
			"P4294967295M", "P4294967295M"},
		"number to a long":   {field(`"long"`), json.Number("-7"), int64(-7)},
		"number to a double": {field(`"double"`), json.Number("12345678901234567890.12"), 12345678901234567890.12},
		"number as JSON": {field(`{"type":"string","logicalType":"json"}`),
			json.Number("12345678901234567890.12"), json.Number("12345678901234567890.12")},
		"text as JSON": {field(`{"type":"string","logicalType":"json"}`), "5", "5"},
		"object as JSON": {field(`["null",{"type":"string","logicalType":"json"}]`),
			object{"a": []any{1.5, nil}}, object{"a": []any{1.5, nil}}},
		"fixed": {field(`{"type":"fixed","name":"f","size":2}`), []byte("ab"), []byte("ab")},
		"enum":  {field(`{"type":"enum","name":"e","symbols":["A","B"]}`), "B", "B"},
		"map": {field(`{"type":"map","values":"long"}`), object{"x": 1, "a": 2},
			object{"x": int64(1), "a": int64(2)}},
		"array":               {field(`{"type":"array","items":["null","string"]}`), []any{"a", nil}, []any{"a", nil}},
		"union, exact branch": {field(`["null","double","long"]`), 3, int64(3)},
		"union, other branch": {field(`["null","string"]`), []byte("x"), "x"},
		"union of time":       {field(`["null",{"type":"long","logicalType":"timestamp-micros"}]`), at, at},
		"null":                {field(`["null","long"]`), nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := schema.Parse(test.schema)
			if err != nil {
				t.Fatal(err)
			}
			b, err := c.Append([]byte("x"), object{"v": test.in})
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Decode(b[1:])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object{"v": test.want}, got); diff != "" {
				t.Error(diff)
			}
			if rest, err := avro.MustParse(test.schema).Decode(b[1:], new(any)); err != nil || len(rest) > 0 {
				t.Errorf("another decoder leaves %d bytes: %v", len(rest), err)
			}
		})
	}
}

// An invalid decimal is treated as its type without the logical type, as the Avro specification demands. The rest of
// the schema is kept exactly.
func TestInvalidDecimals(t *testing.T) {
	for name, typ := range map[string]string{
		"no precision":            `{"type":"bytes","logicalType":"decimal"}`,
		"precision 0":             `{"type":"bytes","logicalType":"decimal","precision":0,"scale":0}`,
		"more scale":              `{"type":"bytes","logicalType":"decimal","precision":2,"scale":5}`,
		"precision that is text":  `{"type":"bytes","logicalType":"decimal","precision":"2"}`,
		"too small":               `{"type":"fixed","name":"f","size":2,"logicalType":"decimal","precision":20,"scale":5}`,
		"on text":                 `{"type":"string","logicalType":"decimal","precision":2}`,
		"another that is invalid": `{"type":"string","logicalType":"timestamp-micros"}`,
	} {
		t.Run(name, func(t *testing.T) {
			c, err := schema.Parse(recordOf(`{"name":"v","type":` + typ +
				`},{"name":"w","type":"long","default":9007199254740993}`))
			if err != nil {
				t.Fatal(err)
			}
			b, err := c.Append(nil, object{"v": []byte("12")})
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Decode(b)
			if text, ok := got["v"].(string); ok {
				got["v"] = []byte(text)
			}
			if diff := cmp.Diff(object{"v": []byte("12"), "w": int64(9007199254740993)}, got); err != nil ||
				diff != "" {
				t.Error(err, diff)
			}
		})
	}
}

// A name refers to a type defined before it: in the enclosing namespace or, with dots, in any namespace.
func TestReferences(t *testing.T) {
	inner := object{"w": nil}
	for text, value := range map[string]any{
		recordOf(`{"name":"v","type":["null","r"]}`):                                                 object{"v": nil},
		`{"type":"record","name":"n.r","fields":[{"name":"v","type":["null","r"]}]}`:                 object{"v": nil},
		`{"type":"record","name":"r","namespace":"n","fields":[{"name":"v","type":["null","n.r"]}]}`: object{"v": nil},
		`{"type":"record","name":"r","namespace":"n","fields":[{"name":"v","type":{"type":"record","name":"o.i",` +
			`"fields":[{"name":"w","type":["null","i","n.r"]}]}}]}`: inner,
		`{"type":"record","name":"n.r","fields":[{"name":"v","type":{"type":"record","name":"i","namespace":"",` +
			`"fields":[{"name":"w","type":["null","i","n.r"]}]}}]}`: inner,
		`{"type":"record","name":"a.r","fields":[{"name":"u","type":{"type":"record","name":"i","fields":[{"name":"w",` +
			`"type":"null"}]}},{"name":"v","type":"i"}]}`: inner,
	} {
		c, err := schema.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		m := object{"v": value}
		if strings.Contains(text, `"u"`) {
			m["u"] = inner
		}
		b, err := c.Append(nil, m)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := c.Decode(b)
		if diff := cmp.Diff(m, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
}

func TestDecimalBytes(t *testing.T) {
	c, err := schema.Parse(field(`{"type":"bytes","logicalType":"decimal","precision":9,"scale":0}`))
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{0: "\x02\x00", 127: "\x02\x7f", 128: "\x04\x00\x80", -1: "\x02\xff",
		-129: "\x04\xff\x7f"} {
		if b, err := c.Append(nil, object{"v": n}); err != nil || string(b) != want {
			t.Errorf("%d: got %x, %v, want %x", n, b, err, want)
		}
	}
}

func TestCodecMissingFields(t *testing.T) {
	c,
		err := schema.Parse(
		recordOf(
			`{"name":"a","type":["null","long"]},{"name":"b","type":"long","default":7},{"name":"c","type":"null"},` +
				`{"name":"d","type":["string","long","null"]},{"name":"e","type":{"type":"fixed","name":"f","size":2},` +
				`"default":"ab"},{"name":"g","type":["null","long"],"default":null}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Append(nil, object{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Decode(b)
	want := object{"a": nil, "b": int64(7), "c": nil, "d": nil, "e": []byte("ab"), "g": nil}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestCodecRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		schema string
		in     object
		want   string
	}{
		"missing":      {field(`"long"`), object{}, "v: is required"},
		"unknown":      {field(`"long"`), object{"v": 1, "w": 1}, "w: is not in the schema"},
		"type":         {field(`"long"`), object{"v": "1"}, "v: must be long, not text"},
		"fraction":     {field(`"long"`), object{"v": 1.5}, "v: must be long, not floating-point number"},
		"too big":      {field(`"long"`), object{"v": uint64(math.MaxUint64)}, "v: number out of range"},
		"too big, int": {field(`"int"`), object{"v": 1 << 40}, "v: number out of range"},
		"union":        {field(`["null","long"]`), object{"v": true}, "no branch of the union accepts boolean"},
		"symbol": {field(`{"type":"enum","name":"e","symbols":["A"]}`), object{"v": "C"}, `"C" is not a symbol of ` +
			`the enum`},
		"fixed": {field(`{"type":"fixed","name":"f","size":2}`), object{"v": []byte("a")}, "must be 2 bytes"},
		"digits": {field(`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`),
			object{"v": "123.45"}, "more than 4 digits, and 2 after"},
		"not a uuid": {field(`{"type":"fixed","name":"f","size":16,"logicalType":"uuid"}`), object{"v": "x"}, "not a UUID"},
		"not a span": {field(`{"type":"fixed","name":"f","size":12,"logicalType":"duration"}`),
			object{"v": "P1.5D"}, "such as P1M2DT3.004S"},
		"long span": {field(`{"type":"fixed","name":"f","size":12,"logicalType":"duration"}`),
			object{"v": "P4294967296D"}, "out of range"},
		"late nanos": {field(`{"type":"long","logicalType":"timestamp-nanos"}`),
			object{"v": time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)}, "out of range"},
		"great number": {field(`"long"`), object{"v": json.Number("18446744073709551615")}, "out of range"},
		"decimals": {field(`{"type":"bytes","logicalType":"decimal","precision":9,"scale":1}`),
			object{"v": "1.23"}, "more than 1 decimal places"},
		"item": {field(`{"type":"array","items":"long"}`), object{"v": []any{1, "x"}},
			"v: [1]: must be long, not text"},
		"far time": {field(`{"type":"long","logicalType":"timestamp-micros"}`), object{"v": time.Unix(1<<50, 0)},
			"number out of range"},
		"time as number": {field(`"long"`), object{"v": time.Now()}, "an integer without a unit of time"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := schema.Parse(test.schema)
			if err != nil {
				t.Fatal(err)
			}
			b, err := c.Append([]byte("x"), test.in)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
			if string(b) != "x" {
				t.Errorf("got %q with the error", b)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "{}", `"long"`, `{"type":"record","name":"r"}`, field(`"nonsense"`)} {
		if _, err := schema.Parse(text); !errors.Is(err, schema.ErrInvalidSchema) {
			t.Errorf("%s: got error %v", text, err)
		}
	}
	if _, err := schema.Parse(field(`{"type":"record","name":"other","fields":[]}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := schema.Parse(field(`"other"`)); err == nil {
		t.Error("a name of one schema is known in the next")
	}
}

func TestDecodeIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		schema string
		data   []byte
	}{
		"empty":          {field(`"long"`), nil},
		"rest":           {field(`"boolean"`), []byte{1, 1}},
		"long string":    {field(`"string"`), []byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 'a'}},
		"negative":       {field(`"string"`), []byte{1}},
		"nulls for free": {field(`{"type":"array","items":"null"}`), []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0x0f}},
		"branch":         {field(`["null","long"]`), []byte{4}},
		"not a boolean":  {field(`"boolean"`), []byte{2}},
		"endless":        {`{"type":"record","name":"r","fields":[{"name":"v","type":"r"}]}`, nil},
		"large fixed":    {field(`{"type":"fixed","name":"f","size":1000000000}`), []byte{1}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := schema.Parse(test.schema)
			if err != nil {
				t.Fatal(err)
			}
			if v, err := c.Decode(test.data); err == nil {
				t.Errorf("got %v and no error", v)
			}
		})
	}
}

func values(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 9
		if depth > 0 {
			kinds = 11
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "v")
		case 2, 3:
			return rapid.Int64().Draw(t, "v")
		case 4:
			return rapid.Float64().Draw(t, "v")
		case 5:
			return rapid.String().Draw(t, "v")
		case 6:
			return append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "v")...)
		case 7:
			return time.UnixMicro(rapid.Int64Range(-1e15, 4e15).Draw(t, "v")).UTC()
		case 8:
			return json.Number(rapid.SampledFrom([]string{"12345678901234567890.12", "18446744073709551615",
				"1e400"}).Draw(t,
				"v"))
		case 9:
			return append([]any{}, rapid.SliceOfN(values(depth-1), 0, 3).Draw(t, "v")...)
		}
		return objects(depth-1).Draw(t, "v")
	})
}

func objects(depth int) *rapid.Generator[object] {
	return rapid.MapOfN(rapid.StringMatching(`[a-zA-Z_][a-z0-9_]{0,3}`), values(depth), 0, 4)
}

// sameUpToNulls compares two values, but a field that one lacks may be null in the other. Encoding has this effect on
// objects of an array whose fields differ.
func sameUpToNulls(a, b any) bool {
	switch a := a.(type) {
	case object:
		b, ok := b.(object)
		for k := range b {
			ok = ok && sameUpToNulls(a[k], b[k])
		}
		for k := range a {
			_, has := b[k]
			ok = ok && has
		}
		return ok
	case []any:
		b, ok := b.([]any)
		ok = ok && len(a) == len(b)
		for i := 0; ok && i < len(a); i++ {
			ok = sameUpToNulls(a[i], b[i])
		}
		return ok
	}
	return cmp.Equal(a, b)
}

// hasShape reports whether no position in an object holds both times and integers.
func hasShape(m object) bool {
	_, err := schema.ShapeOf(m)
	return err == nil
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, two := objects(2).Filter(hasShape).Draw(t, "one"), objects(2).Draw(t, "two")
		s, err := schema.ShapeOf(one)
		if err != nil {
			t.Fatal(err)
		}
		if wide, err := s.With(two); err == nil {
			s = wide
		}
		c, err := schema.Parse(s.Avro())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []object{one, two} {
			b, encodeErr := c.Append(nil, m)
			if fits := s.Fits(m); fits != (encodeErr == nil) && fits {
				t.Fatalf("fits, yet: %v\n%s", encodeErr, s.Avro())
			}
			if encodeErr != nil {
				continue
			}
			got, err := c.Decode(b)
			if err != nil || s.Fits(m) && !sameUpToNulls(m, got) {
				t.Fatalf("%v: %s\n%s", err, cmp.Diff(m, got), s.Avro())
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	text := recordOf(
		`{"name":"a","type":["null","long","string"]},{"name":"b","type":{"type":"array","items":{"type":"map",` +
			`"values":["null","r"]}}},` +
			`{"name":"c","type":{"type":"bytes","logicalType":"decimal","precision":5,"scale":2}},{"name":"d",` +
			`"type":{"type":"long","logicalType":"timestamp-micros"}}`)
	c, err := schema.Parse(text)
	if err != nil {
		f.Fatal(err)
	}
	seed, err := c.Append(nil, object{"a": 1, "b": []any{object{"x": nil}}, "c": "1.5", "d": time.Unix(5, 0)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{0, 1, 2, 3, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := c.Decode(data)
		if err != nil {
			return
		}
		b, err := c.Append(nil, m)
		if err != nil {
			if strings.Contains(err.Error(), "out of range") || strings.Contains(err.Error(),
				"decimal number") || strings.Contains(err.Error(), "digits") {
				return // times that Go can represent and Avro cannot, decimals with more digits than the schema permits
			}
			t.Fatalf("cannot encode what was decoded: %v", err)
		}
		again, err := c.Decode(b)
		if err != nil || !cmp.Equal(m, again) {
			t.Fatalf("%v: %s", err, cmp.Diff(m, again))
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	m := object{"id": 1, "name": "some name", "at": time.Now(), "ok": true, "d": time.Second}
	text, _ := schema.Infer(m)
	c, _ := schema.Parse(text)
	buf, _ := c.Append(nil, m)
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = c.Append(buf[:0], m)
	}
	if !bytes.Contains(buf, []byte("some name")) {
		b.Fatal("not encoded")
	}
}

func BenchmarkDecode(b *testing.B) {
	m := object{"id": 1, "name": "some name", "at": time.Now(), "ok": true, "d": time.Second}
	text, _ := schema.Infer(m)
	c, _ := schema.Parse(text)
	buf, _ := c.Append(nil, m)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Decode(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// isCounted reports whether the encoded length of an object is counted exactly. The length of a union is estimated, and
// so is the length of texts next to numbers with the logical type json, because these texts are quoted.
func isCounted(m object) bool {
	s, err := schema.ShapeOf(m)
	return err == nil && !strings.Contains(s.Avro(), `"null"`) && !strings.Contains(s.Avro(), `"items":[`) &&
		!strings.Contains(s.Avro(), `"items":{"type":"string","logicalType":"json"}`)
}

// The metrics count structured records by the length of their Avro form, without encoding them.
func TestContentIsTheEncodedLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := objects(3).Filter(isCounted).Draw(t, "object")
		s, err := schema.ShapeOf(m)
		if err != nil {
			t.Fatal(err)
		}
		c, err := schema.Parse(s.Avro())
		if err != nil {
			t.Fatal(err)
		}
		b, err := c.Append(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		r := record.Record{After: record.Structured(m),
			Metadata: record.Metadata{{Key: record.KeyPayloadSchemaSubject, Value: "s"}}}
		if got := r.Content(); got != len(b) {
			t.Fatalf("content %d of %d bytes: %v\n%s", got, len(b), m, s.Avro())
		}
	})
}
