// Package parquet writes records as an Apache Parquet file with one row group, compressed with gzip. The columns are
// the same as in Conduit's connector for S3: operation, position, payload and key as byte arrays, metadata as a map of
// strings.
package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
)

// Row is a record.
type Row struct {
	Operation, Position, Payload, Key []byte
	Metadata                          []Pair
}

// Pair is an entry of a map.
type Pair struct{ Key, Value string }

// Enum values of the format, from parquet.thrift.
const (
	byteArray = 6

	required = 0
	repeated = 2

	convertedUTF8     = 0
	convertedMap      = 1
	convertedKeyValue = 2

	encodingPlain = 0
	encodingRLE   = 3
	codecGzip     = 2
	dataPage      = 0
)

const magic = "PAR1"

// column is a leaf of the schema with the values of all rows.
type column struct {
	path   []string
	count  int    // number of values, and of rows without a value
	levels []byte // repetition and definition levels; empty for a required leaf
	values []byte
}

// chunk is the location of a column in the file.
type chunk struct {
	*column
	offset, plain, compressed int // in bytes, including the page header
}

// File returns a Parquet file with the rows.
func File(rows []Row) ([]byte, error) {
	file := []byte(magic)
	var chunks []chunk
	for _, c := range columnsOf(rows) {
		page, err := Compress(append(c.levels, c.values...))
		if err != nil {
			return nil, fmt.Errorf("cannot compress a column: %w", err)
		}
		header := pageHeader(c.count, len(c.levels)+len(c.values), len(page))
		chunks = append(chunks, chunk{&c, len(file), len(header) + len(c.levels) + len(c.values), len(header) + len(page)})
		file = append(append(file, header...), page...)
	}
	footer := footerOf(chunks, len(rows))
	file = append(file, footer...)
	file = binary.LittleEndian.AppendUint32(file, uint32(len(footer)))
	return append(file, magic...), nil
}

func columnsOf(rows []Row) []column {
	all := []column{{path: []string{"operation"}}, {path: []string{"position"}}, {path: []string{"payload"}}, {path: []string{"key"}},
		{path: []string{"metadata", "key_value", "key"}}, {path: []string{"metadata", "key_value", "value"}}}
	var repetition, definition levels
	for _, r := range rows {
		for i, v := range [][]byte{r.Operation, r.Position, r.Payload, r.Key} {
			all[i].add(v)
		}
		for i, p := range r.Metadata {
			all[4].add([]byte(p.Key))
			all[5].add([]byte(p.Value))
			repetition.add(byte(min(i, 1)))
			definition.add(1)
		}
		if len(r.Metadata) == 0 {
			all[4].count++
			all[5].count++
			repetition.add(0)
			definition.add(0)
		}
	}
	for i := range all[4:] {
		all[4+i].levels = append(repetition.bytes(), definition.bytes()...)
	}
	return all
}

// add adds a value in the PLAIN encoding.
func (c *column) add(value []byte) {
	c.count++
	c.values = binary.LittleEndian.AppendUint32(c.values, uint32(len(value)))
	c.values = append(c.values, value...)
}

// levels holds single-bit levels, encoded as runs.
type levels struct {
	buf   []byte
	bit   byte
	count int // length of the run of bit at the end
}

func (l *levels) add(bit byte) {
	if bit != l.bit {
		l.flush()
		l.bit = bit
	}
	l.count++
}

func (l *levels) flush() {
	if l.count > 0 {
		l.buf = append(binary.AppendUvarint(l.buf, uint64(l.count)<<1), l.bit)
	}
	l.count = 0
}

// bytes returns the runs, preceded by their length.
func (l *levels) bytes() []byte {
	l.flush()
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(l.buf))), l.buf...)
}

// Compress returns b compressed with gzip.
func Compress(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

func pageHeader(values, plain, compressed int) []byte {
	var m message
	m.i32(1, dataPage)
	m.i32(2, plain)
	m.i32(3, compressed)
	m.nested(5, func(m *message) {
		m.i32(1, values)
		m.i32(2, encodingPlain)
		m.i32(3, encodingRLE)
		m.i32(4, encodingRLE)
	})
	return append(m.buf, 0)
}

func footerOf(chunks []chunk, rows int) []byte {
	var m message
	m.i32(1, 1)
	writeSchema(&m)
	m.i64(3, rows)
	m.list(4, typeStruct, 1)
	m.element(func(m *message) {
		size := 0
		m.list(1, typeStruct, len(chunks))
		for _, c := range chunks {
			m.element(c.write)
			size += c.plain
		}
		m.i64(2, size)
		m.i64(3, rows)
	})
	m.text(6, "conduit")
	return append(m.buf, 0)
}

// node is an element of the schema. A leaf has no children.
type node struct {
	name       string
	repetition int
	children   int
	converted  int // -1: none
}

func writeSchema(m *message) {
	nodes := []node{
		{"schema", required, 5, -1},
		{"operation", required, 0, -1}, {"position", required, 0, -1}, {"payload", required, 0, -1}, {"key", required, 0, -1},
		{"metadata", required, 1, convertedMap}, {"key_value", repeated, 2, convertedKeyValue},
		{"key", required, 0, convertedUTF8}, {"value", required, 0, convertedUTF8},
	}
	m.list(2, typeStruct, len(nodes))
	for _, n := range nodes {
		m.element(n.write)
	}
}

func (n node) write(m *message) {
	if n.children == 0 {
		m.i32(1, byteArray)
	}
	m.i32(3, n.repetition)
	m.text(4, n.name)
	if n.children > 0 {
		m.i32(5, n.children)
	}
	if n.converted >= 0 {
		m.i32(6, n.converted)
	}
}

func (c chunk) write(m *message) {
	m.i64(2, c.offset)
	m.nested(3, func(m *message) {
		m.i32(1, byteArray)
		m.list(2, typeI32, 2)
		m.buf = binary.AppendVarint(binary.AppendVarint(m.buf, encodingPlain), encodingRLE)
		m.list(3, typeBinary, len(c.path))
		for _, name := range c.path {
			m.string(name)
		}
		m.i32(4, codecGzip)
		m.i64(5, c.count)
		m.i64(6, c.plain)
		m.i64(7, c.compressed)
		m.i64(9, c.offset)
	})
}
