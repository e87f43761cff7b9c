package record

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// maxDepth is the maximum depth of structured data in the wire form.
const maxDepth = 1000

// AppendWire appends r to dst as the protobuf message opencdc.v1.Record. Numbers in structured data become doubles,
// bytes base64 strings and times RFC 3339 strings. Text that is not UTF-8 is written as in JSON: see AppendValue. It
// fails on values of unsupported types, and on data nested deeper than 1000.
func AppendWire(dst []byte, r *Record) ([]byte, error) {
	if len(r.Position) > 0 {
		dst = appendBytes(dst, 1, r.Position)
	}
	if r.Operation != 0 {
		dst = append(dst, 2<<3|typeVarint)
		dst = binary.AppendUvarint(dst, uint64(int64(r.Operation)))
	}
	for i := range r.Metadata {
		dst = appendEntry(dst, ValidName(r.Metadata[i].Key), ValidName(r.Metadata[i].Value))
	}
	dst, err := appendData(dst, 4, r.Key)
	if err != nil {
		return dst, fmt.Errorf("cannot encode key: %w", err)
	}
	dst, start := openMessage(dst, 5)
	if dst, err = appendData(dst, 1, r.Before); err != nil {
		return dst, fmt.Errorf("cannot encode payload.before: %w", err)
	}
	if dst, err = appendData(dst, 2, r.After); err != nil {
		return dst, fmt.Errorf("cannot encode payload.after: %w", err)
	}
	return closeMessage(dst, start), nil
}

// appendEntry appends one metadata pair, field 3 of a record.
func appendEntry(dst []byte, key, value string) []byte {
	dst = append(dst, 3<<3|typeBytes)
	dst = binary.AppendUvarint(dst, uint64(entrySize(key, value)))
	dst = appendBytes(dst, 1, key)
	return appendBytes(dst, 2, value)
}

func entrySize(key, value string) int {
	return 2 + uvarintSize(len(key)) + len(key) + uvarintSize(len(value)) + len(value)
}

func uvarintSize(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// appendData appends d as field num, nothing if d is none.
func appendData(dst []byte, num byte, d Data) ([]byte, error) {
	if d.kind == none {
		return dst, nil
	}
	dst, start := openMessage(dst, num)
	if d.kind == raw {
		return closeMessage(appendBytes(dst, 1, d.raw), start), nil
	}
	dst, inner := openMessage(dst, 2)
	if b, ok := d.encoded.wire(); ok {
		return closeMessage(closeMessage(append(dst, b...), inner), start), nil
	}
	dst, err := appendStruct(dst, d.object(), 0)
	return closeMessage(closeMessage(dst, inner), start), err
}

// appendStruct appends the content of a google.protobuf.Struct.
func appendStruct(dst []byte, m map[string]any, depth int) ([]byte, error) {
	var small [smallObject]member
	for _, e := range sortMembers(small[:0], m) {
		var entry, value int
		dst, entry = openMessage(dst, 1)
		dst = appendBytes(dst, 1, ValidName(e.key))
		dst, value = openMessage(dst, 2)
		var err error
		if dst, err = appendWireValue(dst, e.value, depth+1); err != nil {
			return dst, within(e.key, err)
		}
		dst = closeMessage(closeMessage(dst, value), entry)
	}
	return dst, nil
}

// appendWireValue appends the content of a google.protobuf.Value.
func appendWireValue(dst []byte, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return dst, errTooDeep
	}
	switch v := v.(type) {
	case nil:
		return append(dst, 1<<3|typeVarint, 0), nil
	case string:
		if !utf8.ValidString(v) {
			return appendBytes(dst, 3, base64.StdEncoding.EncodeToString([]byte(v))), nil
		}
		return appendBytes(dst, 3, v), nil
	case bool:
		b := byte(0)
		if v {
			b = 1
		}
		return append(dst, 4<<3|typeVarint, b), nil
	case float64:
		return appendNumber(dst, v), nil
	case float32:
		return appendNumber(dst, float64(v)), nil
	case map[string]any:
		dst, start := openMessage(dst, 5)
		dst, err := appendStruct(dst, v, depth)
		return closeMessage(dst, start), err
	case []any:
		return appendWireList(dst, v, depth)
	case []byte:
		return appendBytes(dst, 3, base64.StdEncoding.EncodeToString(v)), nil
	case json.Number:
		if f, exact := ExactFloat(string(v)); exact {
			return appendNumber(dst, f), nil
		}
		return appendNumberText(dst, string(v)), nil
	case time.Time:
		return appendBytes(dst, 3, AppendTime(nil, v)), nil
	}
	if n, ok := asInt(v); ok {
		if !isExactInteger(n) {
			var scratch [20]byte
			return appendMarked(dst, strconv.AppendInt(scratch[:0], n, 10)), nil
		}
		return appendNumber(dst, float64(n)), nil
	}
	if n, ok := asUint(v); ok {
		if n > maxExactInteger {
			return appendNumberText(dst, strconv.FormatUint(n, 10)), nil
		}
		return appendNumber(dst, float64(n)), nil
	}
	return appendOther(dst, v, depth)
}

func appendWireList(dst []byte, list []any, depth int) ([]byte, error) {
	dst, start := openMessage(dst, 6)
	for i, v := range list {
		var value int
		dst, value = openMessage(dst, 1)
		var err error
		if dst, err = appendWireValue(dst, v, depth+1); err != nil {
			return dst, within(fmt.Sprintf("[%d]", i), err)
		}
		dst = closeMessage(dst, value)
	}
	return closeMessage(dst, start), nil
}

// appendOther appends a value of an unusual type through its JSON form.
func appendOther(dst []byte, v any, depth int) ([]byte, error) {
	text, err := AppendValue(nil, v)
	if err != nil {
		return dst, err
	}
	var plain any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&plain); err != nil {
		return dst, err
	}
	return appendWireValue(dst, plain, depth)
}

func appendNumber(dst []byte, f float64) []byte {
	dst = append(dst, 2<<3|typeFixed64)
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
}

// numberMark is a field that google.protobuf.Value does not have. It marks the text of a value as a number that a
// double would change. A reader that does not know the field gets the text, which has all digits.
const numberMark = 15

// appendNumberText appends a number that a double would change, as its text with numberMark. Text that is not a JSON
// number stays text.
func appendNumberText(dst []byte, text string) []byte {
	if !IsNumber(text) {
		return appendBytes(dst, 3, ValidName(text))
	}
	return appendMarked(dst, text)
}

func appendMarked[T string | []byte](dst []byte, number T) []byte {
	return append(appendBytes(dst, 3, number), numberMark<<3|typeVarint, 1)
}

func appendBytes[T string | []byte | Position](dst []byte, num byte, b T) []byte {
	dst = append(dst, num<<3|typeBytes)
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// openMessage begins the embedded message num. It reserves one byte for the length. closeMessage makes space if that is
// not enough, which is rarer and cheaper than computing the length of every message beforehand.
func openMessage(dst []byte, num byte) (_ []byte, start int) {
	dst = append(dst, num<<3|typeBytes, 0)
	return dst, len(dst)
}

// closeMessage ends the embedded message whose content begins at start.
func closeMessage(dst []byte, start int) []byte {
	n := len(dst) - start
	if extra := uvarintSize(n) - 1; extra > 0 {
		var extension [binary.MaxVarintLen64]byte
		dst = append(dst, extension[:extra]...)
		copy(dst[start+extra:], dst[start:start+n])
	}
	binary.PutUvarint(dst[start-1:], uint64(n))
	return dst
}
