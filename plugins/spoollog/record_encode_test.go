package spoollog_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// samples returns records that refer to each other's names and values.
func samples() []record.Record {
	return []record.Record{
		{Operation: record.OperationCreate, Metadata: record.Metadata{{Key: "k", Value: "1795322891590886180"}},
			After: record.Raw([]byte("a"))},
		{Operation: -7, Metadata: record.Metadata{{Key: "k", Value: "1795322891590886181"}, {Key: "x", Value: "007"}},
			Key: record.Raw([]byte("\xff"))},
		{Metadata: record.Metadata{{Key: "x", Value: "007"}, {Key: "k", Value: "0"}},
			Before: record.Structured(map[string]any{"k": int8(-1), "x": []any{time.Hour, nil}})},
		{After: record.Structured(map[string]any{"k": map[string]any{"x": uint64(math.MaxUint64), "y": []byte{0}}})},
		{After: record.Structured(map[string]any{"great": json.Number("1e400"), "exact": json.Number("12.50"),
			"text": "\xff", "far": time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)})},
		{After: record.Structured(map[string]any{"d": 0.1, "inf": math.Inf(-1), "f": float32(0.1), "t": true,
			"n": false, "i": -1 << 40, "i8": int8(-8), "i16": int16(-300),
			"i32": int32(-70000), "i64": int64(math.MinInt64), "u": uint(1 << 40), "u8": uint8(255),
			"u16": uint16(65535), "u32": uint32(1 << 31), "list": []any{}, "object": map[string]any{}})},
	}
}

func encode(t testing.TB, records []record.Record) []byte {
	t.Helper()
	var e spoollog.RecordEncoder
	e.Reset([]byte("header"))
	for i := range records {
		if err := e.Append(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	body, ok := bytes.CutPrefix(e.Take(), []byte("header"))
	if !ok {
		t.Fatal("what was in the buffer is gone")
	}
	return body
}

func TestCodecDecodesWhatItEncoded(t *testing.T) {
	body := encode(t, samples())
	got, err := spoollog.DecodeRecords(nil, body, len(samples()))
	if err != nil || len(got) != len(samples()) {
		t.Fatalf("decoded %d records: %v", len(got), err)
	}
	for i, want := range samples() {
		if !got[i].Equal(want) {
			t.Errorf("record %d: got %+v, want %+v", i, got[i], want)
		}
	}
}

// A body that is truncated, or whose record count differs from the given one, is malformed.
func TestRefusesWhatIsNoBody(t *testing.T) {
	body, n := encode(t, samples()), len(samples())
	for size := range body {
		if got, err := spoollog.DecodeRecords(nil, body[:size], n); err == nil {
			t.Errorf("decoded %d records of %d of %d bytes", len(got), size, len(body))
		}
	}
	for _, count := range []int{n - 1, n + 1} {
		if _, err := spoollog.DecodeRecords(nil, body, count); err == nil {
			t.Errorf("decoded %d of %d records", count, n)
		}
	}
}

func TestUnencodableRecordLeavesNoBytes(t *testing.T) {
	var e spoollog.RecordEncoder
	e.Reset(nil)
	good := samples()[0]
	if err := e.Append(&good); err != nil {
		t.Fatal(err)
	}
	size := e.Len()
	if err := e.Append(&record.Record{After: record.Structured(map[string]any{"bad": func() {}})}); err == nil ||
		e.Len() != size {
		t.Errorf("%d bytes after a refusal, want %d: %v", e.Len(), size, err)
	}
}

func FuzzCodecDecode(f *testing.F) {
	f.Add(encode(f, samples()), len(samples()))
	f.Add([]byte{0x2a, 2, 0, 1, 0, 1, 'a', 20}, 1)
	f.Fuzz(func(_ *testing.T, body []byte, count int) {
		spoollog.DecodeRecords(nil, body, count%2000)
	})
}
