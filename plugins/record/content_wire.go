package record

import (
	"encoding/binary"
	"math"
)

// wireContent returns the content size of the Data in the field: raw bytes, or an object in JSON.
func wireContent(buf []byte, outer *fields) (n int) {
	f := fields{b: buf, at: outer.lo, end: outer.hi}
	for f.next() {
		switch {
		case f.num == 1 && f.typ == typeBytes:
			n = f.hi - f.lo
		case f.num == 2 && f.typ == typeBytes:
			n = wireObjectLength(buf, &f, 0)
		}
	}
	return n
}

// wireChange returns the content size of both sides of the payload in the field.
func wireChange(buf []byte, outer *fields) (n int) {
	f := fields{b: buf, at: outer.lo, end: outer.hi}
	for f.next() {
		if (f.num == 1 || f.num == 2) && f.typ == typeBytes {
			n += wireContent(buf, &f)
		}
	}
	return n
}

// wireObjectLength returns the length of a google.protobuf.Struct in JSON. Data nested too deeply for decoding has
// length 0.
func wireObjectLength(buf []byte, outer *fields, depth int) (n int) {
	f := fields{b: buf, at: outer.lo, end: outer.hi}
	members := 0
	for f.next() && depth <= maxDepth {
		if f.num != 1 || f.typ != typeBytes {
			continue
		}
		members++
		member := fields{b: buf, at: f.lo, end: f.hi}
		for member.next() {
			switch {
			case member.num == 1 && member.typ == typeBytes:
				n += nameLength(buf[member.lo:member.hi]) + len(":")
			case member.num == 2 && member.typ == typeBytes:
				n += wireValueLength(buf, &member, depth+1)
			}
		}
	}
	return n + bracketsLength(members)
}

// wireValueLength returns the length of a google.protobuf.Value in JSON.
func wireValueLength(buf []byte, outer *fields, depth int) int {
	f := fields{b: buf, at: outer.lo, end: outer.hi}
	for f.next() {
		switch {
		case f.num == 2 && f.typ == typeFixed64:
			return jsonLength(math.Float64frombits(binary.LittleEndian.Uint64(buf[f.lo:f.hi])), 0)
		case f.num == 3 && f.typ == typeBytes:
			n, number := nameLength(buf[f.lo:f.hi]), f.hi-f.lo
			for f.next() {
				if f.num == numberMark && f.typ == typeVarint && f.value != 0 {
					n = number
				}
			}
			return n
		case f.num == 4 && f.typ == typeVarint:
			return jsonLength(f.value != 0, 0)
		case f.num == 5 && f.typ == typeBytes:
			return wireObjectLength(buf, &f, depth)
		case f.num == 6 && f.typ == typeBytes:
			return wireListLength(buf, &f, depth)
		}
	}
	return len("null")
}

func wireListLength(buf []byte, outer *fields, depth int) (n int) {
	f := fields{b: buf, at: outer.lo, end: outer.hi}
	items := 0
	for f.next() && depth <= maxDepth {
		if f.num == 1 && f.typ == typeBytes {
			items++
			n += wireValueLength(buf, &f, depth+1)
		}
	}
	return n + bracketsLength(items)
}
