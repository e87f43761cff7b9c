package s3_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/conduit-agent/conduit/plugins/builtin/s3"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// parquetStore keeps the Parquet objects that it receives, as text: the key without its number, the columns and the
// number of rows.
type parquetStore struct {
	mu      sync.Mutex
	objects []string
	refuse  func(n int) bool // whether to refuse the object after n others; nil: none
}

func (s *parquetStore) start(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Method != http.MethodPut {
			return
		}
		content, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if s.refuse != nil && s.refuse(len(s.objects)) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		file, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			t.Error(err)
			return
		}
		text := strings.TrimPrefix(r.URL.Path[:strings.LastIndexByte(r.URL.Path, '/')+1], "/bkt/")
		for _, c := range file.Root().Columns() {
			text += c.Name() + " " + strings.TrimSuffix(strings.ToLower(c.Type().String()), "(64,true)") + ", "
		}
		s.objects = append(s.objects, fmt.Sprintf("%s%d", text, file.NumRows()))
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// row returns a record of a collection with structured data.
func row(collection string, payload map[string]any) record.Record {
	return record.Record{Position: record.Position("p"), Operation: record.OperationCreate,
		Metadata: record.NewMetadata(map[string]string{record.KeyCollection: collection}),
		After:    record.Structured(payload)}
}

// TestColumns writes an object with the columns of each table, from schemas or from values.
func TestColumns(t *testing.T) {
	t.Parallel()
	registry := &schema.Memory{}
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: sdk.Logger(t.Context()), Schemas: registry})
	_, err := registry.Create(ctx, "a", schema.TypeAvro, `{"type":"record","name":"a","fields":[
		{"name":"z","type":["null","double"]},{"name":"b","type":{"type":"int","logicalType":"date"}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	withSchema := func(version string) record.Record {
		r := row("a", map[string]any{"z": 1})
		r.Metadata.Set(record.KeyPayloadSchemaSubject, "a")
		r.Metadata.Set(record.KeyPayloadSchemaVersion, version)
		return r
	}
	store := &parquetStore{}
	d := destinationOf(t, settings(store.start(t), "format", "parquet", "parquet.columns", "payload"))
	if err := d.Open(ctx); err != nil {
		t.Fatal(err)
	}
	records := []record.Record{row("b", map[string]any{"x": 1}), withSchema("1"), row("b", map[string]any{"y": "s"}),
		withSchema("1"), row("a", map[string]any{"z": 1}), withSchema("7"), row("b", map[string]any{"x": 0.5})}
	if n, err := d.Write(ctx, records); n != len(records) || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	if n, err := d.Write(ctx, records[:1]); n != 1 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	const operation = "conduit_operation string, "
	want := []string{operation + "x int, y string, 2", operation + "x double, y string, 1",
		operation + "z double, b date, 4", operation + "x double, y string, 1"}
	if !slices.Equal(store.objects, want) {
		t.Errorf("got  %q\nwant %q", store.objects, want)
	}
}

// TestRefusedColumns writes the records before one that is refused, and none after it. A record that was written before
// a failure is not refused when it is written again.
func TestRefusedColumns(t *testing.T) {
	t.Parallel()
	store := &parquetStore{}
	d := destination(t, settings(store.start(t), "format", "parquet", "parquet.columns", "payload",
		"parquet.recordColumns", "position", "prefix", "{{ .Metadata.GetCollection }}", "retry.timeout", "0s"))
	records := []record.Record{row("b", map[string]any{"x": 1}), row("a", map[string]any{"x": true}),
		row("b", map[string]any{"x": "text"}), row("a", map[string]any{"x": false})}
	if n, err := d.Write(t.Context(), records); n != 2 || err == nil ||
		!strings.Contains(err.Error(), "column x: its type is INT64, and the value is text") {
		t.Errorf("wrote %d: %v", n, err)
	}
	want := []string{"b/conduit_position byte_array, x int, 1", "a/conduit_position byte_array, x boolean, 1"}
	if !slices.Equal(store.objects, want) {
		t.Errorf("got  %q\nwant %q", store.objects, want)
	}
	store.objects = nil
	store.refuse = func(n int) bool { return n == 1 }
	records = []record.Record{row("b", map[string]any{"x": 1<<53 + 1}), row("b", map[string]any{"x": 0.5})}
	if n, err := d.Write(t.Context(), records); n != 1 || err == nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	store.refuse = nil
	if n, err := d.Write(t.Context(), records); n != 2 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	want = []string{"b/conduit_position byte_array, x int, 1", "b/conduit_position byte_array, x int, 1",
		"b/conduit_position byte_array, x double, 1"}
	if !slices.Equal(store.objects, want) {
		t.Errorf("got  %q\nwant %q", store.objects, want)
	}
}

// TestColumnSettings refuses settings that do not fit together.
func TestColumnSettings(t *testing.T) {
	t.Parallel()
	for want, more := range map[string][]string{
		"needs format parquet": {"format", "json", "parquet.columns", "payload"},
		`cannot have "payload"`: {"format", "parquet", "parquet.columns", "payload", "parquet.recordColumns",
			"operation,payload"},
	} {
		d := sdk.Standard(s3.Connector()).NewDestination()
		if err := d.Configure(t.Context(), settings("127.0.0.1:1", more...)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", more, err, want)
		}
	}
}
