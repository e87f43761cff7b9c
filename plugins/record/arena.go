package record

import (
	"strconv"
	"strings"
)

// Arena allocates the metadata of a batch in few pieces of memory, instead of several pieces per record. A piece is
// freed when no record refers to it.
type Arena struct {
	fields []Field
	text   strings.Builder
}

// hostFields is the number of fields that the host adds to the metadata of a record.
const hostFields = 2

// NewArena returns an Arena for a batch of the given number of records, with about fields metadata fields and textBytes
// bytes of text per record. It allocates more memory if necessary.
func NewArena(records, fields, textBytes int) *Arena {
	a := &Arena{fields: make([]Field, records*(fields+hostFields))}
	a.text.Grow(records * textBytes)
	return a
}

// Metadata returns empty metadata with capacity for this number of fields, plus the fields that the host adds.
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
	return a.text.String()[start:] // later writes do not change it
}
