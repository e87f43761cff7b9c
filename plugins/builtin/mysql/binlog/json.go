package binlog

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
)

// Types of values in the binary JSON of MySQL.
const (
	jsonSmallObject = 0x00
	jsonLargeObject = 0x01
	jsonSmallArray  = 0x02
	jsonLargeArray  = 0x03
	jsonLiteral     = 0x04
	jsonInt16       = 0x05
	jsonUint16      = 0x06
	jsonInt32       = 0x07
	jsonUint32      = 0x08
	jsonInt64       = 0x09
	jsonUint64      = 0x0a
	jsonDouble      = 0x0b
	jsonString      = 0x0c
	jsonOpaque      = 0x0f
)

// maxDepth is the maximum nesting depth of JSON in MySQL.
const maxDepth = 100

// jsonText returns the text of a binary JSON value. MySQL stores an empty value for an unchecked NULL.
func jsonText(b []byte) (any, error) {
	if len(b) == 0 {
		return "null", nil
	}
	j := &jsonValue{left: len(b)}
	text, ok := j.append(nil, b[0], b[1:], 0)
	if !ok {
		return nil, ErrCorrupt
	}
	return string(text), nil
}

// jsonValue is a binary JSON value. Its containers hold the offsets of their members, and MySQL uses no byte twice. A
// value whose members share bytes is damaged: its text could be exponentially longer.
type jsonValue struct {
	left int // unused bytes
}

// use counts n bytes. It returns false if the value has fewer bytes left.
func (j *jsonValue) use(n int) bool {
	j.left -= n
	return j.left >= 0
}

func (j *jsonValue) append(dst []byte, kind byte, b []byte, depth int) ([]byte, bool) {
	if depth > maxDepth {
		return dst, false
	}
	r := reader{data: b}
	switch kind {
	case jsonSmallObject, jsonLargeObject, jsonSmallArray, jsonLargeArray:
		return j.container(dst, kind, b, depth)
	case jsonLiteral:
		dst, r.failed = literal(dst, r.uint8())
	case jsonInt16:
		dst = strconv.AppendInt(dst, int64(int16(r.uint16())), 10)
	case jsonUint16:
		dst = strconv.AppendUint(dst, uint64(r.uint16()), 10)
	case jsonInt32:
		dst = strconv.AppendInt(dst, int64(int32(r.uint32())), 10)
	case jsonUint32:
		dst = strconv.AppendUint(dst, uint64(r.uint32()), 10)
	case jsonInt64:
		dst = strconv.AppendInt(dst, int64(r.uint64()), 10)
	case jsonUint64:
		dst = strconv.AppendUint(dst, r.uint64(), 10)
	case jsonDouble:
		dst = appendDouble(dst, math.Float64frombits(r.uint64()))
	case jsonString:
		dst = appendQuoted(dst, r.take(r.variable()))
	case jsonOpaque:
		typ := r.uint8()
		dst = appendOpaque(dst, typ, r.take(r.variable()))
	default:
		return dst, false
	}
	return dst, !r.failed && j.use(len(b)-len(r.data))
}

func literal(dst []byte, v byte) ([]byte, bool) {
	if v > 2 {
		return dst, true
	}
	return append(dst, [...]string{"null", "true", "false"}[v]...), false
}

// container appends an object or array. Its format is: count and size; for each member of an object the offset and
// length of the key; and for each member the type and offset of the value, or a small value itself.
func (j *jsonValue) container(dst []byte, kind byte, b []byte, depth int) ([]byte, bool) {
	size := 2
	if kind == jsonLargeObject || kind == jsonLargeArray {
		size = 4
	}
	isObject := kind == jsonSmallObject || kind == jsonLargeObject
	r := reader{data: b}
	count, total := int(r.little(size)), int(r.little(size))
	if r.failed || total > len(b) || count > len(b) || !j.use(2*size) {
		return dst, false
	}
	b = b[:total]
	keys := reader{}
	if isObject {
		keys.data = r.take(count * (size + 2))
	}
	dst = append(dst, "[{"[btoi(isObject)])
	for i := range count {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if isObject {
			key, ok := slice(b, keys.little(size), keys.little(2))
			if !ok || keys.failed || !j.use(size+2+len(key)) {
				return dst, false
			}
			dst = append(appendQuoted(dst, key), ": "...)
		}
		typ, value := r.uint8(), r.take(size)
		if r.failed {
			return dst, false
		}
		place := 1 // size of the type and the offset of the value
		if !inlined(typ, size) {
			at := little(value)
			if at >= uint64(len(b)) || at == 0 {
				return dst, false
			}
			value, place = b[at:], 1+size
		}
		var ok bool
		if dst, ok = j.append(dst, typ, value, depth+1); !ok || !j.use(place) {
			return dst, false
		}
	}
	return append(dst, "]}"[btoi(isObject)]), true
}

func little(b []byte) uint64 { r := reader{data: b}; return r.little(len(b)) }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func slice(b []byte, at, n uint64) ([]byte, bool) {
	if at > uint64(len(b)) || n > uint64(len(b))-at {
		return nil, false
	}
	return b[at : at+n], true
}

// inlined reports whether a container stores a value in place of an offset.
func inlined(typ byte, size int) bool {
	switch typ {
	case jsonLiteral, jsonInt16, jsonUint16:
		return true
	case jsonInt32, jsonUint32:
		return size == 4
	}
	return false
}

// variable takes a variable-length integer: seven bits per byte, the lowest first.
func (r *reader) variable() int {
	var n uint64
	for i := range 5 {
		b := r.uint8()
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			if n > maxLength {
				break
			}
			return int(n)
		}
	}
	r.failed = true
	return 0
}

func appendQuoted(dst, text []byte) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(string(text)) // cannot fail
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte{'\n'})...)
}

// appendDouble appends a number in the format of MySQL: a whole number ends in .0.
func appendDouble(dst []byte, f float64) []byte {
	if math.Trunc(f) == f && math.Abs(f) < 1e15 {
		return strconv.AppendFloat(dst, f, 'f', 1, 64)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

// appendOpaque appends a value of an SQL type.
func appendOpaque(dst []byte, typ byte, b []byte) []byte {
	switch {
	case typ == TypeNewDecimal && len(b) > 2:
		r := reader{data: b[2:]}
		if v, err := decimal(&r, int(b[0]), int(b[1])); err == nil {
			return append(dst, v.(string)...)
		}
	case (typ == TypeDate || typ == TypeDateTime || typ == TypeTimestamp) && len(b) == 8:
		v := binary.LittleEndian.Uint64(b)
		return appendQuoted(dst, []byte(packedDate(typ, v)))
	case typ == TypeTime && len(b) == 8:
		return appendQuoted(dst, []byte(packedTime(int64(binary.LittleEndian.Uint64(b)))))
	}
	return appendQuoted(dst, []byte("base64:type"+strconv.Itoa(int(typ))+":"+base64.StdEncoding.EncodeToString(b)))
}
