package record

import (
	"strconv"
	"strings"
)

// Arena makes the metadata of the records of a batch out of few pieces of memory, instead of several for each
// record. A piece is freed when no record needs it any more.
type Arena struct {
	fields []Field
	text   strings.Builder
}

// hostFields is how many fields the host adds to the metadata of a record.
const hostFields = 2

// NewArena returns an Arena for a batch of so many records, with about so many fields each, for which it makes texts of so
// many bytes each. Where they turn out to be more it takes more memory.
func NewArena(records, fields, textBytes int) *Arena {
	a := &Arena{fields: make([]Field, records*(fields+hostFields))}
	a.text.Grow(records * textBytes)
	return a
}

// Metadata returns empty metadata with room for so many fields, and those that the host adds.
func (a *Arena) Metadata(fields int) Metadata {
	n := fields + hostFields
	if n > len(a.fields) {
		return make(Metadata, 0, n)
	}
	m := a.fields[:0:n]
	a.fields = a.fields[n:]
	return m
}

// Int returns n in decimal.
func (a *Arena) Int(n int64) string {
	var buf [20]byte
	return a.String(strconv.AppendInt(buf[:0], n, 10))
}

// String returns b as a string.
func (a *Arena) String(b []byte) string {
	start := a.text.Len()
	a.text.Write(b)
	return a.text.String()[start:] // what is written behind it does not change it
}
