package s3

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/parquet"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// part is an object to write. All its items have the same prefix and table.
type part struct {
	prefix string
	items  []item
	body   []byte
}

// parts returns objects with the first n items: a single object, or with a template one per prefix and with columns one
// per table, and several if there are many records. The error is about the next item.
func (d *Destination) parts(ctx context.Context, items []item) (parts []part, n int, err error) {
	d.tables.rollback()
	if _, constant := d.prefix.Constant(); constant && !d.settings.columns() {
		body, n, err := d.encode(ctx, items)
		if n == 0 {
			return nil, 0, err
		}
		return []part{{d.settings.Prefix, items[:n], body}}, n, err
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
			parts = append(parts, part{group[0].prefix, group[:encoded], body})
			group = group[encoded:]
		}
	}
	return parts, n, err
}

// groups groups the first n items by prefix and table. The error is about the next item.
func (d *Destination) groups(items []item) (groups [][]item, n int, err error) {
	if groups, n, err = d.byPrefix(items); !d.settings.columns() {
		return groups, n, err
	}
	var divided [][]item
	for _, group := range groups {
		byTable := map[*parquet.Table]int{}
		for _, it := range group {
			t := d.tables.of(it.prefix, it.Record)
			g, ok := byTable[t]
			if !ok {
				g = len(divided)
				byTable[t], divided = g, append(divided, nil)
			}
			it.table = t
			divided[g] = append(divided[g], it)
		}
	}
	return divided, n, err
}

// byPrefix groups the first n items by prefix. The error is about the prefix of the next item.
func (d *Destination) byPrefix(items []item) (groups [][]item, n int, err error) {
	if prefix, constant := d.prefix.Constant(); constant {
		group := slices.Clone(items)
		for i := range group {
			group[i].prefix = prefix
		}
		return [][]item{group}, len(items), nil
	}
	group := map[string]int{}
	var prefix []byte
	for n = range items {
		if prefix, err = d.prefix.Append(&d.timeLimit, prefix[:0], items[n].Record); err != nil {
			return groups, n, fmt.Errorf("cannot execute the template of prefix: %w", err)
		}
		g, ok := group[string(prefix)]
		if !ok {
			err := checkPrefix(string(prefix))
			if err == nil {
				err = d.hourly.add(prefix, d.settings.PerHour, time.Now())
			}
			if err != nil {
				return groups, n, fmt.Errorf("cannot write with prefix %.200q: %w", prefix, err)
			}
			g = len(groups)
			group[string(prefix)], groups = g, append(groups, nil)
		}
		it := items[n]
		it.prefix = string(prefix)
		groups[g] = append(groups[g], it)
	}
	return groups, len(items), nil
}

// longestPrefix leaves room for the name of the object: keys have at most 1024 bytes.
const longestPrefix = 900

// checkPrefix explains why prefix is invalid for records: all prefixes are below the text before the template.
func checkPrefix(prefix string) error {
	if len(prefix) > longestPrefix {
		return fmt.Errorf("it has %d bytes, more than %d", len(prefix), longestPrefix)
	}
	if !utf8.ValidString(prefix) || strings.ContainsFunc(prefix, unicode.IsControl) {
		return errors.New("it is not UTF-8 text, or has a control character")
	}
	for element := range strings.SplitSeq(strings.TrimSuffix(prefix, "/"), "/") {
		if element == "" || element == "." || element == ".." {
			return fmt.Errorf("it cannot have %q between slashes", element)
		}
	}
	return nil
}

// hourly bounds the number of different prefixes in an hour.
type hourly struct {
	hour time.Time
	seen map[uint64]struct{} // hashes of the prefixes
}

var errHourly = errors.New("the records of this hour have as many prefixes already as prefixesPerHour allows; " +
	"raise it, or use fewer prefixes")

// add counts a prefix, unless it is known. It returns an error if there are too many.
func (h *hourly) add(prefix []byte, most int, now time.Time) error {
	if now = now.Truncate(time.Hour); !now.Equal(h.hour) {
		h.hour, h.seen = now, map[uint64]struct{}{}
	}
	sum := fnv.New64a()
	sum.Write(prefix)
	if _, ok := h.seen[sum.Sum64()]; !ok && len(h.seen) >= most {
		return errHourly
	}
	h.seen[sum.Sum64()] = struct{}{}
	return nil
}

// encode returns an object with the first n records. The error is about the next record.
func (d *Destination) encode(ctx context.Context, items []item) (body []byte, n int, err error) {
	if d.settings.columns() {
		return d.encodeColumns(ctx, items)
	}
	var rows []parquet.Row
	size := 0
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
