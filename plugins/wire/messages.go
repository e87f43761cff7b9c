package wire

import (
	"fmt"

	"github.com/conduit-agent/conduit/plugins/record"
	"google.golang.org/protobuf/encoding/protowire"
)

// appendPositions appends the message by which a host acknowledges records to a source.
func appendPositions(dst []byte, positions []record.Position) []byte {
	for _, p := range positions {
		dst = protowire.AppendTag(dst, 1, protowire.BytesType)
		dst = protowire.AppendBytes(dst, p)
	}
	return dst
}

// parsePositions reads what appendPositions writes.
func parsePositions(b []byte) ([]record.Position, error) {
	var positions []record.Position
	err := eachBytes(b, func(num protowire.Number, v []byte) error {
		if num == 1 {
			positions = append(positions, v)
		}
		return nil
	})
	return positions, err
}

// ack is a destination's answer to one record; an empty err means that it was written.
type ack struct {
	position record.Position
	err      string
}

// appendAck appends one ack to the message by which a destination answers.
func appendAck(dst []byte, a ack) []byte {
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	n := protowire.SizeTag(1) + protowire.SizeBytes(len(a.position))
	if a.err != "" {
		n += protowire.SizeTag(2) + protowire.SizeBytes(len(a.err))
	}
	dst = protowire.AppendVarint(dst, uint64(n))
	return appendAckBody(dst, a)
}

func appendAckBody(dst []byte, a ack) []byte {
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	dst = protowire.AppendBytes(dst, a.position)
	if a.err != "" {
		dst = protowire.AppendTag(dst, 2, protowire.BytesType)
		dst = protowire.AppendString(dst, a.err)
	}
	return dst
}

// parseAcks reads the acks of one message; in version 1 there is one, not nested.
func parseAcks(b []byte, version int) ([]ack, error) {
	if version == version1 {
		a, err := parseAck(b)
		return []ack{a}, err
	}
	var acks []ack
	err := eachBytes(b, func(num protowire.Number, v []byte) error {
		if num != 1 {
			return nil
		}
		a, err := parseAck(v)
		acks = append(acks, a)
		return err
	})
	return acks, err
}

func parseAck(b []byte) (a ack, err error) {
	err = eachBytes(b, func(num protowire.Number, v []byte) error {
		switch num {
		case 1:
			a.position = v
		case 2:
			a.err = string(v)
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
