package parquet_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	library "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/conduit-agent/conduit/plugins/parquet"
	"github.com/conduit-agent/conduit/plugins/record"
)

// TestFixedColumns writes files with the columns of Conduit's connector, in a form that every reader knows.
func TestFixedColumns(t *testing.T) {
	var rows []parquet.Row
	for i := range 3000 { // more than a page has
		r := record.Record{Position: record.Position(fmt.Sprint(i)), Operation: record.OperationCreate,
			Key: record.Raw([]byte("k\xff")), After: record.Raw(bytes.Repeat([]byte{byte(i)}, 100))}
		switch i % 3 {
		case 0:
			r.Metadata = record.NewMetadata(map[string]string{"a": "1", "b": fmt.Sprint(i)})
		case 1:
			r.After = record.Structured(map[string]any{"x": i})
		default:
			r.Operation, r.Key, r.After = record.OperationDelete, record.Data{}, record.Data{}
		}
		one, err := parquet.RowOf(&r)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, one)
	}
	content, err := parquet.Encode(rows)
	if err != nil {
		t.Fatal(err)
	}
	file, err := library.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	const schema = `message schema {
	required binary operation;
	required binary position;
	required binary payload;
	required binary key;
	required group metadata (MAP) {
		repeated group key_value {
			required binary key (STRING);
			required binary value (STRING);
		}
	}
}`
	if got := file.Schema().String(); got != schema || len(file.RowGroups()) != 1 {
		t.Errorf("the schema is %s, and there are %d row groups", got, len(file.RowGroups()))
	}
	for _, c := range file.Metadata().RowGroups[0].Columns {
		d := c.MetaData
		other := func(e format.Encoding) bool { return e != format.Plain && e != format.RLE }
		if d.Codec != format.Gzip || slices.ContainsFunc(d.Encoding, other) || d.DictionaryPageOffset != 0 {
			t.Errorf("column %v is compressed with %v and has the encodings %v", d.PathInSchema, d.Codec, d.Encoding)
		}
	}
	got, err := library.Read[parquet.Row](bytes.NewReader(content), int64(len(content)))
	if err != nil || len(got) != len(rows) {
		t.Fatalf("read %d of %d rows: %v", len(got), len(rows), err)
	}
	for i := range rows {
		if fmt.Sprintf("%q", got[i]) != fmt.Sprintf("%q", rows[i]) ||
			!reflect.DeepEqual(got[i].Metadata, rows[i].Metadata) {
			t.Fatalf("row %d: got %q, want %q", i, got[i], rows[i])
		}
	}
}
