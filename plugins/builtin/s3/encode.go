package s3

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/parquet"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// part is an object to write. All its items have the same name and table.
type part struct {
	name  string // prefix or key
	items []item
	body  []byte
}

// parts returns objects with the first n items: a single object, or with a template one per prefix or key and with
// columns one per table, and several if there are many records. The error is about the next item.
func (d *Destination) parts(ctx context.Context, items []item) (parts []part, n int, err error) {
	d.tables.rollback()
	if name, constant := d.names.Constant(); constant && !d.settings.columns() {
		body, n, err := d.encode(ctx, items)
		if n == 0 {
			return nil, 0, err
		}
		return []part{{name, items[:n], body}}, n, err
	}
	groups, n, err := d.groups(items)
	for _, group := range groups {
		for len(group) > 0 {
			body, encoded, wrong := d.encode(ctx, group)
			if wrong != nil {
				at := slices.IndexFunc(items, func(i item) bool { return i.index == group[encoded].index })
				if parts, n, err = d.parts(ctx, items[:at]); err != nil {
					return parts, n, err
				}
				return parts, at, wrong
			}
			parts = append(parts, part{group[0].name, group[:encoded], body})
			group = group[encoded:]
		}
	}
	return parts, n, err
}

// encode returns an object with the first n records. The error is about the next record.
func (d *Destination) encode(ctx context.Context, items []item) (body []byte, n int, err error) {
	if most := d.settings.MaxRecords; most > 0 {
		items = items[:min(len(items), most)]
	}
	if d.settings.columns() {
		return d.encodeColumns(ctx, items)
	}
	var rows []parquet.Row
	size := 0
	if header := sdk.RecordHeader(ctx); d.settings.Format == "lines" && len(header) > 0 {
		body = append(append(body, header...), '\n')
	}
	for n < len(items) && err == nil {
		before := len(body)
		var one parquet.Row
		switch d.settings.Format {
		case "parquet":
			one, err = parquet.RowOf(items[n].Record)
			size += one.Size()
		case "json":
			body, err = appendJSON(body, items[n].Record)
		default:
			body, err = appendLine(ctx, body, items[n].Record)
		}
		if size+len(body) > d.settings.Largest && n > 0 || err != nil {
			body = body[:before]
			break
		}
		rows = append(rows, one)
		n++
	}
	if n == 0 {
		return nil, 0, err
	}
	body, failed := d.finish(body, rows)
	if failed != nil {
		return nil, 0, sdk.Unavailable(failed)
	}
	return body, n, err
}

// encodeColumns returns an object with the first n records, which have the same table. The error is about the next
// record.
func (d *Destination) encodeColumns(ctx context.Context, items []item) (body []byte, n int, err error) {
	file := items[0].table.NewFile(d.settings.Largest)
	for more := true; more && n < len(items); {
		schemas, failed := d.tables.schemasOf(ctx, items[n].Record)
		if failed != nil {
			return nil, 0, failed
		}
		if more, err = file.Add(items[n].Record, schemas); more {
			n++
		}
	}
	if n == 0 {
		return nil, 0, err
	}
	body, failed := file.Encode()
	if failed != nil {
		return nil, 0, sdk.Unavailable(failed)
	}
	return body, n, err
}

func (d *Destination) finish(body []byte, rows []parquet.Row) ([]byte, error) {
	switch {
	case d.settings.Format == "parquet":
		return parquet.Encode(rows)
	case !d.settings.compressed():
		return body, nil
	case d.settings.Compression == "zstd":
		if d.frame == nil {
			var err error
			if d.frame, err = zstd.NewFramer(); err != nil {
				return nil, err
			}
		}
		return d.frame(body), nil
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	err := w.Close()
	return zipped.Bytes(), err
}

// line is the JSON format of Conduit's connector. It repeats positions, payloads and keys that are not text in a second
// form.
type line struct {
	Operation      record.Operation
	Position       string
	PositionBase64 []byte `json:",omitempty"`
	Payload        string
	PayloadBase64  []byte `json:",omitempty"`
	Key            string
	KeyBase64      []byte `json:",omitempty"`
	Metadata       map[string]string
}

func appendJSON(dst []byte, r *record.Record) ([]byte, error) {
	payload, err := bytesOf(r.After)
	if err != nil {
		return dst, fmt.Errorf("cannot encode the payload: %w", err)
	}
	key, err := bytesOf(r.Key)
	if err != nil {
		return dst, fmt.Errorf("cannot encode the key: %w", err)
	}
	l := line{Operation: r.Operation, Position: string(r.Position), Payload: string(payload), Key: string(key)}
	if r.Metadata != nil {
		l.Metadata = make(map[string]string, len(r.Metadata))
	}
	for _, f := range r.Metadata {
		l.Metadata[record.ValidName(f.Key)] = record.ValidName(f.Value)
	}
	if !utf8.Valid(r.Position) {
		l.PositionBase64 = r.Position
	}
	if !utf8.Valid(payload) {
		l.PayloadBase64 = payload
	}
	if !utf8.Valid(key) {
		l.KeyBase64 = key
	}
	text, err := json.Marshal(l)
	return append(append(dst, text...), '\n'), err
}

// bytesOf returns raw data as it is, and structured data as JSON.
func bytesOf(d record.Data) ([]byte, error) {
	if raw, ok := d.Raw(); ok || d.IsNone() {
		return raw, nil
	}
	return d.AppendJSON(nil)
}

func appendLine(ctx context.Context, dst []byte, r *record.Record) ([]byte, error) {
	before := len(dst)
	dst, err := sdk.RecordFormat(ctx)(dst, r)
	switch {
	case err != nil:
		return dst, fmt.Errorf("cannot encode the record: %w", err)
	case bytes.IndexByte(dst[before:], '\n') >= 0:
		return dst, errors.New("cannot write the record as a line: it has a line break")
	}
	return append(dst, '\n'), nil
}
