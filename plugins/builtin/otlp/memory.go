package otlp

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A few bytes can announce a large message: an empty log record takes two bytes of a request, and more than two hundred
// in memory. The functions below estimate the memory of a decoded request before it is decoded.
const (
	messageMemory = 256 // of a message without its texts
	numberMemory  = 16  // of an element of a list of numbers
	maxNesting    = 400 // messages or JSON values around each other: maxDepth values, each of three messages
)

var errNesting = errors.New("its messages are nested too deeply")

// protobufMemory estimates the memory of a message in bytes.
func protobufMemory(b []byte, descriptor protoreflect.MessageDescriptor, depth int) (memory int, err error) {
	if depth > maxNesting {
		return 0, errNesting
	}
	memory = messageMemory
	fields := descriptor.Fields()
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0, protowire.ParseError(n)
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return 0, protowire.ParseError(n)
			}
			memory += numberMemory
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return 0, protowire.ParseError(n)
		}
		b = b[n:]
		field := fields.ByNumber(number)
		switch {
		case field == nil:
			memory += len(value)
		case field.Message() != nil:
			inner, err := protobufMemory(value, field.Message(), depth+1)
			if err != nil {
				return 0, err
			}
			memory += inner
		case field.IsPacked():
			memory += len(value) * numberMemory
		default:
			memory += len(value) + numberMemory
		}
	}
	return memory, nil
}

// jsonMemory estimates the memory of a message in JSON. It checks nothing but the nesting.
func jsonMemory(b []byte) (memory int, err error) {
	memory = len(b)
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth > 2*maxNesting {
				return 0, errNesting
			}
			memory += messageMemory
		case ',':
			memory += numberMemory
		case '}', ']':
			depth--
		}
	}
	return memory, nil
}
