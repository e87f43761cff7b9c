package spoollog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// minRecord is the size of the smallest record with metadata.
const minRecord = 6

// spareFields is the spare capacity in the metadata of a record for fields that a host adds.
const spareFields = 2

// decoder reads one body.
type decoder struct {
	b     []byte // rest of the body
	names []known
	left  int            // remaining records, including the next one
	spare []record.Field // memory for the metadata of the next records
	err   error
}

// DecodeRecords appends the records of a body to dst. The body must hold count records. The records share memory with
// the body, which must not change afterwards.
func DecodeRecords(dst []record.Record, body []byte, count int) ([]record.Record, error) {
	d := decoder{b: body, left: count}
	for ; d.left > 0; d.left-- {
		dst = append(dst, record.Record{})
		d.record(&dst[len(dst)-1])
		if d.err != nil {
			return dst[:len(dst)-1], d.err
		}
	}
	if len(d.b) > 0 {
		return dst, errMalformed
	}
	return dst, nil
}

func (d *decoder) record(r *record.Record) {
	kinds := d.byte()
	r.Operation = record.Operation(d.varint())
	if n := d.length(2); n > 0 {
		r.Metadata = d.fields(n)
		for i := range r.Metadata {
			d.metadata(&r.Metadata[i])
		}
	}
	r.Key = d.data(kinds & 3)
	r.Before = d.data(kinds >> 2 & 3)
	r.After = d.data(kinds >> 4 & 3)
}

// fields returns metadata with n fields. The metadata of all records of a body share one array, because most records
// have the same number of fields.
func (d *decoder) fields(n int) record.Metadata {
	size := n + spareFields
	if len(d.spare) < size {
		d.spare = make([]record.Field, size*min(d.left, 1+len(d.b)/minRecord))
	}
	fields := d.spare[:n:size]
	d.spare = d.spare[size:]
	return fields
}

func (d *decoder) fail() { d.b, d.err = nil, errMalformed }

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// length reads a count of items that take at least size bytes each.
func (d *decoder) length(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.b)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) bytes() []byte {
	n := d.length(1)
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

// name reads a name and returns its index, -1 if it has none.
func (d *decoder) name() (string, int) {
	i := d.uvarint()
	if i > uint64(len(d.names)) {
		d.fail()
		return "", -1
	}
	if i > 0 {
		return d.names[i-1].name, int(i - 1)
	}
	s := string(d.bytes())
	if len(d.names) == maxNames {
		return s, -1
	}
	d.names = append(d.names, known{name: s})
	return s, len(d.names) - 1
}

func (d *decoder) metadata(f *record.Field) {
	name, i := d.name()
	f.Key = name
	how := d.byte()
	if i < 0 {
		f.Value = string(d.bytes())
		return
	}
	k := &d.names[i]
	switch how {
	case valueSame:
	case valueText:
		k.value = string(d.bytes())
	case valueNumber:
		k.number += d.varint()
		k.value = strconv.FormatInt(k.number, 10)
	default:
		d.fail()
	}
	f.Value = k.value
}

func (d *decoder) data(kind byte) record.Data {
	switch kind {
	case dataRaw:
		return record.Raw(d.bytes())
	case dataStructured:
		return record.Structured(d.object(0))
	}
	return record.Data{}
}

func (d *decoder) object(depth int) map[string]any {
	n := d.length(2)
	m := make(map[string]any, n)
	for range n {
		name, _ := d.name()
		m[name] = d.value(depth + 1)
		if d.err != nil {
			return nil
		}
	}
	return m
}

func (d *decoder) value(depth int) any {
	if depth > maxDepth {
		d.fail()
		return nil
	}
	switch kind := d.byte(); kind {
	case typeNil:
		return nil
	case typeFalse, typeTrue:
		return kind == typeTrue
	case typeString:
		return string(d.bytes())
	case typeBytes:
		return d.bytes()
	case typeFloat64:
		return math.Float64frombits(binary.LittleEndian.Uint64(d.fixed(8)))
	case typeFloat32:
		return math.Float32frombits(binary.LittleEndian.Uint32(d.fixed(4)))
	case typeObject:
		return d.object(depth)
	case typeList:
		return d.list(depth)
	case typeTime:
		return d.time()
	case typeJSON:
		return d.json()
	default:
		return d.number(kind)
	}
}

func (d *decoder) fixed(n int) []byte {
	if len(d.b) < n {
		d.fail()
		return make([]byte, n)
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) list(depth int) []any {
	list := make([]any, d.length(1))
	for i := range list {
		if list[i] = d.value(depth + 1); d.err != nil {
			return nil
		}
	}
	return list
}

func (d *decoder) time() (t time.Time) {
	if t.UnmarshalBinary(d.bytes()) != nil {
		d.fail()
	}
	return t
}

// json reads a value of an unusual type from its JSON form. A number keeps its text form, because no other type may be
// able to hold it.
func (d *decoder) json() (v any) {
	text := d.bytes()
	if json.Unmarshal(text, &v) == nil {
		if _, isNumber := v.(float64); !isNumber {
			return v
		}
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	if in.Decode(&v) != nil {
		d.fail()
	}
	return v
}

func (d *decoder) number(kind byte) any {
	switch kind {
	case typeInt:
		return int(d.varint())
	case typeInt8:
		return int8(d.varint())
	case typeInt16:
		return int16(d.varint())
	case typeInt32:
		return int32(d.varint())
	case typeInt64:
		return d.varint()
	case typeDuration:
		return time.Duration(d.varint())
	case typeUint:
		return uint(d.uvarint())
	case typeUint8:
		return uint8(d.uvarint())
	case typeUint16:
		return uint16(d.uvarint())
	case typeUint32:
		return uint32(d.uvarint())
	case typeUint64:
		return d.uvarint()
	}
	d.fail()
	return nil
}
