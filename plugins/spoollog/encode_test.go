package spoollog_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// through writes the records to a log and returns the records that it reads back.
func through(t *testing.T, records []record.Record) []record.Record {
	t.Helper()
	l := open(t, t.TempDir())
	frames, n, err := spoollog.Encode(records)
	if err != nil || n != len(records) {
		t.Fatalf("encoded %d of %d: %v", n, len(records), err)
	}
	commit, err := l.Writer().Append(t.Context(), frames)
	if err == nil {
		err = commit.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	var out []record.Record
	c := l.Cursor(0)
	defer c.Close()
	for len(out) < len(records) {
		more, _, err := c.Read(math.MaxUint64)
		if err != nil || len(more) == 0 {
			t.Fatalf("read %d of %d records: %v", len(out), len(records), err)
		}
		out = append(out, more...)
	}
	return out
}

func TestRecordsStayAsTheyAre(t *testing.T) {
	deep := map[string]any{}
	for range 500 {
		deep = map[string]any{"x": deep}
	}
	records := []record.Record{
		{Operation: record.OperationDelete, Before: record.Raw([]byte{})},
		{Operation: -7, Key: record.Raw([]byte("\xff\x00")), After: record.Structured(map[string]any{})},
		{Operation: record.OperationUpdate, Before: record.Structured(map[string]any{"a": nil}),
			After: record.Structured(map[string]any{
				"nil": nil, "yes": true, "no": false, "int": -1, "int8": int8(-128), "int16": int16(-300),
				"int32": int32(math.MinInt32), "int64": int64(math.MinInt64),
				"uint": uint(7), "uint8": uint8(255), "uint16": uint16(65535), "uint32": uint32(math.MaxUint32),
				"uint64":  uint64(math.MaxUint64),
				"float32": float32(1.5), "float64": math.SmallestNonzeroFloat64, "text": "ü\xff", "bytes": []byte{0, 1},
				"list": []any{1, "a", []any{}, map[string]any{"x": nil}},
				"time": time.Date(2026, 11, 22, 1, 2, 3, 4, time.UTC), "duration": time.Hour, "": "empty",
			})},
		{Operation: record.OperationCreate, After: record.Structured(deep)},
		{Metadata: record.NewMetadata(map[string]string{"n": "1795322891590886180", "m": "", "z": "007",
			"o": "9223372036854775807", "p": "9223372036854775808", "q": "-5"})},
		{Metadata: record.NewMetadata(map[string]string{"n": "1795322891590886181", "m": "5", "z": "007", "o": "0",
			"p": "x", "q": "12"})},
		{Metadata: record.NewMetadata(map[string]string{"n": "1795322891590886180", "m": "", "z": "8"})},
		{After: record.Raw(bytes.Repeat([]byte("large"), 100_000))},
	}
	for range 2500 { // more names than a body refers back to, more records than fit into a frame
		records = append(records, record.Record{
			Metadata: record.NewMetadata(map[string]string{strings.Repeat("k", len(records)%9): "v",
				time.Duration(len(records)).String(): "1"}),
			After: record.Structured(map[string]any{time.Duration(len(records) * 2).String(): int64(len(records))}),
		})
	}
	for i, got := range through(t, records) {
		if !got.Equal(records[i]) {
			t.Errorf("record %d: got %+v, want %+v", i, got, records[i])
		}
	}
}

// A record that cannot be encoded is refused; the records before it are not.
func TestEncodeRefuses(t *testing.T) {
	deep := map[string]any{}
	for range 2000 {
		deep = map[string]any{"x": deep}
	}
	for _, bad := range []any{deep, func() {}, map[string]any{"x": make(chan int)}} {
		records := append(numbered(0, 5), record.Record{After: record.Structured(map[string]any{"n": 1, "bad": bad})})
		frames, n, err := spoollog.Encode(append(records, numbered(5, 9)...))
		if n != 5 || err == nil || len(frames) != 1 {
			t.Errorf("encoded %d records in %d frames: %v, want 5 and an error", n, len(frames), err)
		}
	}
}
