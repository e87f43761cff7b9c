package schema

import "fmt"

// Codec encodes and decodes objects with one Avro schema, as plain Avro binary without a header. It is safe for
// concurrent use.
type Codec struct {
	root *avroType
	text int // bytes of the schema
}

func (c *Codec) size() int { return c.text }

// Parse returns the codec of an Avro schema in JSON. The schema must describe an object, so it is a record or a map.
// Any other text causes an ErrInvalidSchema.
func Parse(text string) (*Codec, error) {
	t, err := parseType(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidSchema, err)
	}
	if t.kind != avroRecord && t.kind != avroMap {
		return nil, fmt.Errorf("%w: the type is %s, but a record or a map is required", ErrInvalidSchema, t.name)
	}
	return &Codec{root: t, text: len(text)}, nil
}

// Append appends the encoded object to dst. It fails if m lacks a required field, or has fields that are not in the
// schema: no field is silently omitted. A missing field is encoded as its default, or as null if the schema permits it.
// Times lose the precision below the unit of the schema.
func (c *Codec) Append(dst []byte, m map[string]any) ([]byte, error) {
	e := encoder{work: maxEncoding, defaults: maxDefaults}
	out, err := e.value(dst, c.root, m, 0)
	if err != nil {
		return dst, fmt.Errorf("cannot encode with the schema: %w", err)
	}
	return out, nil
}

// Decode returns the object encoded in data. It returns integers as int64, floats as float32, doubles as float64,
// timestamps and dates as time.Time in UTC, times of day as time.Duration, enums as string, decimals as text with all
// digits of their scale, such as 1234.50, a uuid as its text, and a duration in ISO 8601, such as P1M2DT3.004S. Text
// with the logical type json is decoded from JSON.
func (c *Codec) Decode(data []byte) (map[string]any, error) {
	m, _, err := c.DecodeWithin(data, maxDecoded)
	return m, err
}

// DecodeWithin is Decode with a memory limit for the object in bytes. It also returns the memory of the object.
func (c *Codec) DecodeWithin(data []byte, limit int) (m map[string]any, memory int, err error) {
	d := newDecoder(data, c.root, limit)
	v, err := d.value(c.root, 0)
	if err == nil && len(d.data) > 0 {
		err = fmt.Errorf("%d bytes follow the value", len(d.data))
	}
	if err != nil {
		return nil, 0, fmt.Errorf("cannot decode with the schema: %w", err)
	}
	return v.(map[string]any), d.limit - d.memory, nil
}
