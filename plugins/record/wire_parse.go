package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// ParseWire parses the protobuf message opencdc.v1.Record. The record does not share memory with b. Numbers in
// structured data are float64, except those that a float64 would change: see Number.
func ParseWire(b []byte) (Record, error) {
	w := wireParser{b: bytes.Clone(b), s: string(b)}
	r, err := w.record(0, len(b))
	if err != nil {
		return Record{}, fmt.Errorf("cannot decode record: %w", err)
	}
	return r, nil
}

var (
	errNotUTF8 = errors.New("text is not UTF-8")
	errTooDeep = fmt.Errorf("nested deeper than %d", maxDepth)
)

// wireParser parses messages inside b. It takes bytes from b and text from s, which has the same content, so that all
// values of the messages need only two allocations.
type wireParser struct {
	b []byte
	s string
}

func (w *wireParser) fields(lo, hi int) fields { return fields{b: w.b, at: lo, end: hi} }

// bytes returns the content of the field, which nothing else shares.
func (w *wireParser) bytes(f *fields) []byte { return w.b[f.lo:f.hi:f.hi] }

func (w *wireParser) text(f *fields) (string, error) {
	s := w.s[f.lo:f.hi]
	if !utf8.ValidString(s) {
		return "", errNotUTF8
	}
	return s, nil
}

func (w *wireParser) record(lo, hi int) (r Record, err error) {
	f := w.fields(lo, hi)
	for err == nil && f.next() {
		switch {
		case f.num == 1 && f.typ == typeBytes:
			r.Position = w.bytes(&f)
			if len(r.Position) == 0 {
				r.Position = nil
			}
		case f.num == 2 && f.typ == typeVarint:
			r.Operation = Operation(f.value)
		case f.num == 3 && f.typ == typeBytes:
			err = w.entry(&f, &r.Metadata)
		case f.num == 4 && f.typ == typeBytes:
			err = w.data(&f, &r.Key)
		case f.num == 5 && f.typ == typeBytes:
			err = w.change(&f, &r)
		}
	}
	r.Metadata.Sort()
	return r, errors.Join(err, f.err)
}

// metadataCapacity is the initial capacity of a record's metadata.
const metadataCapacity = 8

func (w *wireParser) entry(outer *fields, m *Metadata) error {
	var key, value string
	var err error
	f := w.fields(outer.lo, outer.hi)
	for err == nil && f.next() {
		switch {
		case f.num == 1 && f.typ == typeBytes:
			key, err = w.text(&f)
		case f.num == 2 && f.typ == typeBytes:
			value, err = w.text(&f)
		}
	}
	if *m == nil {
		*m = make(Metadata, 0, metadataCapacity)
	}
	if len(*m) >= MaxMetadata {
		return fmt.Errorf("it has more than %d pairs of metadata", MaxMetadata)
	}
	m.Add(key, value)
	return errors.Join(err, f.err)
}

func (w *wireParser) change(outer *fields, r *Record) (err error) {
	f := w.fields(outer.lo, outer.hi)
	for err == nil && f.next() {
		if side := r.side(f.num); side != nil && f.typ == typeBytes {
			err = w.data(&f, side)
		}
	}
	return errors.Join(err, f.err)
}

// side returns the part of the payload with this number in opencdc.v1.Change, nil if there is none.
func (r *Record) side(number uint64) *Data {
	switch number {
	case 1:
		return &r.Before
	case 2:
		return &r.After
	}
	return nil
}

// data merges the message into d. An empty message has no effect, like a missing one.
func (w *wireParser) data(outer *fields, d *Data) (err error) {
	f := w.fields(outer.lo, outer.hi)
	for err == nil && f.next() {
		switch {
		case f.num == 1 && f.typ == typeBytes:
			*d = Raw(w.bytes(&f))
		case f.num == 2 && f.typ == typeBytes:
			if d.kind == structured {
				*d = Structured(d.object())
				err = w.object(&f, d.structured, 0)
				continue
			}
			err = checkFields(w.b, f.lo, f.hi, aStruct, 0, &weight{})
			*d = Data{encoded: &object{in: w, lo: f.lo, hi: f.hi}, kind: structured}
		}
	}
	return errors.Join(err, f.err)
}

// object parses a google.protobuf.Struct into m.
func (w *wireParser) object(outer *fields, m map[string]any, depth int) (err error) {
	f := w.fields(outer.lo, outer.hi)
	for err == nil && f.next() {
		if f.num == 1 && f.typ == typeBytes {
			err = w.member(&f, m, depth+1)
		}
	}
	return errors.Join(err, f.err)
}

func (w *wireParser) member(outer *fields, m map[string]any, depth int) (err error) {
	var key string
	var value any
	f := w.fields(outer.lo, outer.hi)
	for err == nil && f.next() {
		switch {
		case f.num == 1 && f.typ == typeBytes:
			key, err = w.text(&f)
		case f.num == 2 && f.typ == typeBytes:
			value, err = w.value(&f, value, depth)
		}
	}
	m[key] = value
	return errors.Join(err, f.err)
}

// value parses a google.protobuf.Value and merges it with v, the value parsed before.
func (w *wireParser) value(outer *fields, v any, depth int) (_ any, err error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	f := w.fields(outer.lo, outer.hi)
	marked := false
	for err == nil && f.next() {
		switch {
		case f.num == 1 && f.typ == typeVarint:
			v = nil
		case f.num == numberMark && f.typ == typeVarint:
			marked = f.value != 0
		case f.num == 2 && f.typ == typeFixed64:
			v = math.Float64frombits(binary.LittleEndian.Uint64(w.b[f.lo:f.hi]))
		case f.num == 3 && f.typ == typeBytes:
			v, err = w.text(&f)
		case f.num == 4 && f.typ == typeVarint:
			v = f.value != 0
		case f.num == 5 && f.typ == typeBytes:
			m, ok := v.(map[string]any)
			if !ok {
				m = make(map[string]any)
			}
			v, err = m, w.object(&f, m, depth)
		case f.num == 6 && f.typ == typeBytes:
			list, _ := v.([]any)
			v, err = w.list(&f, list, depth)
		}
	}
	if text, ok := v.(string); ok && marked && IsNumber(text) {
		v = Number(text)
	}
	return v, errors.Join(err, f.err)
}

func (w *wireParser) list(outer *fields, list []any, depth int) (_ []any, err error) {
	if list == nil {
		list = []any{}
	}
	f := w.fields(outer.lo, outer.hi)
	for err == nil && f.next() {
		if f.num == 1 && f.typ == typeBytes {
			var v any
			v, err = w.value(&f, nil, depth+1)
			list = append(list, v)
		}
	}
	return list, errors.Join(err, f.err)
}
