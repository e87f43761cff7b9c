package record

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// Limits limits the memory of a decoded batch from another process. A few bytes on the wire can take many times as much
// in memory: a record takes at least two bytes, and a metadata entry or an empty object hardly more.
type Limits struct {
	Records  int // records of a batch
	Metadata int // entries per record
	Memory   int // bytes per batch, and per record
}

// ReadBatch returns a batch of the first records of buf, a message in the form of NewEncodedBatch, and the number n of
// their bytes in buf. It reads as many records as the limits allow and receivers can decode. err is the error of the
// next record if that record can never be accepted.
//
// ReadBatch decodes nothing. It checks a batch that is only passed on where it enters, so that an undecodable record
// does not break its reader. The batch keeps buf.
func ReadBatch(buf []byte, l Limits) (_ *Batch, n int, err error) {
	if len(buf) > math.MaxInt32 {
		return nil, 0, fmt.Errorf("cannot read batch: %d bytes are too many", len(buf))
	}
	e := &encoded{buf: buf}
	memory := 0
	f := fields{b: buf, end: len(buf)}
	for len(e.spans) < l.Records && f.next() {
		if f.num == 1 && f.typ == typeBytes {
			s, size, err := checkRecord(buf, f.lo, f.hi, l)
			if err != nil || len(e.spans) > 0 && memory+size > l.Memory {
				return readBatch(e, memory), n, err
			}
			memory += size
			e.add(s, f.at)
		}
		n = f.at
	}
	if f.err != nil {
		err = fmt.Errorf("cannot read batch: %w", f.err)
	}
	return readBatch(e, memory), n, err
}

func readBatch(e *encoded, memory int) *Batch {
	b := newEncoded(e)
	b.memory = memory
	return b
}

// checkRecord checks the record in buf[lo:hi] and returns its location and its decoded memory.
func checkRecord(buf []byte, lo, hi int, l Limits) (s span, memory int, err error) {
	if s, err = scanRecord(buf, lo, hi); err != nil {
		return s, 0, fmt.Errorf("cannot read a record: %w", err)
	}
	w := weight{bytes: decodedOverhead + hi - lo}
	if err = checkFields(buf, lo, hi, aRecord, 0, &w); err == nil {
		err = w.within(l)
	}
	if err != nil {
		position := buf[s.posLo:s.posHi]
		return s, 0, fmt.Errorf("cannot take record %.100q: %w", position, err)
	}
	return s, w.bytes, nil
}

// Weigh checks an encoded record, and returns its decoded memory in bytes. It ignores the limit Records.
func Weigh(b []byte, l Limits) (memory int, err error) {
	_, memory, err = checkRecord(b, 0, len(b), l)
	return memory, err
}

// weight is the size of a decoded record.
type weight struct{ bytes, entries int }

// weights are the approximate bytes of memory of the decoded parts of a message, in addition to their text.
var weights = [...]int{anEntry: 32, aStruct: 48, aMember: 64, aValue: 24, aList: 24}

func (w *weight) add(messageKind kind) {
	w.bytes += weights[messageKind]
	if messageKind == anEntry {
		w.entries++
	}
}

// within returns an error if the weight exceeds a limit.
func (w *weight) within(l Limits) error {
	switch {
	case w.entries > l.Metadata:
		return fmt.Errorf("its metadata has %d entries, more than %d", w.entries, l.Metadata)
	case w.bytes > l.Memory:
		return fmt.Errorf("it takes %d bytes of memory when it is decoded, more than %d", w.bytes, l.Memory)
	}
	return nil
}

// kind is the type of a field that is bytes on the wire.
type kind uint8

const (
	unchecked kind = iota // any content is valid; also all fields that are not bytes
	text
	aRecord
	anEntry
	aData
	aChange
	aStruct
	aMember
	aValue
	aList
)

// kinds are the kinds of the fields of each message, by number.
var kinds = [...][7]kind{
	aRecord: {3: anEntry, 4: aData, 5: aChange},
	anEntry: {1: text, 2: text},
	aData:   {2: aStruct},
	aChange: {1: aData, 2: aData},
	aStruct: {1: aMember},
	aMember: {1: text, 2: aValue},
	aValue:  {3: text, 5: aStruct, 6: aList},
	aList:   {1: aValue},
}

// checkFields checks the message in buf[lo:hi], which is nested depth levels deep, and adds up its weight.
func checkFields(buf []byte, lo, hi int, messageKind kind, depth int, w *weight) error {
	w.add(messageKind)
	if messageKind == aValue {
		depth++
	}
	if depth > maxDepth {
		return errTooDeep
	}
	f := fields{b: buf, at: lo, end: hi}
	for f.next() {
		if f.typ != typeBytes || f.num >= uint64(len(kinds[messageKind])) {
			continue
		}
		switch field := kinds[messageKind][f.num]; field {
		case unchecked:
		case text:
			if !utf8.Valid(buf[f.lo:f.hi]) {
				return errNotUTF8
			}
		default:
			if err := checkFields(buf, f.lo, f.hi, field, depth, w); err != nil {
				return err
			}
		}
	}
	return f.err
}
