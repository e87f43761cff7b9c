package parquet

import (
	"bytes"
	"fmt"

	"github.com/parquet-go/parquet-go"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Row is a record in a file with fixed columns, which are those of Conduit's connectors. Values have the PLAIN
// encoding, and pages the first version, because some readers know no others.
type Row struct {
	Operation []byte            `parquet:"operation,plain"`
	Position  []byte            `parquet:"position,plain"`
	Payload   []byte            `parquet:"payload,plain"`
	Key       []byte            `parquet:"key,plain"`
	Metadata  map[string]string `parquet:"metadata" parquet-key:",plain" parquet-value:",plain"`
}

// RowOf returns the row of a record. Structured data is JSON.
func RowOf(r *record.Record) (o Row, err error) {
	if o.Payload, err = bytesOf(r.After); err != nil {
		return o, fmt.Errorf("cannot encode the payload: %w", err)
	}
	if o.Key, err = bytesOf(r.Key); err != nil {
		return o, fmt.Errorf("cannot encode the key: %w", err)
	}
	o.Operation, o.Position = []byte(r.Operation.String()), r.Position
	o.Metadata = make(map[string]string, len(r.Metadata))
	for _, f := range r.Metadata {
		o.Metadata[f.Key] = f.Value
	}
	return o, nil
}

// Size returns the number of bytes in r, without its metadata.
func (r *Row) Size() int { return len(r.Payload) + len(r.Key) + len(r.Position) }

// bytesOf returns raw data as it is, and structured data as JSON.
func bytesOf(d record.Data) ([]byte, error) {
	if raw, ok := d.Raw(); ok || d.IsNone() {
		return raw, nil
	}
	return d.AppendJSON(nil)
}

// Encode returns a file with the rows as one row group, compressed with gzip.
func Encode(rows []Row) ([]byte, error) {
	var file bytes.Buffer
	schema := parquet.NewSchema("schema", parquet.SchemaOf(Row{}))
	w := parquet.NewGenericWriter[Row](&file, append(options, schema)...)
	if _, err := w.Write(rows); err != nil {
		return nil, fmt.Errorf("cannot encode a Parquet file: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("cannot encode a Parquet file: %w", err)
	}
	return file.Bytes(), nil
}

// options are the options of every file.
var options = []parquet.WriterOption{parquet.Compression(&parquet.Gzip), parquet.DataPageVersion(1),
	parquet.CreatedBy("conduit", version, "")}

const version = "v1.0.0"
