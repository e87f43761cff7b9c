package parquet

import "encoding/binary"

// Types of Thrift's compact protocol.
const (
	typeI32    = 5
	typeI64    = 6
	typeBinary = 8
	typeList   = 9
	typeStruct = 12
)

// message appends a struct in Thrift's compact protocol. The caller must write fields in ascending order of their
// numbers.
type message struct {
	buf  []byte
	last byte // number of the previous field
}

func (m *message) field(number, kind byte) {
	m.buf = append(m.buf, (number-m.last)<<4|kind)
	m.last = number
}

func (m *message) i32(number byte, v int) { m.integer(number, typeI32, v) }
func (m *message) i64(number byte, v int) { m.integer(number, typeI64, v) }

func (m *message) integer(number, kind byte, v int) {
	m.field(number, kind)
	m.buf = binary.AppendVarint(m.buf, int64(v))
}

func (m *message) text(number byte, s string) {
	m.field(number, typeBinary)
	m.string(s)
}

func (m *message) string(s string) {
	m.buf = binary.AppendUvarint(m.buf, uint64(len(s)))
	m.buf = append(m.buf, s...)
}

// list begins a list of n elements, which follow.
func (m *message) list(number, kind byte, n int) {
	const short = 15 // longer lists have a separate length
	m.field(number, typeList)
	if n < short {
		m.buf = append(m.buf, byte(n)<<4|kind)
		return
	}
	m.buf = append(m.buf, short<<4|kind)
	m.buf = binary.AppendUvarint(m.buf, uint64(n))
}

// nested writes a struct as a field.
func (m *message) nested(number byte, write func(*message)) {
	m.field(number, typeStruct)
	m.element(write)
}

// element writes a struct as an element of a list.
func (m *message) element(write func(*message)) {
	inner := message{buf: m.buf}
	write(&inner)
	m.buf = append(inner.buf, 0)
}
