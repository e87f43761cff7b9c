package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The parts of the WebSocket protocol (RFC 6455) that a session needs. Messages of a server are not masked, so a
// message is the same for all clients and is framed once.
const (
	opText  = 0x1
	opClose = 0x8
	opPing  = 0x9
	opPong  = 0xA

	finBit  = 0x80
	maskBit = 0x80

	maxControl = 125 // maximum payload of a control frame in bytes
	headroom   = 10  // maximum size of a message header in bytes
	maskSize   = 4
)

// Reasons for closing a session.
const (
	statusNormal    = 1000
	statusGoingAway = 1001
	statusProtocol  = 1002
	statusPolicy    = 1008
)

// message is a text in the form for clients: a WebSocket message, or a line.
type message struct {
	buffer []byte // the header at the end of the headroom, the text, a newline
	start  int    // of the header
}

// newText returns a buffer with text for a message, to which more text can be appended.
func newText(text string) []byte { return append(make([]byte, headroom, 512), text...) }

// newMessage returns a message with the text in the buffer.
func newMessage(buffer []byte) message {
	size := len(buffer) - headroom
	start := headroom - 2
	switch {
	case size <= maxControl:
		buffer[start+1] = byte(size)
	case size < 1<<16:
		start = headroom - 4
		buffer[start+1] = 126
		binary.BigEndian.PutUint16(buffer[start+2:], uint16(size))
	default:
		start = 0
		buffer[start+1] = 127
		binary.BigEndian.PutUint64(buffer[start+2:], uint64(size))
	}
	buffer[start] = finBit | opText
	return message{append(buffer, '\n'), start}
}

func (m *message) socket() []byte { return m.buffer[m.start : len(m.buffer)-1] }

func (m *message) line() []byte { return m.buffer[headroom:] }

// control returns a control frame.
func control(op byte, payload []byte) []byte {
	return append([]byte{finBit | op, byte(len(payload))}, payload...)
}

// closing returns the frame that ends a session.
func closing(status uint16, reason string) []byte {
	return control(opClose, append(binary.BigEndian.AppendUint16(nil, status), reason...))
}

// closeError closes a session with the status.
type closeError struct {
	status uint16
	reason string
}

// Error returns the reason for closing the session.
func (e *closeError) Error() string { return fmt.Sprintf("closed with %d: %s", e.status, e.reason) }

// errIncomplete means that the rest of a frame has yet to arrive.
var errIncomplete = errors.New("incomplete frame")

// nextFrame returns the first frame in the input of a client, unmasked, and the rest of the input. Clients send no
// data, so only control frames are allowed.
func nextFrame(in []byte) (op byte, payload, rest []byte, err error) {
	if len(in) < 2 {
		return 0, nil, in, errIncomplete
	}
	op, size := in[0]&0x0f, int(in[1]&^maskBit)
	switch {
	case in[0]&0x70 != 0, in[1]&maskBit == 0, op > opText+1 && op < opClose, op > opPong:
		return 0, nil, nil, &closeError{statusProtocol, "a frame that the protocol does not allow"}
	case op < opClose:
		return 0, nil, nil, &closeError{statusPolicy, "unexpected data message"}
	case in[0]&finBit == 0, size > maxControl:
		return 0, nil, nil, &closeError{statusProtocol, "a control frame that is too long"}
	case len(in) < 2+maskSize+size:
		return 0, nil, in, errIncomplete
	}
	mask, payload := in[2:2+maskSize], in[2+maskSize:2+maskSize+size]
	for i := range payload {
		payload[i] ^= mask[i%maskSize]
	}
	return op, payload, in[2+maskSize+size:], nil
}
