package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

var errShort = errors.New("unexpected end of data")

// decoder reads values from the front of data. It copies data and keeps no reference to it.
type decoder struct {
	data   []byte
	steps  int // number of values that may follow
	memory int // remaining bytes of memory for values
	limit  int // initial value of memory
}

// newDecoder returns a decoder whose values take at most limit bytes of memory.
func newDecoder(data []byte, root *avroType, limit int) *decoder {
	return &decoder{data: data, steps: freeValues + len(root.fields) + valuesPerByte*len(data),
		memory: min(limit, maxDecoded), limit: min(limit, maxDecoded)}
}

// spend subtracts n bytes from the remaining memory for values.
func (d *decoder) spend(n int) error {
	if d.memory -= n; d.memory < 0 {
		return fmt.Errorf("%w: more than %d KiB after decoding", errTooGreat, d.limit>>10)
	}
	return nil
}

func (d *decoder) value(t *avroType, depth int) (any, error) {
	if d.steps--; d.steps < 0 {
		return nil, errTooMany
	}
	if err := d.spend(valueMemory); err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, errTooDeep
	}
	switch t.kind {
	case avroNull:
		return nil, nil
	case avroUnion:
		i, err := d.index(len(t.branches))
		if err != nil {
			return nil, err
		}
		return d.value(t.branches[i], depth+1)
	case avroRecord:
		return d.record(t, depth)
	case avroMap:
		return d.object(t, depth)
	case avroArray:
		return d.array(t, depth)
	case avroEnum:
		i, err := d.index(len(t.symbols))
		if err != nil {
			return nil, err
		}
		return t.symbols[i], nil
	case avroFixed:
		b, err := d.take(int64(t.size))
		if err != nil {
			return nil, err
		}
		return bytesValue(t, b)
	}
	return d.primitive(t)
}

func (d *decoder) record(t *avroType, depth int) (any, error) {
	if err := d.spend(objectMemory + memberMemory*len(t.fields)); err != nil {
		return nil, err
	}
	m := make(map[string]any, min(len(t.fields), len(d.data)+8))
	for i := range t.fields {
		f := &t.fields[i]
		v, err := d.value(f.typ, depth+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		m[f.name] = v
	}
	return m, nil
}

func (d *decoder) object(t *avroType, depth int) (any, error) {
	m := map[string]any{}
	err := d.blocks(func() error {
		k, err := d.bytes()
		if err == nil {
			err = d.spend(memberMemory + len(k))
		}
		if err != nil {
			return err
		}
		m[string(k)], err = d.value(t.items, depth+1)
		return err
	})
	return m, err
}

func (d *decoder) array(t *avroType, depth int) (any, error) {
	a := []any{}
	err := d.blocks(func() error {
		v, err := d.value(t.items, depth+1)
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

func (d *decoder) primitive(t *avroType) (any, error) {
	switch t.kind {
	case avroBoolean:
		b, err := d.take(1)
		if err == nil && b[0] > 1 {
			err = fmt.Errorf("%d is not a boolean", b[0])
		}
		return err == nil && b[0] == 1, err
	case avroInt, avroLong:
		n, err := d.long()
		if err == nil && t.kind == avroInt && n != int64(int32(n)) {
			err = errRange
		}
		return integerValue(t, n), err
	case avroFloat:
		b, err := d.take(4)
		if err != nil {
			return nil, err
		}
		return math.Float32frombits(binary.LittleEndian.Uint32(b)), nil
	case avroDouble:
		b, err := d.take(8)
		if err != nil {
			return nil, err
		}
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
	case avroString:
		b, err := d.bytes()
		if err == nil {
			err = d.spend(len(b))
		}
		if err == nil && t.logical == logicalJSON {
			return d.json(b)
		}
		return string(b), err
	case avroBytes:
		b, err := d.bytes()
		if err == nil {
			err = d.spend(len(b))
		}
		if err != nil {
			return nil, err
		}
		return bytesValue(t, b)
	}
	return nil, nil
}

func bytesValue(t *avroType, b []byte) (any, error) {
	switch t.logical {
	case logicalDecimal:
		return decimalText(t, b)
	case logicalUUID:
		return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
	case logicalDuration:
		return durationText(b), nil
	}
	return append([]byte{}, b...), nil
}

func integerValue(t *avroType, n int64) any {
	switch t.logical {
	case logicalTimestampMicros, logicalLocalTimestampMicros:
		return time.UnixMicro(n).UTC()
	case logicalTimestampMillis, logicalLocalTimestampMillis:
		return time.UnixMilli(n).UTC()
	case logicalTimestampNanos, logicalLocalTimestampNanos:
		return time.Unix(0, n).UTC()
	case logicalDate:
		return time.Unix(n*86400, 0).UTC()
	case logicalTimeMicros:
		return time.Duration(n) * time.Microsecond
	case logicalTimeMillis:
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
		err = fmt.Errorf("the union has no branch %d", i)
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
