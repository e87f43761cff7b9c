package record_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/record"
)

func TestAppendJSON(t *testing.T) {
	tests := []struct {
		name string
		rec  record.Record
		want string
	}{
		{"zero", record.Record{},
			`{"position":null,"operation":"Operation(0)","metadata":null,"key":null,"payload":{"before":null,"after":null}}`},
		{"raw key, structured payload", record.Record{
			Position:  record.Position("1"),
			Operation: record.OperationCreate,
			Metadata:  record.NewMetadata(map[string]string{"k": "v", "a": "<b>"}),
			Key:       record.Raw([]byte("hello")),
			After:     record.Structured(map[string]any{"b": []byte("x"), "a": 1}),
		},
			`{"position":"MQ==","operation":"create","metadata":{"a":"\u003cb\u003e","k":"v"},"key":"aGVsbG8=",` +
				`"payload":{"before":null,"after":{"a":1,"b":"eA=="}}}`},
		{"empty is not nothing", record.Record{
			Position:  record.Position{},
			Operation: record.OperationDelete,
			Metadata:  record.Metadata{},
			Key:       record.Raw([]byte{}),
			Before:    record.Structured(map[string]any{}),
		}, `{"position":"","operation":"delete","metadata":{},"key":"","payload":{"before":{},"after":null}}`},
		{"nil inside", record.Record{
			Key:    record.Raw(nil),
			Before: record.Structured(nil),
		},
			`{"position":null,"operation":"Operation(0)","metadata":null,"key":null,"payload":{"before":null,"after":null}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := record.AppendJSON([]byte("x"), &tt.rec)
			if err != nil || string(got) != "x"+tt.want {
				t.Errorf("got  %s, %v\nwant x%s", got, err, tt.want)
			}
			if got, err := json.Marshal(tt.rec); err != nil || string(got) != tt.want {
				t.Errorf("json.Marshal: got %s, %v", got, err)
			}
		})
	}
}

func TestAppendInspectJSON(t *testing.T) {
	tests := []struct {
		rec  record.Record
		want string
	}{
		{record.Record{},
			`{"position":"","operation":"OPERATION_UNSPECIFIED","metadata":{},"key":null,"payload":{"before":null,` +
				`"after":null}}`},
		{record.Record{
			Position:  record.Position("1"),
			Operation: record.OperationSnapshot,
			Metadata:  record.NewMetadata(map[string]string{"k": "v"}),
			Key:       record.Raw([]byte{}),
			Before:    record.Structured(nil),
			After:     record.Structured(map[string]any{"a": 1}),
		},
			`{"position":"MQ==","operation":"OPERATION_SNAPSHOT","metadata":{"k":"v"},"key":{"rawData":""},` +
				`"payload":{"before":{"structuredData":{}},"after":{"structuredData":{"a":1}}}}`},
		{record.Record{Operation: 9},
			`{"position":"","operation":9,"metadata":{},"key":null,"payload":{"before":null,"after":null}}`},
	}
	for _, tt := range tests {
		got, err := record.AppendInspectJSON(nil, &tt.rec)
		if err != nil || string(got) != tt.want {
			t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
		}
	}
}

// The text of every value equals the output of encoding/json.
func TestValuesAsEncodingJSON(t *testing.T) {
	many := map[string]any{}
	for i := range 40 {
		many[string(rune('a'+i))] = i
	}
	values := []any{
		nil, true, false, "", "a\"b\\c\n\r\t\b\f\x00\x1f\x7f<>&", "ä\u2028\u2029😀",
		0, -1, int8(-8), int16(-16), int32(-32), int64(math.MinInt64),
		uint(1), uint8(8), uint16(16), uint32(32), uint64(math.MaxUint64),
		1.5, float32(0.1), 1e20, 1e21, -1e21, 1e-6, 1e-7, 1.25e-10, 1e-100, 5e-324, math.MaxFloat64,
		math.Copysign(0, -1),
		float32(1e-7), float32(1e21), float32(1e-10), float32(math.SmallestNonzeroFloat32),
		[]byte(nil), []byte{}, []byte("abc"), json.Number("12.50"), json.Number(""),
		time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), 3 * time.Second,
		[]any(nil), []any{}, []any{1, "a", nil, []any{true}}, []string(nil), []string{"a", "<"},
		map[string]any(nil), map[string]any{}, map[string]any{"b": 1, "a": map[string]any{"c": nil}}, many,
		map[string]string(nil), map[string]string{}, map[string]string{"b": "1", "a": "2"},
		struct{ A int }{7}, []int{1, 2},
	}
	for _, v := range values {
		m := map[string]any{"v": v}
		want, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := record.Structured(m).AppendJSON(nil); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%T %v\ngot  %s, %v\nwant %s", v, v, got, err, want)
		}
	}
}

func TestTimesAreUTC(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	got, err := record.Structured(map[string]any{"t": at}).AppendJSON(nil)
	if want := `{"t":"2026-01-02T02:04:05Z"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestUnmarshalJSON(t *testing.T) {
	tests := []struct {
		in   string
		want record.Record
	}{
		{`{}`, record.Record{}},
		{`{"unknown":[1],"operation":"update"}`, record.Record{Operation: record.OperationUpdate}},
		{
			`{"key":"","payload":{"after":{"i":9007199254740993,"f":1.5,"e":1e3,"big":18446744073709551616,"huge":1e999,` +
				`"l":[1,{"m":2}]}}}`,
			record.Record{
				Key: record.Raw([]byte{}),
				After: record.Structured(map[string]any{"i": int64(9007199254740993), "f": 1.5, "e": 1000.0,
					"big": json.Number("18446744073709551616"), "huge": json.Number("1e999"),
					"l": []any{int64(1), map[string]any{"m": int64(2)}}}),
			}},
		{` {"position":"MQ==", "metadata":{"k":"v"}, "key": null , "payload":{"before":"aGk="} }`,
			record.Record{Position: record.Position("1"), Metadata: record.Metadata{{Key: "k", Value: "v"}},
				Before: record.Raw([]byte("hi"))}},
	}
	for _, tt := range tests {
		var got record.Record
		if err := json.Unmarshal([]byte(tt.in), &got); err != nil || !got.Equal(tt.want) {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v", tt.in, got, err, tt.want)
		}
	}
}

func TestUnmarshalJSONRefuses(t *testing.T) {
	for _, in := range []string{``, `[]`, `{"operation":"x"}`, `{"key":1}`, `{"key":[1]}`, `{"key":"%"}`,
		`{"position":"%"}`, `{"key":{}`} {
		var r record.Record
		if err := r.UnmarshalJSON([]byte(in)); err == nil {
			t.Errorf("%s: got %+v, want an error", in, r)
		}
	}
	var d record.Data
	if err := d.UnmarshalJSON(nil); err == nil {
		t.Error("no data: want an error")
	}
}

func TestMap(t *testing.T) {
	r := record.Record{
		Position:  record.Position("1"),
		Operation: record.OperationUpdate,
		Metadata:  record.Metadata{{Key: "k", Value: "v"}},
		Key:       record.Raw([]byte("hi")),
		After:     record.Structured(map[string]any{"a": 1}),
	}
	got, err := record.Structured(r.Map()).AppendJSON(nil)
	want := `{"key":"aGk=","metadata":{"k":"v"},"operation":"update","payload":{"after":{"a":1},"before":null},` +
		`"position":"MQ=="}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

func FuzzRecordJSON(f *testing.F) {
	f.Add(
		[]byte(
			`{"position":"MQ==","operation":"create","metadata":{"a":"<"},"key":"aGk=","payload":{"before":null,` +
				`"after":{"a":1,"b":[1.5,"x"]}}}`))
	f.Add([]byte(`{"operation":"Operation(7)","key":{"a":-0,"b":1e400}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var r record.Record
		if r.UnmarshalJSON(in) != nil {
			return
		}
		first, err := record.AppendJSON(nil, &r)
		if err != nil {
			t.Fatalf("cannot write what was read: %v", err)
		}
		if !json.Valid(first) {
			t.Fatalf("not JSON: %s", first)
		}
		var again record.Record
		if err := again.UnmarshalJSON(first); err != nil {
			t.Fatalf("cannot read %s: %v", first, err)
		}
		if second, err := record.AppendJSON(nil, &again); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("not stable:\n%s\n%s, %v", first, second, err)
		}
		if b, err := record.AppendInspectJSON(nil, &r); err != nil || !json.Valid(b) {
			t.Fatalf("inspect form is not JSON: %s, %v", b, err)
		}
	})
}

func FuzzStringAsEncodingJSON(f *testing.F) {
	f.Add("a<b>\u2028", 1e-7)
	f.Fuzz(func(t *testing.T, s string, x float64) {
		if !utf8.ValidString(s) {
			return
		}
		m := map[string]any{s: s}
		if !math.IsInf(x, 0) && !math.IsNaN(x) {
			m["x"], m["y"] = x, float32(x)
			if math.IsInf(float64(float32(x)), 0) {
				delete(m, "y")
			}
		}
		want, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := record.Structured(m).AppendJSON(nil); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %s, %v\nwant %s", got, err, want)
		}
	})
}

func sample() record.Record {
	return record.Record{
		Position:  record.Position("generator/000000123456"),
		Operation: record.OperationCreate,
		Metadata: record.NewMetadata(map[string]string{
			"opencdc.collection": "users", "opencdc.createdAt": "1795191553473614105",
			"opencdc.readAt":  "1795191553473614105",
			"opencdc.version": "v1", "conduit.source.connector.id": "orders:generator"}),
		Key:   record.Raw([]byte("anadicrotic")),
		After: record.Structured(map[string]any{"id": int64(1413389873783753773), "name": "carpetbagger"}),
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	r := sample()
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := record.AppendJSON(buf, &r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendInspectJSON(b *testing.B) {
	r := sample()
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := record.AppendInspectJSON(buf, &r); err != nil {
			b.Fatal(err)
		}
	}
}
