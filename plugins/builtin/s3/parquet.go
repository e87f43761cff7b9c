package s3

import (
	"bytes"
	"fmt"

	"github.com/parquet-go/parquet-go"

	"github.com/conduit-agent/conduit/plugins/record"
)

// row is a record in a Parquet file. The columns are the same as in Conduit's connector. Values have the PLAIN
// encoding, and pages the first version, because some readers know no others.
type row struct {
	Operation []byte            `parquet:"operation,plain"`
	Position  []byte            `parquet:"position,plain"`
	Payload   []byte            `parquet:"payload,plain"`
	Key       []byte            `parquet:"key,plain"`
	Metadata  map[string]string `parquet:"metadata" parquet-key:",plain" parquet-value:",plain"`
}

func rowOf(r *record.Record) (o row, err error) {
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

// parquetFile returns a Parquet file with the rows as one row group, compressed with gzip.
func parquetFile(rows []row) ([]byte, error) {
	var file bytes.Buffer
	schema := parquet.NewSchema("schema", parquet.SchemaOf(row{}))
	w := parquet.NewGenericWriter[row](&file, schema, parquet.Compression(&parquet.Gzip),
		parquet.DataPageVersion(1), parquet.CreatedBy("conduit", version, ""))
	if _, err := w.Write(rows); err != nil {
		return nil, fmt.Errorf("cannot encode a Parquet file: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("cannot encode a Parquet file: %w", err)
	}
	return file.Bytes(), nil
}
