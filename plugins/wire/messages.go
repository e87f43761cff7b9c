package wire

import (
	"fmt"

	"github.com/conduit-agent/conduit/plugins/record"
	"google.golang.org/protobuf/encoding/protowire"
)

// AppendPositions appends the message with which a host acknowledges records to a source.
func AppendPositions(dst []byte, positions []record.Position) []byte {
	for _, p := range positions {
		dst = protowire.AppendTag(dst, 1, protowire.BytesType)
		dst = protowire.AppendBytes(dst, p)
	}
	return dst
}

// ParsePositions parses the output of AppendPositions.
func ParsePositions(b []byte) ([]record.Position, error) {
	var positions []record.Position
	err := eachBytes(b, func(num protowire.Number, v []byte) error {
		if num == 1 {
			positions = append(positions, v)
		}
		return nil
	})
	return positions, err
}

// Ack is a destination's answer to one record.
type Ack struct {
	Position record.Position
	Error    string // reason for a refusal; empty: written
}

// AppendAck appends one Ack to the response message of a destination.
func AppendAck(dst []byte, a Ack) []byte {
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	n := protowire.SizeTag(1) + protowire.SizeBytes(len(a.Position))
	if a.Error != "" {
		n += protowire.SizeTag(2) + protowire.SizeBytes(len(a.Error))
	}
	dst = protowire.AppendVarint(dst, uint64(n))
	return appendAckBody(dst, a)
}

func appendAckBody(dst []byte, a Ack) []byte {
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	dst = protowire.AppendBytes(dst, a.Position)
	if a.Error != "" {
		dst = protowire.AppendTag(dst, 2, protowire.BytesType)
		dst = protowire.AppendString(dst, a.Error)
	}
	return dst
}

// ParseAcks parses the first max Acks of a message. In version 1 a message has a single Ack, which is not nested.
func ParseAcks(b []byte, version, max int) ([]Ack, error) {
	if version == Version1 {
		a, err := parseAck(b)
		return []Ack{a}, err
	}
	var acks []Ack
	err := eachBytes(b, func(num protowire.Number, v []byte) error {
		if num != 1 || len(acks) == max {
			return nil
		}
		a, err := parseAck(v)
		acks = append(acks, a)
		return err
	})
	return acks, err
}

func parseAck(b []byte) (a Ack, err error) {
	err = eachBytes(b, func(num protowire.Number, v []byte) error {
		switch num {
		case 1:
			a.Position = v
		case 2:
			a.Error = string(v)
		}
		return nil
	})
	return a, err
}

// eachBytes calls do with every length-delimited field of the message.
func eachBytes(b []byte, do func(num protowire.Number, v []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("cannot read message: %w", protowire.ParseError(n))
		}
		b = b[n:]
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return fmt.Errorf("cannot read message: %w", protowire.ParseError(n))
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return fmt.Errorf("cannot read message: %w", protowire.ParseError(n))
		}
		if err := do(num, v); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
