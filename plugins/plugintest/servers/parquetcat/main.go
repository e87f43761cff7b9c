// Command parquetcat prints each row of a Parquet file on standard input as a line of JSON. It reads the file with
// another library than the one that writes it.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	content, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	table, err := pqarrow.ReadTable(context.Background(), bytes.NewReader(content),
		parquet.NewReaderProperties(memory.DefaultAllocator), pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	batches := array.NewTableReader(table, 0)
	for batches.Next() {
		if err := array.RecordToJSON(batches.RecordBatch(), os.Stdout); err != nil {
			return err
		}
	}
	return batches.Err()
}
