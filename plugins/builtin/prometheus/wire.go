package prometheus

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// A request of remote write 1.0 is the message prometheus.WriteRequest, one of 2.0 io.prometheus.write.v2.Request. They
// have few fields, which the functions of this package encode and decode without generated code.
const (
	// Fields of both requests, and of MetricMetadata in 1.0.
	v1Series       protowire.Number = 1
	v1Metadata     protowire.Number = 3
	v2Symbols      protowire.Number = 4
	v2Series       protowire.Number = 5
	v1MetadataType protowire.Number = 1
	v1MetadataName protowire.Number = 2
	v1MetadataHelp protowire.Number = 4
	v1MetadataUnit protowire.Number = 5

	// Fields of TimeSeries. Labels are messages in 1.0, and numbers of symbols in 2.0.
	seriesLabels      protowire.Number = 1
	seriesSamples     protowire.Number = 2
	v1SeriesExemplars protowire.Number = 3
	v1SeriesHistogram protowire.Number = 4
	v2SeriesHistogram protowire.Number = 3
	v2SeriesExemplars protowire.Number = 4
	v2SeriesMetadata  protowire.Number = 5
	v2SeriesCreated   protowire.Number = 6 // before 2.0-rc.4

	// Fields of Label in 1.0.
	labelName  protowire.Number = 1
	labelValue protowire.Number = 2

	// Fields of Sample, Exemplar, and Metadata in 2.0.
	sampleValue    protowire.Number = 1
	sampleTime     protowire.Number = 2
	sampleStart    protowire.Number = 3
	exemplarLabels protowire.Number = 1
	exemplarValue  protowire.Number = 2
	exemplarTime   protowire.Number = 3
	v2MetadataType protowire.Number = 1
	v2MetadataHelp protowire.Number = 3
	v2MetadataUnit protowire.Number = 4
)

// field is a field of a message: a number or bytes, which depends on its type.
type field struct {
	number protowire.Number
	kind   protowire.Type
	n      uint64
	bytes  []byte
}

// wants returns an error if the field has another type.
func (f *field) wants(kind protowire.Type) error {
	if f.kind != kind {
		return fmt.Errorf("the field %d has the wrong type", f.number)
	}
	return nil
}

// next returns the first field of a message and the rest.
func next(b []byte) (f field, rest []byte, err error) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return f, nil, protowire.ParseError(n)
	}
	f.number, f.kind, b = number, kind, b[n:]
	switch kind {
	case protowire.VarintType:
		f.n, n = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		f.n, n = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(number, kind, b)
	}
	if n < 0 {
		return f, nil, protowire.ParseError(n)
	}
	return f, b[n:], nil
}

// eachField calls do for the fields of a message.
func eachField(b []byte, do func(f *field) error) error {
	for len(b) > 0 {
		f, rest, err := next(b)
		if err != nil {
			return err
		}
		if err := do(&f); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

func appendBytes[T []byte | string](dst []byte, number protowire.Number, b T) []byte {
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	return append(protowire.AppendVarint(dst, uint64(len(b))), b...)
}

func appendVarint(dst []byte, number protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), n)
}

func appendDouble(dst []byte, number protowire.Number, bits uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(dst, number, protowire.Fixed64Type), bits)
}

// appendLabel appends a label of 1.0 as a field of another message.
func appendLabel(dst []byte, number protowire.Number, name, value string) []byte {
	size := protowire.SizeTag(labelName) + protowire.SizeBytes(len(name)) + protowire.SizeTag(labelValue) +
		protowire.SizeBytes(len(value))
	dst = protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.BytesType), uint64(size))
	return appendBytes(appendBytes(dst, labelName, name), labelValue, value)
}

// label decodes a label of 1.0.
func label(b []byte) (name, value []byte, err error) {
	err = eachField(b, func(f *field) error {
		switch f.number {
		case labelName:
			name = f.bytes
			return f.wants(protowire.BytesType)
		case labelValue:
			value = f.bytes
			return f.wants(protowire.BytesType)
		}
		return nil
	})
	return name, value, err
}

// packed calls do for the elements of a repeated field of numbers, which may be packed into bytes.
func (f *field) packed(element protowire.Type, do func(n uint64) error) error {
	if f.kind == element {
		return do(f.n)
	}
	if err := f.wants(protowire.BytesType); err != nil {
		return err
	}
	for b := f.bytes; len(b) > 0; {
		var n uint64
		var size int
		if element == protowire.Fixed64Type {
			n, size = protowire.ConsumeFixed64(b)
		} else {
			n, size = protowire.ConsumeVarint(b)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		if err := do(n); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// nanoseconds returns a time in milliseconds as Unix nanoseconds, and whether 64 bits suffice.
func nanoseconds(ms int64) (int64, bool) {
	const perMilli int64 = 1e6
	return ms * perMilli, ms >= math.MinInt64/perMilli && ms <= math.MaxInt64/perMilli
}
