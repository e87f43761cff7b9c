package http

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// keptBytes is the size of the largest buffer kept for the next body. There may be many destinations, each with a
// buffer.
const keptBytes = 64 << 10

// batch holds the encoded records of a request.
type batch struct {
	text []byte
	ends []int // end of each record in text
	keys []key // key of each record

	traceparent, tracestate string // of all records; "": they differ, or have none
}

// encode encodes the first records, as many as fit into one request. The error describes the first record that cannot
// be sent. last is the key of the preceding record.
func (d *Destination) encode(ctx context.Context, records []record.Record, last key) (b batch, err error) {
	format, s := sdk.RecordFormat(ctx), &d.settings
	b.text = d.buf[:0]
	most := min(len(records), s.MaxRecords)
	b.ends, b.keys = make([]int, 0, most), make([]key, 0, most)
	key := last
	for i := range records {
		before := len(b.text)
		if b.text, err = format(b.text, &records[i]); err != nil {
			err = fmt.Errorf("cannot encode the record: %w", err)
			break
		}
		if s.Body == "lines" && bytes.IndexByte(b.text[before:], '\n') >= 0 {
			b.text = b.text[:before]
			err = fmt.Errorf("cannot send the record as a line: it has a line break")
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
	b.traceparent, b.tracestate = record.TraceContext(records[:len(b.ends)])
	if d.buf, d.other = d.other, nil; cap(b.text) <= keptBytes {
		d.other = b.text
	}
	return b, err
}

// halves splits b into two batches.
func (b batch) halves() (first, second batch) {
	n := len(b.ends) / 2
	at := b.ends[n-1]
	first, second = b, b
	first.text, first.ends, first.keys = b.text[:at], b.ends[:n], b.keys[:n]
	second.text, second.ends, second.keys = b.text[at:], nil, b.keys[n:]
	for _, end := range b.ends[n:] {
		second.ends = append(second.ends, end-at)
	}
	return first, second
}

// body returns the body in a format. It does not share memory with b.text.
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

// key returns the idempotency key of the batch. The same records always have the same key.
func (b batch) key() string {
	h, buf := sha256.New(), make([]byte, 0, 256)
	for _, k := range b.keys {
		buf = k.append(buf[:0])
		h.Write(binary.AppendUvarint(buf, uint64(len(buf)))) // the length keeps keys of different records apart
	}
	return hex.EncodeToString(h.Sum(buf[:0])[:keyBytes])
}

const keyBytes = 16

// key identifies the origin of a record. Records that a processor made from one record share its position and follow
// each other; count tells them apart. A record made from a window has the position of the last record in the window,
// and that record may be in several windows.
type key struct {
	source   string
	position record.Position
	window   string // start of the window; empty if there is none
	count    int
}

// next returns the key of the record after the record of k. It refers to the memory of r.
func (k key) next(r *record.Record) key {
	source, window := r.Metadata.Get(record.KeySourceConnectorID), r.Metadata.Get(record.KeyWindowStart)
	if k.count == 0 || source != k.source || window != k.window || !bytes.Equal(r.Position, k.position) {
		return key{source, r.Position, window, 1}
	}
	k.count++
	return k
}

// clone returns a copy of k that does not refer to the memory of the record.
func (k key) clone() key {
	k.position = bytes.Clone(k.position)
	return k
}

func (k key) append(dst []byte) []byte {
	dst = append(append(dst, k.source...), 0)
	if k.window != "" {
		dst = append(append(dst, k.window...), 0)
	}
	return strconv.AppendInt(append(append(dst, k.position...), 0), int64(k.count), 10)
}
