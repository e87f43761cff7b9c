package record

import (
	"fmt"
	"unicode/utf8"
)

// CheckWire returns how many records, from the first on, others will be able to decode,
// and what is wrong with the next one. It decodes nothing: a batch that is only passed on
// is checked where it enters, so that a record that cannot be decoded does not break
// its reader. Decoded records are not checked.
func (b *Batch) CheckWire() (int, error) {
	if _, ok := b.Decoded(); ok {
		return b.Len(), nil
	}
	for i, s := range b.encoded.spans {
		if err := checkFields(b.encoded.buf, int(s.lo), int(s.hi), aRecord, 0); err != nil {
			return i, fmt.Errorf("cannot decode record %q: %w", b.Position(i), err)
		}
	}
	return b.Len(), nil
}

// kind is what a field holds that is bytes on the wire.
type kind uint8

const (
	unchecked kind = iota // right whatever it holds, as everything that is not bytes
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

// kinds are those of the fields of each message, by their numbers.
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

// checkFields checks the message in buf[lo:hi], which is inside of depth values.
func checkFields(buf []byte, lo, hi int, of kind, depth int) error {
	if of == aValue {
		depth++
	}
	if depth > maxDepth {
		return errTooDeep
	}
	f := fields{b: buf, at: lo, end: hi}
	for f.next() {
		if f.typ != typeBytes || f.num >= uint64(len(kinds[of])) {
			continue
		}
		switch field := kinds[of][f.num]; field {
		case unchecked:
		case text:
			if !utf8.Valid(buf[f.lo:f.hi]) {
				return errNotUTF8
			}
		default:
			if err := checkFields(buf, f.lo, f.hi, field, depth); err != nil {
				return err
			}
		}
	}
	return f.err
}
