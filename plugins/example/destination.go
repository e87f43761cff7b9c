package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// destination appends a row to a CSV file for every record: operation, key, payload.
type destination struct {
	sdk.DestinationBase
	settings struct {
		Path      string `json:"path" validate:"required" desc:"Path of the CSV file. It is created if it does not exist."`
		Separator string `json:"separator" default:"comma" validate:"inclusion=comma|semicolon" desc:"Separator of columns."`
	}
	file *os.File
	size int64 // size of the file up to the last complete batch
}

func (d *destination) Parameters() sdk.Parameters { return sdk.ParametersOf(d.settings) }

func (d *destination) Configure(_ context.Context, settings map[string]string) error {
	return sdk.Decode(settings, &d.settings)
}

func (d *destination) Open(context.Context) (err error) {
	if d.file, err = os.OpenFile(d.settings.Path, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return fmt.Errorf("cannot open file: %w", err)
	}
	d.size, err = d.file.Seek(0, io.SeekEnd)
	return err
}

// Write appends all rows at once. When it returns nil the records are durable.
func (d *destination) Write(_ context.Context, records []record.Record) (int, error) {
	var rows bytes.Buffer
	w := csv.NewWriter(&rows)
	if d.settings.Separator == "semicolon" {
		w.Comma = ';'
	}
	for i, r := range records {
		payload := r.After
		if payload.IsNone() {
			payload = r.Before
		}
		if err := w.Write([]string{r.Operation.String(), text(r.Key), text(payload)}); err != nil {
			return i, fmt.Errorf("cannot make a row: %w", err)
		}
	}
	w.Flush()
	if err := d.append(rows.Bytes()); err != nil {
		return 0, sdk.Unavailable(fmt.Errorf("cannot write rows: %w", err))
	}
	return len(records), nil
}

// append truncates the file to its old size if the write or the sync fails.
func (d *destination) append(b []byte) error {
	_, err := d.file.WriteAt(b, d.size)
	if err == nil {
		err = d.file.Sync()
	}
	if err != nil {
		return errors.Join(err, d.file.Truncate(d.size))
	}
	d.size += int64(len(b))
	return nil
}

// text returns raw data unchanged, structured data as JSON.
func text(d record.Data) string {
	if b, ok := d.Raw(); ok {
		return string(b)
	}
	if d.IsNone() {
		return ""
	}
	b, err := d.AppendJSON(nil)
	if err != nil {
		return ""
	}
	return string(b)
}

func (d *destination) Teardown(context.Context) error {
	if d.file == nil {
		return nil
	}
	return d.file.Close()
}
