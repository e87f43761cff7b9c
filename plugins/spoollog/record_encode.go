package spoollog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// The kinds of data, two bits each.
const (
	dataNone = iota
	dataRaw
	dataStructured
)

// The types of values.
const (
	typeNil = iota
	typeFalse
	typeTrue
	typeInt
	typeInt8
	typeInt16
	typeInt32
	typeInt64
	typeUint
	typeUint8
	typeUint16
	typeUint32
	typeUint64
	typeFloat32
	typeFloat64
	typeString
	typeBytes
	typeTime
	typeDuration
	typeList
	typeObject
	typeJSON // of any other type, in its JSON form
)

// Encodings of a metadata value.
const (
	valueSame = iota // same as the previous value of this name
	valueText
	valueNumber // difference from the previous number of this name
)

const (
	maxNames = 1 << 12
	maxDepth = 1000
)

var (
	errMalformed = errors.New("malformed record")
	errTooDeep   = fmt.Errorf("nested deeper than %d", maxDepth)
)

// known is the state of a name in a body.
type known struct {
	name   string
	value  string // previous metadata value
	number int64  // value as a number, if it is one
}

// RecordEncoder encodes records compactly and preserves the types of their values. A body is a sequence of records.
// Metadata keys and field names of objects are written once per body and referred to afterwards. A metadata value that
// equals the previous value of its key, or is a number near it, is written as the difference. The position of a record
// is not stored: the log assigns another one.
//
// It writes one body after another. Reset must be called first.
type RecordEncoder struct {
	buf   []byte
	names []known
	index map[string]int
}

// Reset begins a body after the content of buf.
func (e *RecordEncoder) Reset(buf []byte) {
	e.buf, e.names = buf, e.names[:0]
	if e.index == nil {
		e.index = map[string]int{}
	}
	clear(e.index)
}

// Len returns the length of the buffer.
func (e *RecordEncoder) Len() int { return len(e.buf) }

// Take returns the buffer with the body. The encoder no longer uses it.
func (e *RecordEncoder) Take() []byte {
	buf := e.buf
	e.buf = nil
	return buf
}

// Append appends r. When it fails the buffer has no part of r, and Reset must be called before the next Append.
func (e *RecordEncoder) Append(r *record.Record) error {
	start := len(e.buf)
	kinds := kindOf(r.Key) | kindOf(r.Before)<<2 | kindOf(r.After)<<4
	e.buf = append(e.buf, kinds)
	e.buf = binary.AppendVarint(e.buf, int64(r.Operation))
	e.buf = binary.AppendUvarint(e.buf, uint64(len(r.Metadata)))
	for i := range r.Metadata {
		e.metadata(&r.Metadata[i], i)
	}
	for _, d := range [...]*record.Data{&r.Key, &r.Before, &r.After} {
		if err := e.data(d); err != nil {
			e.buf = e.buf[:start]
			return err
		}
	}
	return nil
}

func kindOf(d record.Data) byte {
	if d.IsNone() {
		return dataNone
	}
	if _, ok := d.Raw(); ok {
		return dataRaw
	}
	return dataStructured
}

// metadata appends a key-value pair. The name is likely to have the index hint.
func (e *RecordEncoder) metadata(f *record.Field, hint int) {
	if hint >= len(e.names) || e.names[hint].name != f.Key {
		hint = e.name(f.Key)
	} else {
		e.buf = binary.AppendUvarint(e.buf, uint64(hint)+1)
	}
	if hint < 0 {
		e.buf = appendText(append(e.buf, valueText), f.Value)
		return
	}
	k := &e.names[hint]
	if k.value == f.Value {
		e.buf = append(e.buf, valueSame)
		return
	}
	k.value = f.Value
	if n, ok := decimal(f.Value); ok {
		e.buf = binary.AppendVarint(append(e.buf, valueNumber), n-k.number)
		k.number = n
		return
	}
	e.buf = appendText(append(e.buf, valueText), f.Value)
}

// name appends a name and returns its index, -1 if there are too many names.
func (e *RecordEncoder) name(s string) int {
	if i, ok := e.index[s]; ok {
		e.buf = binary.AppendUvarint(e.buf, uint64(i)+1)
		return i
	}
	e.buf = appendText(append(e.buf, 0), s)
	if len(e.names) == maxNames {
		return -1
	}
	e.names = append(e.names, known{name: s})
	e.index[s] = len(e.names) - 1
	return len(e.names) - 1
}

// decimal returns the number whose shortest decimal form is s.
func decimal(s string) (int64, bool) {
	if len(s) == 0 || len(s) > 19 || s[0] < '0' || s[0] > '9' || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func appendText[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func (e *RecordEncoder) data(d *record.Data) error {
	if b, ok := d.Raw(); ok {
		e.buf = appendText(e.buf, b)
	} else if m, ok := d.Structured(); ok {
		return e.object(m, 0)
	}
	return nil
}

func (e *RecordEncoder) object(m map[string]any, depth int) error {
	e.buf = binary.AppendUvarint(e.buf, uint64(len(m)))
	for name, v := range m {
		e.name(name)
		if err := e.value(v, depth+1); err != nil {
			return within(name, err)
		}
	}
	return nil
}

func (e *RecordEncoder) value(v any, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	switch v := v.(type) {
	case nil:
		e.buf = append(e.buf, typeNil)
	case bool:
		b := byte(typeFalse)
		if v {
			b = typeTrue
		}
		e.buf = append(e.buf, b)
	case string:
		e.buf = appendText(append(e.buf, typeString), v)
	case []byte:
		e.buf = appendText(append(e.buf, typeBytes), v)
	case float64:
		e.buf = binary.LittleEndian.AppendUint64(append(e.buf, typeFloat64), math.Float64bits(v))
	case float32:
		e.buf = binary.LittleEndian.AppendUint32(append(e.buf, typeFloat32), math.Float32bits(v))
	case map[string]any:
		e.buf = append(e.buf, typeObject)
		return e.object(v, depth)
	case []any:
		return e.list(v, depth)
	case time.Time:
		return e.time(v)
	default:
		return e.number(v)
	}
	return nil
}

func (e *RecordEncoder) list(list []any, depth int) error {
	e.buf = binary.AppendUvarint(append(e.buf, typeList), uint64(len(list)))
	for i, v := range list {
		if err := e.value(v, depth+1); err != nil {
			return within(fmt.Sprintf("[%d]", i), err)
		}
	}
	return nil
}

// within adds the path to an error, except to an error about the depth, whose path would be too long.
func within(at string, err error) error {
	if errors.Is(err, errTooDeep) {
		return err
	}
	return fmt.Errorf("%s: %w", at, err)
}

func (e *RecordEncoder) time(t time.Time) error {
	b, err := t.MarshalBinary()
	if err != nil {
		return err
	}
	e.buf = appendText(append(e.buf, typeTime), b)
	return nil
}

// number appends a value of a numeric type, or of an unusual one.
func (e *RecordEncoder) number(v any) error {
	signed := func(kind byte, n int64) { e.buf = binary.AppendVarint(append(e.buf, kind), n) }
	unsigned := func(kind byte, n uint64) { e.buf = binary.AppendUvarint(append(e.buf, kind), n) }
	switch v := v.(type) {
	case int:
		signed(typeInt, int64(v))
	case int8:
		signed(typeInt8, int64(v))
	case int16:
		signed(typeInt16, int64(v))
	case int32:
		signed(typeInt32, int64(v))
	case int64:
		signed(typeInt64, v)
	case time.Duration:
		signed(typeDuration, int64(v))
	case uint:
		unsigned(typeUint, uint64(v))
	case uint8:
		unsigned(typeUint8, uint64(v))
	case uint16:
		unsigned(typeUint16, uint64(v))
	case uint32:
		unsigned(typeUint32, uint64(v))
	case uint64:
		unsigned(typeUint64, v)
	default:
		text, err := record.AppendValue(nil, v)
		if err != nil {
			return err
		}
		e.buf = appendText(append(e.buf, typeJSON), text)
	}
	return nil
}
