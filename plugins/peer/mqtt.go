package peer

import "fmt"

// maxProperties is the maximum number of bytes of the properties of a message, and of a packet without one. A client
// takes more than 100 bytes for a property of 5.
const maxProperties = 1 << 20

// MQTT checks the packets of a server, as https://docs.oasis-open.org/mqtt/mqtt/v5.0/mqtt-v5.0.html has them.
type MQTT struct {
	head  []byte // of a packet or a field, begun and not complete
	left  int64  // bytes that remain of the packet
	field mqttField
	skip  int64 // bytes of the packet in front of the field
	id    int64 // bytes of the number of the message
}

// mqttField is the next field to check of a packet with a message.
type mqttField int

const (
	noField         mqttField = iota
	topicField                // the length of the topic
	propertiesField           // the length of the properties
)

func mqttError(format string, args ...any) error { return &Error{"MQTT", fmt.Sprintf(format, args...)} }

// Check implements Checker.
func (c *MQTT) Check(p []byte) error {
	for len(p) > 0 {
		var err error
		switch {
		case c.left == 0:
			c.head = append(c.head, p[0])
			p, err = p[1:], c.begin()
		case c.skip > 0 || c.field == noField:
			n := min(c.left, int64(len(p)))
			if c.field != noField {
				n = min(n, c.skip)
			}
			p, c.left, c.skip = p[n:], c.left-n, max(0, c.skip-n)
		default:
			c.head = append(c.head, p[0])
			c.left--
			p, err = p[1:], c.next()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begin takes another byte of the type and the length of a packet.
func (c *MQTT) begin() error {
	const publish = 3
	if len(c.head) == 1 {
		return nil
	}
	n, ok, err := mqttLength(c.head[1:])
	if !ok || err != nil {
		return err
	}
	first, most := c.head[0], MaxMessage()
	c.left, c.head, c.field, c.skip, c.id = n, c.head[:0], noField, 0, 0
	if first>>4 != publish {
		most = min(most, maxProperties)
	} else if c.field = topicField; first&0x06 != 0 { // it has a number if its QoS is not 0
		c.id = 2
	}
	if n > most {
		return mqttError("it announces a packet of %d bytes, and at most %d are read"+withMemory, n, most)
	}
	return nil
}

// next takes another byte of a field.
func (c *MQTT) next() error {
	if c.field == topicField {
		if len(c.head) == 2 {
			c.skip = int64(c.head[0])<<8 + int64(c.head[1]) + c.id
			c.head, c.field = c.head[:0], propertiesField
		}
	} else if n, ok, err := mqttLength(c.head); err != nil {
		return err
	} else if ok {
		if n > maxProperties {
			return mqttError("the properties of a message have %d bytes, and at most %d are read", n, maxProperties)
		}
		c.head, c.field = c.head[:0], noField
	}
	if c.left == 0 {
		c.head = c.head[:0]
	}
	return nil
}

// mqttLength returns the length that b is; false while it is not complete.
func mqttLength(b []byte) (n int64, ok bool, err error) {
	const longest = 4
	last := len(b) - 1
	if b[last] >= 0x80 {
		if len(b) == longest {
			return 0, false, mqttError("a length is malformed")
		}
		return 0, false, nil
	}
	for i, v := range b {
		n |= int64(v&0x7f) << (7 * i)
	}
	return n, true, nil
}
