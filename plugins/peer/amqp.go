package peer

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// Limits of the frames of an AMQP server, in addition to MaxMessage.
const (
	// MaxAMQPFrame is the maximum size of a frame in bytes. A client must negotiate at most this size.
	MaxAMQPFrame = 128 << 10
	maxAMQPBody  = 512 << 20 // of a message; the server's own upper limit
)

// Parts of the protocol, as numbered in https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf.
const (
	amqpMethod    = 1
	amqpHeader    = 2
	amqpBody      = 3
	amqpHeartbeat = 8
	amqpEnd       = 0xce

	amqpBasic   = 60 // class
	amqpDeliver = 60
	amqpAck     = 80
	amqpNack    = 120
)

// amqpHead is the number of bytes of a frame before its payload.
const amqpHead = 7

// AMQP checks the frames of an AMQP 0-9-1 server. The client queues all messages that arrive, and keeps all
// confirmations of messages that it has not published, so both need a permission.
type AMQP struct {
	head    []byte // head of the frame, and the beginning of its payload
	need    int    // length that head must reach
	left    int64  // remaining bytes of the payload
	credit  atomic.Int64
	confirm atomic.Uint64
}

// NewAMQP returns a checker of a connection, starting with its first frame.
func NewAMQP() *AMQP { return &AMQP{need: amqpHead} }

// Allow permits the server to send n more messages.
func (c *AMQP) Allow(n int) { c.credit.Add(int64(n)) }

// Published permits the server to confirm one more message.
func (c *AMQP) Published() { c.confirm.Add(1) }

func amqpError(format string, args ...any) error { return &Error{"AMQP", fmt.Sprintf(format, args...)} }

// Check implements Checker.
func (c *AMQP) Check(p []byte) error {
	for len(p) > 0 {
		switch {
		case len(c.head) < c.need:
			n := min(c.need-len(c.head), len(p))
			c.head, p = append(c.head, p[:n]...), p[n:]
			if err := c.begun(); err != nil {
				return err
			}
		case c.left > 0:
			n := min(c.left, int64(len(p)))
			p, c.left = p[n:], c.left-n
		default:
			if p[0] != amqpEnd {
				return amqpError("a frame is longer than announced")
			}
			c.head, c.need, p = c.head[:0], amqpHead, p[1:]
		}
	}
	return nil
}

// begun takes another part of the beginning of a frame.
func (c *AMQP) begun() error {
	const (
		alert     = 0x15 // record type of TLS
		handshake = 0x16
	)
	switch first := c.head[0]; {
	case first == alert || first == handshake:
		return amqpError("it speaks TLS: use a URL with amqps://")
	case first == 'A':
		return amqpError("it does not accept AMQP 0-9-1 at this port")
	case first != amqpMethod && first != amqpHeader && first != amqpBody && first != amqpHeartbeat:
		return amqpError("it does not speak AMQP: a frame has type %d", first)
	case len(c.head) < c.need:
		return nil
	case c.need > amqpHead:
		return c.content()
	}
	c.left = int64(binary.BigEndian.Uint32(c.head[3:]))
	if c.left > MaxAMQPFrame {
		return amqpError("it announces a frame of %d bytes, and at most %d are read", c.left, MaxAMQPFrame)
	}
	const most = 12 // class, method and number of a confirmation; class, weight and size of a message
	if c.head[0] == amqpMethod || c.head[0] == amqpHeader {
		n := min(c.left, most)
		c.need, c.left = amqpHead+int(n), c.left-n
	}
	return nil
}

// content checks the beginning of a method, or of the header of a message.
func (c *AMQP) content() error {
	payload := c.head[amqpHead:]
	if len(payload) < 4 {
		return amqpError("a frame is too short")
	}
	method := binary.BigEndian.Uint16(payload[2:])
	switch {
	case c.head[0] == amqpHeader && len(payload) < 12:
		return amqpError("a frame is too short")
	case c.head[0] == amqpHeader:
		size := binary.BigEndian.Uint64(payload[4:])
		if most := uint64(min(maxAMQPBody, MaxMessage())); size > most {
			return amqpError("it announces a message of %d bytes, and at most %d are read", size, most)
		}
	case binary.BigEndian.Uint16(payload) != amqpBasic:
	case method == amqpDeliver:
		if c.credit.Add(-1) < 0 {
			return amqpError("it sends more messages than the client has asked for")
		}
	case method == amqpAck || method == amqpNack:
		if len(payload) < 12 || binary.BigEndian.Uint64(payload[4:]) > c.confirm.Load() {
			return amqpError("it confirms a message that was not published")
		}
	}
	return nil
}
