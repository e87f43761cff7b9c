package prometheus

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// form is the type of a field of a native histogram.
type form int

const (
	unsigned form = iota
	double
	signed
	hint
	spans
	signeds
	doubles
)

// Fields of Histogram that are not members of the object.
const (
	histogramTime  protowire.Number = 15
	histogramStart protowire.Number = 17
)

type histogramField struct {
	number protowire.Number
	name   string
	form   form
}

// histogramFields are the other fields, as members of the object. The integers and the floats of a count are different
// members, because JSON does not distinguish 1 and 1.0.
var histogramFields = []histogramField{
	{1, "count", unsigned}, {2, "countFloat", double}, {3, "sum", double}, {4, "schema", signed},
	{5, "zeroThreshold", double}, {6, "zeroCount", unsigned}, {7, "zeroCountFloat", double},
	{8, "negativeSpans", spans}, {9, "negativeDeltas", signeds}, {10, "negativeCounts", doubles},
	{11, "positiveSpans", spans}, {12, "positiveDeltas", signeds}, {13, "positiveCounts", doubles},
	{14, "resetHint", hint}, {16, "customValues", doubles},
}

var resetHints = [...]string{"unknown", "yes", "no", "gauge"}

// maxHistogram is the maximum size of an encoded histogram in bytes. Its lists take many times as much in memory.
const maxHistogram = 64 << 10

// decodeHistogram returns a native histogram as an object, with the members that the message has, and its times in
// milliseconds.
func decodeHistogram(b []byte) (o map[string]any, at, start int64, err error) {
	if len(b) > maxHistogram {
		return nil, 0, 0, fmt.Errorf("its histogram has %d bytes, more than %d", len(b), maxHistogram)
	}
	o = map[string]any{}
	err = eachField(b, func(f *field) error {
		switch f.number {
		case histogramTime:
			at = int64(f.n)
			return f.wants(protowire.VarintType)
		case histogramStart:
			start = int64(f.n)
			return f.wants(protowire.VarintType)
		}
		for _, one := range histogramFields {
			if one.number == f.number {
				return f.member(o, one.name, one.form)
			}
		}
		return nil
	})
	return o, at, start, err
}

// member adds the field to an object.
func (f *field) member(o map[string]any, name string, as form) error {
	list := func(element protowire.Type, value func(n uint64) any) error {
		all, _ := o[name].([]any)
		err := f.packed(element, func(n uint64) error { all = append(all, value(n)); return nil })
		o[name] = all
		return err
	}
	switch as {
	case double:
		o[name] = valueOf(f.n)
		return f.wants(protowire.Fixed64Type)
	case unsigned:
		o[name] = unsignedValue(f.n)
	case signed:
		o[name] = protowire.DecodeZigZag(f.n)
	case hint:
		if o[name] = int64(f.n); f.n < uint64(len(resetHints)) {
			o[name] = resetHints[f.n]
		}
	case signeds:
		return list(protowire.VarintType, func(n uint64) any { return protowire.DecodeZigZag(n) })
	case doubles:
		return list(protowire.Fixed64Type, valueOf)
	case spans:
		if err := f.wants(protowire.BytesType); err != nil {
			return err
		}
		offset, length := int64(0), int64(0)
		err := eachField(f.bytes, func(f *field) error {
			switch f.number {
			case 1:
				offset = protowire.DecodeZigZag(f.n)
			case 2:
				length = int64(f.n)
			}
			return nil
		})
		all, _ := o[name].([]any)
		o[name] = append(all, map[string]any{"offset": offset, "length": length})
		return err
	}
	return f.wants(protowire.VarintType)
}

// appendHistogram is the inverse of decodeHistogram. A start of 0 is omitted.
func appendHistogram(dst []byte, o map[string]any, at, start int64) (_ []byte, err error) {
	known := 0
	for _, one := range histogramFields {
		v, ok := o[one.name]
		if !ok {
			continue
		}
		known++
		if dst, err = appendMember(dst, one.number, one.form, v); err != nil {
			return dst, fmt.Errorf("the member %s is wrong: %w", one.name, err)
		}
	}
	if known < len(o) {
		for name := range o {
			if !slices.ContainsFunc(histogramFields, func(f histogramField) bool { return f.name == name }) {
				return dst, fmt.Errorf("the member %.64q is unknown", name)
			}
		}
	}
	dst = appendVarint(dst, histogramTime, uint64(at))
	if start != 0 {
		dst = appendVarint(dst, histogramStart, uint64(start))
	}
	return dst, nil
}

func appendMember(dst []byte, number protowire.Number, as form, v any) ([]byte, error) {
	switch as {
	case double:
		bits, err := bitsOf(v)
		return appendDouble(dst, number, bits), err
	case unsigned:
		n, err := unsignedOf(v)
		return appendVarint(dst, number, n), err
	case signed:
		n, err := wholeOf(v)
		return appendVarint(dst, number, protowire.EncodeZigZag(n)), err
	case hint:
		text, _ := v.(string)
		n := int64(slices.Index(resetHints[:], text))
		var err error
		if n < 0 {
			n, err = wholeOf(v)
		}
		return appendVarint(dst, number, uint64(n)), err
	}
	list, ok := v.([]any)
	if !ok {
		return dst, errors.New("it is no list")
	}
	var inner []byte
	for _, one := range list {
		switch as {
		case doubles:
			bits, err := bitsOf(one)
			if err != nil {
				return dst, err
			}
			inner = protowire.AppendFixed64(inner, bits)
		case signeds:
			n, err := wholeOf(one)
			if err != nil {
				return dst, err
			}
			inner = protowire.AppendVarint(inner, protowire.EncodeZigZag(n))
		case spans:
			span, _ := one.(map[string]any)
			offset, err := wholeOf(span["offset"])
			if err != nil {
				return dst, fmt.Errorf("the offset of a span is wrong: %w", err)
			}
			length, err := unsignedOf(span["length"])
			if err != nil {
				return dst, fmt.Errorf("the length of a span is wrong: %w", err)
			}
			dst = appendBytes(dst, number, appendVarint(appendVarint(nil, 1, protowire.EncodeZigZag(offset)), 2, length))
		}
	}
	if as == spans {
		return dst, nil
	}
	return appendBytes(dst, number, inner), nil
}
