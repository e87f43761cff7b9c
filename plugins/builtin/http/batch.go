package http

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// keptBytes is the largest buffer that is kept for the next body: many destinations may have one.
const keptBytes = 64 << 10

// batch is records in their text form that go out in one request.
type batch struct {
	text []byte
	ends []int // of each record in text
	keys []key // of each record
}

// encode returns the first of the records that fit into one request. The error says what is
// wrong with the one behind them.
func (d *Destination) encode(ctx context.Context, records []record.Record) (b batch, err error) {
	format, s := sdk.RecordFormat(ctx), &d.settings
	b.text = d.buf[:0]
	key := d.last
	for i := range records {
		before := len(b.text)
		if b.text, err = format(b.text, &records[i]); err != nil {
			err = fmt.Errorf("cannot encode the record: %w", err)
			break
		}
		if s.Body == "lines" && bytes.IndexByte(b.text[before:], '\n') >= 0 {
			b.text = b.text[:before]
			err = fmt.Errorf("cannot send the record as a line: it has a line break in it")
			break
		}
		if before > 0 && len(b.text) > s.MaxBytes {
			b.text = b.text[:before]
			break
		}
		b.ends = append(b.ends, len(b.text))
		key = key.next(&records[i])
		b.keys = append(b.keys, key)
		if len(b.ends) == s.MaxRecords {
			break
		}
	}
	if d.buf = nil; cap(b.text) <= keptBytes {
		d.buf = b.text
	}
	return b, err
}

// halves returns two batches of what b has.
func (b batch) halves() (first, second batch) {
	n := len(b.ends) / 2
	at := b.ends[n-1]
	first = batch{text: b.text[:at], ends: b.ends[:n], keys: b.keys[:n]}
	second = batch{text: b.text[at:], keys: b.keys[n:]}
	for _, end := range b.ends[n:] {
		second.ends = append(second.ends, end-at)
	}
	return first, second
}

// body returns the body in one of the formats, apart from text.
func (b batch) body(format string) []byte {
	if format == "single" {
		return bytes.Clone(b.text)
	}
	body := make([]byte, 0, len(b.text)+2*len(b.ends)+2)
	if format == "json" {
		body = append(body, '[')
	}
	start := 0
	for i, end := range b.ends {
		if i > 0 && format == "json" {
			body = append(body, ',')
		}
		body = append(body, b.text[start:end]...)
		if format == "lines" {
			body = append(body, '\n')
		}
		start = end
	}
	if format == "json" {
		body = append(body, ']')
	}
	return body
}

// key returns the same text for the same records.
func (b batch) key() string {
	if len(b.keys) == 1 {
		return b.keys[0].String()
	}
	h := sha256.New()
	for _, k := range b.keys {
		h.Write([]byte(k.String()))
	}
	return hex.EncodeToString(h.Sum(nil)[:keyBytes])
}

const keyBytes = 16

// key is what a record comes from. Several records that a processor made of one have its
// position, and come one after the other: they are counted.
type key struct {
	from  string // source and position
	count int
}

// next returns the key of the record behind the one of k.
func (k key) next(r *record.Record) key {
	from := r.Metadata.Get(record.KeySourceConnectorID) + "\x00" + string(r.Position)
	if from != k.from {
		return key{from, 1}
	}
	return key{from, k.count + 1}
}

// String returns a hash in hexadecimal.
func (k key) String() string {
	sum := sha256.Sum256([]byte(k.from + "\x00" + strconv.Itoa(k.count)))
	return hex.EncodeToString(sum[:keyBytes])
}

func compress(body []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}
