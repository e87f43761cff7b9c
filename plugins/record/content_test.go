package record_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/conduit-agent/conduit/plugins/record"
)

func TestContent(t *testing.T) {
	object := map[string]any{"a<": "é\u2028\x01\"", "b": []any{1, 2.5, nil, true, []byte("xyz")}, "c": map[string]any{}}
	schemas := record.Metadata{{Key: record.KeyKeySchemaSubject, Value: "k"},
		{Key: record.KeyPayloadSchemaSubject, Value: "p"}}
	flat := map[string]any{"b": true, "d": 753 * time.Second, "n": int64(-64), "s": "xy", "t": time.UnixMicro(64)}
	for name, c := range map[string]struct {
		r    record.Record
		want int
	}{
		"nothing": {record.Record{Position: []byte("1")}, 0},
		"raw": {record.Record{Key: record.Raw([]byte("ab")), Before: record.Raw([]byte("c")),
			After: record.Raw([]byte("def"))}, 6},
		"JSON": {record.Record{After: record.Structured(object)},
			len(`{"a\u003c":"é\u2028\u0001\"","b":[1,2.5,null,true,"eHl6"],"c":{}}`)},
		"JSON of times": {record.Record{Key: record.Structured(map[string]any{"a": time.UnixMicro(1_500_000).UTC(),
			"b": time.Unix(5, 0), "c": time.Unix(5, 7)})},
			len(`{"a":"1970-01-01T00:00:01.5Z","b":"1970-01-01T00:00:05Z","c":"1970-01-01T00:00:05.000000007Z"}`)},
		"JSON of numbers": {record.Record{Key: record.Structured(map[string]any{"a": math.MinInt64, "b": int8(-9),
			"c": 100, "d": 1e21, "e": uint64(math.MaxUint64), "f": float32(1.1), "g": false})},
			len(`{"a":-9223372036854775808,"b":-9,"c":100,"d":1e+21,"e":18446744073709551615,"f":1.1,"g":false}`)},
		"Avro": {record.Record{Metadata: schemas, After: record.Structured(flat)}, 1 + 5 + 1 + 3 + 2},
		"Avro of keys": {record.Record{Metadata: schemas[:1], Key: record.Structured(map[string]any{"f": 1.5}),
			After: record.Structured(map[string]any{})}, 8 + 2},
		"Avro of arrays": {record.Record{Metadata: schemas,
			Before: record.Structured(map[string]any{"a": []any{}, "b": []any{1, 2}})}, 1 + 4},
	} {
		if got := c.r.Content(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		if got := record.NewBatch([]record.Record{c.r, c.r}).Content(); got != 2*c.want {
			t.Errorf("%s twice: %d, want %d", name, got, 2*c.want)
		}
	}
}

// The length of an integer is its number of digits, also around powers of ten.
func TestContentOfIntegers(t *testing.T) {
	for power := uint64(1); ; power *= 10 {
		for _, n := range []int64{int64(power - 1), int64(power), int64(power + 1), -int64(power - 1), -int64(power)} {
			r := record.Record{After: record.Structured(map[string]any{"n": n})}
			if got, want := r.Content(), len(fmt.Sprintf(`{"n":%d}`, n)); got != want {
				t.Errorf("%d: %d, want %d", n, got, want)
			}
		}
		if power > math.MaxInt64/10 {
			return
		}
	}
}

// An encoded batch has the same content size as its decoded records.
func TestContentOfEncodedBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(wireRecord(), 1, 4).Draw(t, "records")
		wire, err := record.NewBatch(in).AppendWire(nil, 0, len(in))
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := record.NewEncodedBatch(wire)
		if err != nil {
			t.Fatal(err)
		}
		got := encoded.Content()
		decoded, err := encoded.Clone().Records()
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for i := range decoded {
			decoded[i].Metadata = nil // named schemas are not read: the records are raw
			want += decoded[i].Content()
		}
		if joined, err := record.Join([]*record.Batch{encoded, encoded}); err != nil || got != want ||
			joined.Content() != 2*want || encoded.Slice(0, 1).Content() > want {
			t.Fatalf("content %d, want %d (%v)", got, want, err)
		}
	})
}
