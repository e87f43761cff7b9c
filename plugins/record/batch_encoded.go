package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// encoded holds records in protobuf form. buf never changes, so batches may share it.
type encoded struct {
	buf      []byte
	spans    []span
	defaults []Field // metadata given to records that lack it
}

// span is the location of a record and its position in buf, and its content size.
type span struct {
	lo, hi       uint32
	posLo, posHi uint32
	content      uint32
}

// maxEstimate limits the number of records for which memory is allocated in advance.
const maxEstimate = 4096

// NewEncodedBatch returns a batch of the records in buf, which it keeps. buf is a protobuf message whose field 1 is
// repeated opencdc.v1.Record, as sent by source connectors and received by destination connectors. NewEncodedBatch
// finds only record boundaries and positions; decoding reports all other errors.
func NewEncodedBatch(buf []byte) (*Batch, error) {
	if len(buf) > math.MaxInt32 {
		return nil, fmt.Errorf("cannot read batch: %d bytes are too many", len(buf))
	}
	e := &encoded{buf: buf}
	f := fields{b: buf, end: len(buf)}
	for f.next() {
		if f.num != 1 || f.typ != typeBytes {
			continue
		}
		s, err := scanRecord(buf, f.lo, f.hi)
		if err != nil {
			return nil, fmt.Errorf("cannot read record %d of batch: %w", len(e.spans), err)
		}
		e.add(s, f.at)
	}
	if f.err != nil {
		return nil, fmt.Errorf("cannot read batch: %w", f.err)
	}
	return newEncoded(e), nil
}

// add adds a record that ends at offset end.
func (e *encoded) add(s span, end int) {
	if e.spans == nil { // records of a batch tend to have the same size
		e.spans = make([]span, 0, min(len(e.buf)/end+1, maxEstimate))
	}
	e.spans = append(e.spans, s)
}

func newEncoded(e *encoded) *Batch {
	b := &Batch{encoded: e}
	for _, s := range e.spans {
		b.size += int(s.hi - s.lo)
		b.content += int(s.content)
	}
	return b
}

func scanRecord(buf []byte, lo, hi int) (span, error) {
	s := span{lo: uint32(lo), hi: uint32(hi)}
	f := fields{b: buf, at: lo, end: hi}
	for f.next() {
		if f.typ != typeBytes {
			continue
		}
		switch f.num {
		case 1:
			s.posLo, s.posHi = uint32(f.lo), uint32(f.hi)
		case 4:
			s.content += uint32(wireContent(buf, &f))
		case 5:
			s.content += uint32(wireChange(buf, &f))
		}
	}
	return s, f.err
}

func (e *encoded) position(i int) Position {
	s := e.spans[i]
	return Position(e.buf[s.posLo:s.posHi:s.posHi])
}

func (e *encoded) operation(i int) (o Operation) {
	f := fields{b: e.buf, at: int(e.spans[i].lo), end: int(e.spans[i].hi)}
	for f.next() {
		if f.num == 2 && f.typ == typeVarint {
			o = Operation(f.value)
		}
	}
	return o
}

func (e *encoded) metadata(i int, key string) string {
	if value := entryOf(e.buf[e.spans[i].lo:e.spans[i].hi], key); len(value) > 0 {
		return string(value)
	}
	return Metadata(e.defaults).Get(key)
}

func (e *encoded) slice(i, j int) *encoded {
	return &encoded{buf: e.buf, spans: e.spans[i:j:j], defaults: slices.Clone(e.defaults)}
}

func (e *encoded) setDefault(key, value string) {
	for i := range e.defaults {
		if e.defaults[i].Key == key {
			if e.defaults[i].Value == "" {
				e.defaults[i].Value = value
			}
			return
		}
	}
	e.defaults = append(e.defaults, Field{key, value})
}

func (e *encoded) decode() ([]Record, error) {
	if len(e.spans) == 0 {
		return nil, nil
	}
	base, end := int(e.spans[0].lo), int(e.spans[len(e.spans)-1].hi)
	w := wireParser{b: bytes.Clone(e.buf[base:end]), s: string(e.buf[base:end])}
	records := make([]Record, len(e.spans))
	for i, s := range e.spans {
		r, err := w.record(int(s.lo)-base, int(s.hi)-base)
		if err != nil {
			return nil, fmt.Errorf("cannot decode record %q: %w", e.position(i), err)
		}
		for _, d := range e.defaults {
			r.Metadata.SetDefault(d.Key, d.Value)
		}
		records[i] = r
	}
	return records, nil
}

func (e *encoded) appendWire(dst []byte, i, j int) []byte {
	for ; i < j; i++ {
		body := e.buf[e.spans[i].lo:e.spans[i].hi]
		var few [8]bool
		lacks := e.lacks(body, few[:])
		size := len(body)
		for k, d := range e.defaults {
			if n := entrySize(d.Key, d.Value); lacks[k] {
				size += 1 + uvarintSize(n) + n
			}
		}
		dst = append(dst, 1<<3|typeBytes)
		dst = binary.AppendUvarint(dst, uint64(size))
		dst = append(dst, body...)
		for k, d := range e.defaults {
			if lacks[k] {
				dst = appendEntry(dst, d.Key, d.Value)
			}
		}
	}
	return dst
}

// lacks reports for each default whether the metadata of the encoded record has no value for it. It uses space if that
// is large enough.
func (e *encoded) lacks(body []byte, space []bool) []bool {
	if len(e.defaults) > len(space) {
		space = make([]bool, len(e.defaults))
	}
	for k := range e.defaults {
		space[k] = true
	}
	eachEntry(body, func(key, value []byte) {
		for k := range e.defaults {
			if string(key) == e.defaults[k].Key {
				space[k] = len(value) == 0
			}
		}
	})
	return space
}

// entryOf returns the value of key in the metadata of the encoded record. Of several entries with the same key the last
// one counts, so an entry can be overridden by appending another.
func entryOf(body []byte, key string) (value []byte) {
	eachEntry(body, func(k, v []byte) {
		if string(k) == key {
			value = v
		}
	})
	return value
}

// eachEntry calls f with the metadata of an encoded record.
func eachEntry(body []byte, f func(key, value []byte)) {
	r := fields{b: body, end: len(body)}
	for r.next() {
		if r.num != 3 || r.typ != typeBytes {
			continue
		}
		var key, value []byte
		entry := fields{b: body, at: r.lo, end: r.hi}
		for entry.next() {
			switch {
			case entry.num == 1 && entry.typ == typeBytes:
				key = body[entry.lo:entry.hi]
			case entry.num == 2 && entry.typ == typeBytes:
				value = body[entry.lo:entry.hi]
			}
		}
		f(key, value)
	}
}
