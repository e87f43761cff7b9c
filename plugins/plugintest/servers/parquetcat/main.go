// Command parquetcat prints each row of a Parquet file on standard input as a line of JSON.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

type row struct {
	Operation []byte            `parquet:"operation"`
	Position  []byte            `parquet:"position"`
	Payload   []byte            `parquet:"payload"`
	Key       []byte            `parquet:"key"`
	Metadata  map[string]string `parquet:"metadata"`
}

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
	file, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return err
	}
	r := parquet.NewGenericReader[row](file)
	rows := make([]row, r.NumRows())
	if n, err := r.Read(rows); err != nil && !errors.Is(err, io.EOF) || n != len(rows) {
		return fmt.Errorf("read %d of %d rows: %w", n, len(rows), err)
	}
	for _, one := range rows {
		if err := json.NewEncoder(os.Stdout).Encode(one); err != nil {
			return err
		}
	}
	return r.Close()
}
