package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hamba/avro/v2"
)

// maxSteps bounds the values that a few bytes can stand for: nulls take no bytes at all.
const maxSteps = 1 << 16

var errShort = errors.New("the data ends too early")

// decoder reads values off the front of data, which it copies and never keeps.
type decoder struct {
	data  []byte
	steps int // values that may still come
}

func (d *decoder) value(s avro.Schema, depth int) (any, error) {
	if d.steps--; d.steps < 0 {
		return nil, errors.New("more values than the data can stand for")
	}
	if depth > maxDepth {
		return nil, errTooDeep
	}
	switch s := deref(s).(type) {
	case *avro.UnionSchema:
		i, err := d.index(len(s.Types()))
		if err != nil {
			return nil, err
		}
		return d.value(s.Types()[i], depth+1)
	case *avro.RecordSchema:
		return d.record(s, depth)
	case *avro.MapSchema:
		return d.object(s, depth)
	case *avro.ArraySchema:
		return d.array(s, depth)
	case *avro.EnumSchema:
		i, err := d.index(len(s.Symbols()))
		if err != nil {
			return nil, err
		}
		return s.Symbols()[i], nil
	case *avro.FixedSchema:
		b, err := d.take(int64(s.Size()))
		return bytesValue(s, b), err
	case *avro.PrimitiveSchema:
		return d.primitive(s)
	}
	return nil, nil // null
}

func (d *decoder) record(s *avro.RecordSchema, depth int) (any, error) {
	m := make(map[string]any, min(len(s.Fields()), len(d.data)+8))
	for _, f := range s.Fields() {
		v, err := d.value(f.Type(), depth+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		m[f.Name()] = v
	}
	return m, nil
}

func (d *decoder) object(s *avro.MapSchema, depth int) (any, error) {
	m := map[string]any{}
	err := d.blocks(func() error {
		k, err := d.bytes()
		if err != nil {
			return err
		}
		m[string(k)], err = d.value(s.Values(), depth+1)
		return err
	})
	return m, err
}

func (d *decoder) array(s *avro.ArraySchema, depth int) (any, error) {
	a := []any{}
	err := d.blocks(func() error {
		v, err := d.value(s.Items(), depth+1)
		a = append(a, v)
		return err
	})
	return a, err
}

// blocks calls item for every item of an array or a map.
func (d *decoder) blocks(item func() error) error {
	for {
		n, err := d.long()
		if err != nil || n == 0 {
			return err
		}
		if n < 0 { // the size of the block in bytes follows
			n = -n
			if _, err := d.long(); err != nil {
				return err
			}
		}
		if n < 0 {
			return errRange
		}
		for ; n > 0; n-- {
			if err := item(); err != nil {
				return err
			}
		}
	}
}

func (d *decoder) primitive(s *avro.PrimitiveSchema) (any, error) {
	switch s.Type() {
	case avro.Boolean:
		b, err := d.take(1)
		if err == nil && b[0] > 1 {
			err = fmt.Errorf("%d is no boolean", b[0])
		}
		return err == nil && b[0] == 1, err
	case avro.Int, avro.Long:
		n, err := d.long()
		if err == nil && s.Type() == avro.Int && n != int64(int32(n)) {
			err = errRange
		}
		return integerValue(s, n), err
	case avro.Float:
		b, err := d.take(4)
		if err != nil {
			return nil, err
		}
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), nil
	case avro.Double:
		b, err := d.take(8)
		if err != nil {
			return nil, err
		}
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
	case avro.String:
		b, err := d.bytes()
		return string(b), err
	case avro.Bytes:
		b, err := d.bytes()
		return bytesValue(s, b), err
	}
	return nil, nil
}

func bytesValue(s avro.Schema, b []byte) any {
	if dec, ok := decimalOf(s); ok {
		return decimalText(dec, b)
	}
	return append([]byte{}, b...)
}

func integerValue(s avro.Schema, n int64) any {
	switch logical(s) {
	case avro.TimestampMicros, avro.LocalTimestampMicros:
		return time.UnixMicro(n).UTC()
	case avro.TimestampMillis, avro.LocalTimestampMillis:
		return time.UnixMilli(n).UTC()
	case avro.Date:
		return time.Unix(n*86400, 0).UTC()
	case avro.TimeMicros:
		return time.Duration(n) * time.Microsecond
	case avro.TimeMillis:
		return time.Duration(n) * time.Millisecond
	}
	return n
}

func (d *decoder) long() (int64, error) {
	n, size := binary.Varint(d.data)
	if size <= 0 {
		if size == 0 {
			return 0, errShort
		}
		return 0, errRange
	}
	d.data = d.data[size:]
	return n, nil
}

func (d *decoder) index(n int) (int, error) {
	i, err := d.long()
	if err == nil && (i < 0 || i >= int64(n)) {
		err = fmt.Errorf("there is no branch %d", i)
	}
	return int(i), err
}

func (d *decoder) bytes() ([]byte, error) {
	n, err := d.long()
	if err != nil {
		return nil, err
	}
	return d.take(n)
}

func (d *decoder) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(d.data)) {
		return nil, errShort
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b, nil
}
