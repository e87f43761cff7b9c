package record_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"pgregory.net/rapid"
)

// wireValue draws a value that the wire form preserves.
func wireValue(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.String().AsAny(),
		rapid.Bool().AsAny(),
		rapid.Float64().AsAny(),
	}
	if depth > 0 {
		leaves = append(leaves,
			rapid.MapOf(rapid.String(), wireValue(depth-1)).AsAny(),
			rapid.SliceOf(wireValue(depth-1)).AsAny())
	}
	return rapid.OneOf(leaves...)
}

func wireData() *rapid.Generator[record.Data] {
	return rapid.OneOf(
		rapid.Just(record.Data{}),
		rapid.Map(rapid.SliceOf(rapid.Byte()), record.Raw),
		rapid.Map(rapid.MapOf(rapid.String(), wireValue(3)), record.Structured),
	)
}

func wireRecord() *rapid.Generator[record.Record] {
	return rapid.Custom(func(t *rapid.T) record.Record {
		r := record.Record{
			Position:  rapid.SliceOfN(rapid.Byte(), 1, -1).Draw(t, "position"),
			Operation: record.Operation(rapid.Int32().Draw(t, "operation")),
			Metadata: record.NewMetadata(rapid.MapOfN(rapid.SampledFrom([]string{"", "a", "b", record.KeyReadAt}),
				rapid.SampledFrom([]string{"", "x", "ä"}), 0, 4).Draw(t, "metadata")),
			Key:    wireData().Draw(t, "key"),
			Before: wireData().Draw(t, "before"),
			After:  wireData().Draw(t, "after"),
		}
		if len(r.Metadata) == 0 {
			r.Metadata = nil
		}
		return r
	})
}

func TestWireRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := wireRecord().Draw(t, "record")
		b, err := record.AppendWire(nil, &r)
		if err != nil {
			t.Fatal(err)
		}
		in := bytes.Clone(b)
		got, err := record.ParseWire(in)
		clear(in)
		if err != nil || !got.Equal(r) {
			t.Fatalf("got  %#v, %v\nwant %#v", got, err, r)
		}
	})
}

// A batch behaves the same in both forms.
func TestBatchForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(wireRecord(), 1, 5).Draw(t, "records")
		decoded := record.NewBatch(records)
		buf, err := decoded.AppendWire(nil, 0, decoded.Len())
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := record.NewEncodedBatch(buf)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 3).Draw(t, "defaults") {
			key := rapid.SampledFrom([]string{record.KeyReadAt, record.KeySourceConnectorID, "a"}).Draw(t, "key")
			value := rapid.SampledFrom([]string{"", "1", strings.Repeat("long", 50)}).Draw(t, "value")
			decoded.SetMetadataDefault(key, value)
			encoded.SetMetadataDefault(key, value)
		}
		if key := rapid.SampledFrom([]string{"", record.KeyReadAt, "a"}).Draw(t, "set"); key != "" {
			for _, b := range []*record.Batch{decoded, encoded} {
				if err := b.SetMetadata(key, "2"); err != nil {
					t.Fatal(err)
				}
				for i := range records {
					if got := b.Metadata(i, key); got != "2" {
						t.Fatalf("%s of record %d is %q", key, i, got)
					}
				}
			}
		}
		i := rapid.IntRange(0, len(records)).Draw(t, "i")
		j := rapid.IntRange(i, len(records)).Draw(t, "j")
		decoded, encoded = decoded.Slice(i, j), encoded.Slice(i, j)
		if rapid.Bool().Draw(t, "clone") {
			decoded, encoded = decoded.Clone(), encoded.Clone()
		}
		again, err := encoded.AppendWire([]byte("x"), 0, encoded.Len())
		if err != nil {
			t.Fatal(err)
		}
		through, err := record.NewEncodedBatch(again[1:])
		if err != nil {
			t.Fatal(err)
		}
		compare(t, decoded, encoded)
		compare(t, decoded, through)
	})
}

func compare(t *rapid.T, want, got *record.Batch) {
	if got.Len() != want.Len() {
		t.Fatalf("got %d records, want %d", got.Len(), want.Len())
	}
	size := got.Size()
	for i := range want.Len() {
		if !bytes.Equal(got.Position(i), want.Position(i)) {
			t.Fatalf("position %d: got %q, want %q", i, got.Position(i), want.Position(i))
		}
	}
	for i := range want.Len() {
		if got.Operation(i) != want.Operation(i) {
			t.Fatalf("operation %d: got %d, want %d", i, got.Operation(i), want.Operation(i))
		}
		for _, key := range []string{"", "a", "b", record.KeyReadAt, record.KeySourceConnectorID, "none"} {
			if got.Metadata(i, key) != want.Metadata(i, key) {
				t.Fatalf("metadata %q of %d: got %q, want %q", key, i, got.Metadata(i, key), want.Metadata(i, key))
			}
		}
	}
	wantRecords, _ := want.Records()
	gotRecords, err := got.Records()
	if err != nil {
		t.Fatal(err)
	}
	for i := range wantRecords {
		if !gotRecords[i].Equal(wantRecords[i]) {
			t.Fatalf("record %d: got %#v\nwant %#v", i, gotRecords[i], wantRecords[i])
		}
	}
	if got.Size() != size {
		t.Fatalf("size changed from %d to %d when decoded", size, got.Size())
	}
}

// Joining keeps the order, and keeps encoded records encoded.
func TestJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []record.Record
		var batches []*record.Batch
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			records := rapid.SliceOfN(wireRecord(), 1, 3).Draw(t, "records")
			all = append(all, records...)
			b := record.NewBatch(records)
			if rapid.Bool().Draw(t, "encoded") {
				buf, err := b.AppendWire(nil, 0, b.Len())
				if err != nil {
					t.Fatal(err)
				}
				if b, err = record.NewEncodedBatch(buf); err != nil {
					t.Fatal(err)
				}
			}
			b.SetMetadataDefault(record.KeyReadAt, "1")
			batches = append(batches, b)
		}
		for i := range all {
			all[i].Metadata.SetDefault(record.KeyReadAt, "1")
		}
		joined, err := record.Join(batches)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, record.NewBatch(all), joined)
	})
}

// Changes of records of an encoded batch do not affect its copies.
func TestEncodedBatchesShareNoMutableState(t *testing.T) {
	r := record.Record{Position: record.Position("1"), After: record.Raw([]byte("abc"))}
	buf, err := record.NewBatch([]record.Record{r}).AppendWire(nil, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	first, err := record.NewEncodedBatch(buf)
	if err != nil {
		t.Fatal(err)
	}
	second := first.Clone()
	records, err := first.Records()
	if err != nil {
		t.Fatal(err)
	}
	b, _ := records[0].After.Raw()
	copy(b, "zzz")
	records[0].Position[0] = 'z'
	if records, err = second.Records(); err != nil || !records[0].Equal(r) {
		t.Errorf("got %v, %v, want %v", records, err, r)
	}
}

// A batch that goes to several destinations may be decoded and written concurrently.
func TestConcurrentReaders(t *testing.T) {
	buf, err := sampleBatch(50).AppendWire(nil, 0, 50)
	if err != nil {
		t.Fatal(err)
	}
	b, err := record.NewEncodedBatch(buf)
	if err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			if records, err := b.Records(); err != nil || len(records) != 50 {
				t.Errorf("got %d records, %v", len(records), err)
			}
		})
		readers.Go(func() {
			for i := range 50 {
				if len(b.Position(i)) == 0 {
					t.Errorf("no position %d", i)
				}
			}
			if out, err := b.AppendWire(nil, 0, 50); err != nil || len(out) == 0 {
				t.Errorf("got %d bytes, %v", len(out), err)
			}
		})
	}
	readers.Wait()
}

func TestAppendWireValues(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))
	tests := []struct{ in, want any }{
		{int(1), 1.0}, {int8(-1), -1.0}, {uint64(math.MaxUint64), json.Number("18446744073709551615")},
		{int64(math.MinInt64), int64(math.MinInt64)}, {float32(0.5), 0.5},
		{[]byte("hi"), "aGk="}, {at, "2026-01-02T02:04:05.000006Z"}, {2 * time.Second, 2e9},
		{[]string{"a"}, []any{"a"}}, {map[string]string{"a": "b"}, map[string]any{"a": "b"}},
		{struct{ A []int }{}, map[string]any{"A": nil}},
		{[]any(nil), []any{}}, {map[string]any(nil), map[string]any{}},
	}
	for _, tt := range tests {
		r := record.Record{Key: record.Structured(map[string]any{"v": tt.in})}
		b, err := record.AppendWire(nil, &r)
		if err != nil {
			t.Errorf("%T: %v", tt.in, err)
			continue
		}
		got, err := record.ParseWire(b)
		if want := record.Structured(map[string]any{"v": tt.want}); err != nil || !got.Key.Equal(want) {
			t.Errorf("%T: got %v, %v, want %v", tt.in, got.Key, err, want)
		}
	}
}

func TestAppendWireRefuses(t *testing.T) {
	cycle := map[string]any{}
	cycle["a"] = []any{cycle}
	for _, d := range []map[string]any{{"a": make(chan int)}, cycle} {
		for _, r := range []record.Record{{Key: record.Structured(d)}, {Before: record.Structured(d)},
			{After: record.Structured(d)}} {
			if b, err := record.AppendWire(nil, &r); err == nil {
				t.Errorf("got %q, want an error", b)
			}
		}
	}
}

func TestParseWireLenient(t *testing.T) {
	tests := []struct {
		name, in string
		want     record.Record
	}{
		{"nothing", "", record.Record{}},
		{"empty data is none", "\x22\x00\x2a\x04\x0a\x00\x12\x00", record.Record{}},
		{"empty raw data is not", "\x22\x02\x0a\x00", record.Record{Key: record.Raw([]byte{})}},
		{"no payload", "\x0a\x011\x10\x01",
			record.Record{Position: record.Position("1"), Operation: record.OperationCreate}},
		{"unknown fields and groups", "\x32\x01x\x38\x01\x41abcdefgh\x45abcd\x4b\x50\x01\x53\x54\x4c\x0a\x011",
			record.Record{Position: record.Position("1")}},
		{"another wire type", "\x08\x01\x12\x01x\x0a\x011", record.Record{Position: record.Position("1")}},
		{"the last of several", "\x0a\x011\x0a\x012\x22\x03\x0a\x01a\x22\x03\x0a\x01b",
			record.Record{Position: record.Position("2"), Key: record.Raw([]byte("b"))}},
	}
	for _, tt := range tests {
		if got, err := record.ParseWire([]byte(tt.in)); err != nil || !got.Equal(tt.want) {
			t.Errorf("%s: got %#v, %v, want %#v", tt.name, got, err, tt.want)
		}
	}
}

func TestParseWireRefuses(t *testing.T) {
	deep := "\x1a\x01x"
	for range 2000 {
		deep = message(6, message(1, deep))
	}
	deep = message(4, message(2, message(1, "\x0a\x01a"+message(2, deep))))
	for _, in := range []string{"\x0a", "\x0a\x05abc", "\x00\x01", "\x0f", "\x0b", "\x0c", "\x80",
		"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
		"\x41abc", "\x1a\x03\x0a\x01\xff", "\x1a\x03\x12\x01\xff", "\x22\x02\x0a\x05", "\x2a\x01\x0a", deep} {
		if r, err := record.ParseWire([]byte(in)); err == nil {
			t.Errorf("%.20q: got %v, want an error", in, r)
		}
		b, n, err := record.ReadBatch([]byte(message(1, message(1, "1"))+message(1, in)), unlimited)
		if b.Len() != 1 || n != 5 || err == nil {
			t.Errorf("%.20q: %d records in %d bytes are right, %v, want one and an error", in, b.Len(), n, err)
		}
	}
}

// unlimited are limits that no test reaches.
var unlimited = record.Limits{Records: math.MaxInt, Metadata: math.MaxInt, Memory: math.MaxInt}

func message(num byte, content string) string {
	b := []byte{num<<3 | 2}
	n := len(content)
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return string(append(b, byte(n))) + content
}

func TestNewEncodedBatchRefuses(t *testing.T) {
	for _, in := range []string{"\x0a", "\x0a\x02\x0a", "\x0a\x02\x0a\x05", "\x0b"} {
		if b, err := record.NewEncodedBatch([]byte(in)); err == nil {
			t.Errorf("%q: got %d records, want an error", in, b.Len())
		}
	}
	b, err := record.NewEncodedBatch([]byte("\x0a\x06\x0a\x011\x22\x01\x0a\x12\x00"))
	if err != nil || b.Len() != 1 {
		t.Fatalf("got %v, %v", b, err)
	}
	if r, err := b.Records(); err == nil || !strings.Contains(err.Error(), `record "1"`) {
		t.Errorf("got %v, %v, want an error that names the record", r, err)
	}
}

func TestEmptyBatch(t *testing.T) {
	b, err := record.NewEncodedBatch(nil)
	if err != nil || b.Len() != 0 || b.Size() != 0 {
		t.Fatalf("got %d records, %v", b.Len(), err)
	}
	if r, err := b.Records(); err != nil || len(r) != 0 {
		t.Errorf("got %v, %v", r, err)
	}
}

// printed returns the records as text, in which NaN equals itself.
func printed(records ...record.Record) (text string) {
	for _, r := range records {
		text += fmt.Sprintln(r.Map())
	}
	return text
}

func FuzzParseWire(f *testing.F) {
	r := sample()
	b, err := record.AppendWire(nil, &r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("\x22\x0b\x12\x09\x0a\x07\x0a\x01a\x12\x02\x08\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := record.ParseWire(in)
		if err != nil {
			return
		}
		b, err := record.AppendWire(nil, &r)
		if err != nil {
			t.Fatalf("cannot write what was read: %v", err)
		}
		again, err := record.ParseWire(b)
		if err != nil || printed(again) != printed(r) {
			t.Fatalf("got %s, %v\nwant %s", printed(again), err, printed(r))
		}
		if b, err = record.AppendWire(nil, &r); err != nil { // its objects are decoded now
			t.Fatalf("cannot write what was decoded: %v", err)
		}
		if again, err = record.ParseWire(b); err != nil || printed(again) != printed(r) {
			t.Fatalf("got %s, %v\nwant %s, which was decoded", printed(again), err, printed(r))
		}
	})
}

// The memory of a small message is limited: such a batch is read in parts if possible, otherwise refused.
func TestReadBatchLimits(t *testing.T) {
	limits := record.Limits{Records: 100, Metadata: 50, Memory: 50_000}
	bare := message(1, message(1, "1"))
	withMetadata := func(n int) string {
		entries := ""
		for i := range n {
			entries += message(3, message(1, strconv.Itoa(i)))
		}
		return message(1, message(1, "m")+entries)
	}
	payload := func(value string) string { // an object with one member
		return message(1, message(1, "p")+
			message(5, message(2, message(2, message(1, message(1, "k")+message(2, value))))))
	}
	list := func(n int, item string) string { return payload(message(6, strings.Repeat(message(1, item), n))) }
	for _, tt := range []struct {
		name, in string
		sizes    []int // sizes of the batches
		refused  string
	}{
		{"many records", strings.Repeat(bare, 250), []int{100, 100, 50}, ""},
		{"many great records", strings.Repeat(list(400, "\x08\x00"), 9), []int{4, 4, 1}, ""},
		{"metadata within the limit", bare + withMetadata(50), []int{2}, ""},
		{"too much metadata", bare + withMetadata(51), []int{1}, `"m": its metadata has 51 entries, more than 50`},
		{"too many values", bare + list(3000, "\x08\x00"), []int{1}, `"p": it takes`},
		{"too many objects", list(800, message(5, "")), nil, `"p": it takes`},
		{"too many lists", list(1200, message(6, "")), nil, `"p": it takes`},
		{"too many members", payload(message(5, strings.Repeat(message(1, ""), 1000))), nil, `"p": it takes`},
		{"too long", bare + payload(message(3, strings.Repeat("x", 60_000))), []int{1}, `"p": it takes`},
	} {
		var sizes []int
		var err error
		for in := []byte(tt.in); len(in) > 0 && err == nil; {
			var b *record.Batch
			var n int
			if b, n, err = record.ReadBatch(in, limits); n == 0 {
				break
			}
			sizes, in = append(sizes, b.Len()), in[n:]
			if _, decodeErr := b.Records(); decodeErr != nil || b.Memory() > limits.Memory+100*600 {
				t.Errorf("%s: a batch of %d bytes, %v", tt.name, b.Memory(), decodeErr)
			}
		}
		if !slices.Equal(sizes, tt.sizes) || (err == nil) != (tt.refused == "") || err != nil &&
			!strings.Contains(err.Error(), tt.refused) {
			t.Errorf("%s: batches of %v, %v, want %v and %q", tt.name, sizes, err, tt.sizes, tt.refused)
		}
	}
}

func FuzzNewEncodedBatch(f *testing.F) {
	r := sample()
	b, err := record.NewBatch([]record.Record{r, r}).AppendWire(nil, 0, 2)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, in []byte) {
		batch, err := record.NewEncodedBatch(in)
		if err != nil {
			return
		}
		batch.SetMetadataDefault("k", "v")
		b, err := batch.AppendWire(nil, 0, batch.Len())
		if err != nil {
			t.Fatal(err)
		}
		again, err := record.NewEncodedBatch(b)
		if err != nil || again.Len() != batch.Len() {
			t.Fatalf("got %d records, %v, want %d", again.Len(), err, batch.Len())
		}
		for i := range batch.Len() {
			if !bytes.Equal(batch.Position(i), again.Position(i)) {
				t.Fatalf("position %d: got %q, want %q", i, again.Position(i), batch.Position(i))
			}
		}
		good, n, checkErr := record.ReadBatch(in, unlimited)
		want, wantErr := batch.Records()
		if (checkErr == nil) != (wantErr == nil) || (checkErr == nil) != (good.Len() == batch.Len() && n == len(in)) {
			t.Fatalf("%d of %d records are right, %v; decoding says %v", good.Len(), batch.Len(), checkErr, wantErr)
		}
		got, gotErr := again.Records()
		if (gotErr == nil) != (wantErr == nil) || printed(got...) != printed(want...) {
			t.Fatalf("got %s, %v\nwant %s, %v", printed(got...), gotErr, printed(want...), wantErr)
		}
	})
}

func sampleBatch(n int) *record.Batch {
	records := make([]record.Record, n)
	for i := range records {
		records[i] = sample()
	}
	return record.NewBatch(records)
}

func BenchmarkBatch(b *testing.B) {
	const n = 100
	batch := sampleBatch(n)
	buf, err := batch.AppendWire(nil, 0, n)
	if err != nil {
		b.Fatal(err)
	}
	perRecord := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		b.ReportAllocs()
	}
	b.Run("encode", func(b *testing.B) {
		out := make([]byte, 0, 2*len(buf))
		for b.Loop() {
			if _, err := batch.AppendWire(out, 0, n); err != nil {
				b.Fatal(err)
			}
		}
		perRecord(b)
	})
	for name, objects := range map[string]bool{"decode": true, "decode but objects": false} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				e, _ := record.NewEncodedBatch(buf)
				records, err := e.Records()
				if err != nil {
					b.Fatal(err)
				}
				for i := range records {
					if objects {
						records[i].After.Structured()
					}
				}
			}
			perRecord(b)
		})
	}
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := record.ReadBatch(buf, unlimited); err != nil {
				b.Fatal(err)
			}
		}
		perRecord(b)
	})
	b.Run("forward", func(b *testing.B) {
		out := make([]byte, 0, 2*len(buf))
		for b.Loop() {
			e, _ := record.NewEncodedBatch(buf)
			e.SetMetadataDefault(record.KeyReadAt, "1795191553473614105")
			e.SetMetadataDefault(record.KeyDLQNackNodeID, "orders:generator")
			if _, err := e.AppendWire(out, 0, n); err != nil {
				b.Fatal(err)
			}
		}
		perRecord(b)
	})
}
