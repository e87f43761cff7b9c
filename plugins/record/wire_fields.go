package record

import (
	"encoding/binary"
	"errors"
)

// The protobuf wire types.
const (
	typeVarint     = 0
	typeFixed64    = 1
	typeBytes      = 2
	typeStartGroup = 3
	typeEndGroup   = 4
	typeFixed32    = 5
)

// maxFieldNumber is the maximum field number in protobuf.
const maxFieldNumber = 1<<29 - 1

var errMalformed = errors.New("malformed protobuf")

// fields iterates over the fields of the protobuf message in b[at:end]. Positions are offsets into b, so that they also
// apply to a copy of b.
type fields struct {
	b       []byte
	at, end int
	err     error

	// the current field
	num    uint64
	typ    uint64
	value  uint64 // of a varint
	lo, hi int    // content of bytes or of a fixed width value: b[lo:hi]
}

// next moves to the next field. It returns false at the end and when err is set. Most fields are short bytes with a
// small number, whose tag and length take one byte each.
func (f *fields) next() bool {
	if at := f.at; f.err == nil && f.end-at >= 2 {
		tag, n := f.b[at], int(f.b[at+1])
		if tag&0x87 == typeBytes && tag > typeBytes && n < 0x80 && n <= f.end-at-2 {
			f.num, f.typ = uint64(tag>>3), typeBytes
			f.lo, f.hi = at+2, at+2+n
			f.at = f.hi
			return true
		}
	}
	return f.nextOther()
}

// nextOther is next for any field.
func (f *fields) nextOther() bool {
	if f.err != nil || f.at >= f.end {
		return false
	}
	tag, ok := f.uvarint()
	f.num, f.typ = tag>>3, tag&7
	ok = ok && f.num > 0 && f.num <= maxFieldNumber && f.content()
	if !ok {
		f.err = errMalformed
	}
	return ok
}

// content reads or skips the content of the field after its tag.
func (f *fields) content() (ok bool) {
	switch f.typ {
	case typeVarint:
		f.value, ok = f.uvarint()
		return ok
	case typeBytes:
		n, ok := f.uvarint()
		return ok && f.take(n)
	case typeFixed64:
		return f.take(8)
	case typeFixed32:
		return f.take(4)
	case typeStartGroup:
		return f.skipGroup()
	}
	return false
}

func (f *fields) take(n uint64) bool {
	if n > uint64(f.end-f.at) {
		return false
	}
	f.lo, f.hi = f.at, f.at+int(n)
	f.at = f.hi
	return true
}

func (f *fields) uvarint() (uint64, bool) {
	if f.at < f.end && f.b[f.at] < 0x80 {
		f.at++
		return uint64(f.b[f.at-1]), true
	}
	v, n := binary.Uvarint(f.b[f.at:f.end])
	if n <= 0 {
		return 0, false
	}
	f.at += n
	return v, true
}

// skipGroup skips to the end of a group after its start tag. No known field is a group, so its content is ignored.
func (f *fields) skipGroup() bool {
	for depth := 1; depth > 0; {
		tag, ok := f.uvarint()
		if !ok {
			return false
		}
		switch tag & 7 {
		case typeStartGroup:
			depth++
		case typeEndGroup:
			depth--
		default:
			f.typ = tag & 7
			if !f.content() {
				return false
			}
		}
	}
	f.typ = typeStartGroup
	return true
}
