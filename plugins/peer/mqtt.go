package peer

import (
	"encoding/binary"
	"fmt"
)

// Limits of the packets of an MQTT server, in addition to MaxMessage.
const (
	maxControl    = 64 << 10 // bytes of a packet that is no message
	maxProperties = 1 << 20  // bytes of the properties of a message; a client takes up to seven times as much
)

// MQTT checks the packets of a server, as defined at https://docs.oasis-open.org/mqtt/mqtt/v5.0/mqtt-v5.0.html.
type MQTT struct {
	head []byte // incomplete beginning of a part of a packet
	part mqttPart
	id   int64 // bytes of the identifier of the message
	skip int64 // bytes to skip, after over
	left int64 // bytes that remain of the packet, without skip
	over int64 // bytes of properties to overwrite

	value int // remaining bytes of the value of the property that overwrites others
}

// mqttPart is a part of a packet.
type mqttPart int

const (
	mqttHeader     mqttPart = iota // type and length of a packet
	mqttTopic                      // length of the topic of a message
	mqttProperties                 // length of the properties of a message
)

const mqttPublish = 3 // the type of a packet that is a message

func mqttError(format string, args ...any) error { return &Error{"MQTT", fmt.Sprintf(format, args...)} }

// Check implements Checker.
func (c *MQTT) Check(p []byte) error {
	for len(p) > 0 {
		if c.over > 0 {
			p = p[c.overwrite(p):]
			continue
		}
		if c.skip > 0 {
			n := min(c.skip, int64(len(p)))
			p, c.skip = p[n:], c.skip-n
			continue
		}
		c.head, p = append(c.head, p[0]), p[1:]
		if err := c.next(); err != nil {
			return err
		}
	}
	return nil
}

// next takes another byte of head.
func (c *MQTT) next() error {
	switch c.part {
	case mqttHeader:
		if len(c.head) > 1 {
			return c.header()
		}
	case mqttTopic:
		if c.left--; len(c.head) == 2 {
			n := int64(binary.BigEndian.Uint16(c.head)) + c.id
			c.head, c.part = c.head[:0], mqttProperties
			c.skip = min(n, c.left)
			c.left -= c.skip
		}
		c.endAtEnd()
	case mqttProperties:
		c.left--
		n, complete, err := mqttLength(c.head)
		switch {
		case err != nil:
			return err
		case complete && n > maxProperties && n > c.left:
			return mqttError("the properties of a message are longer than the message")
		case complete && n > maxProperties:
			c.head, c.over, c.skip, c.left = c.head[:0], n, c.left-n, 0
			c.part = mqttHeader
			return nil
		case complete:
			c.skip, c.left = c.left, 0
		}
		c.endAtEnd()
	}
	return nil
}

// overwrite replaces properties by as few ones with the name LeftOut as have the same total length, because the client
// already knows the length. It returns the number of overwritten bytes of p.
func (c *MQTT) overwrite(p []byte) (done int) {
	const (
		userProperty = 0x26
		longest      = 1<<16 - 1 // value
	)
	around := 1 + 2 + len(LeftOut) + 2
	for ; len(p) > done && c.over > 0; c.over-- {
		if len(c.head) == 0 && c.value == 0 {
			c.value = int(min(c.over-int64(around), longest))
			if rest := c.over - int64(around+c.value); rest > 0 && rest < int64(around) {
				c.value -= around // there must be room for the last one
			}
			c.head = append(c.head, userProperty, byte(len(LeftOut)>>8), byte(len(LeftOut)))
			c.head = append(c.head, LeftOut...)
			c.head = append(c.head, byte(c.value>>8), byte(c.value))
		}
		if len(c.head) > 0 {
			p[done], c.head = c.head[0], c.head[1:]
		} else {
			p[done] = '-'
			c.value--
		}
		done++
	}
	return done
}

// endAtEnd begins the next packet when nothing remains of this one. The client reports a message that is cut off.
func (c *MQTT) endAtEnd() {
	if c.left == 0 {
		c.head, c.part = c.head[:0], mqttHeader
	}
}

// header takes the type and the length of a packet.
func (c *MQTT) header() error {
	n, complete, err := mqttLength(c.head[1:])
	if !complete || err != nil {
		return err
	}
	kind, most := c.head[0]>>4, MaxMessage()
	if kind != mqttPublish {
		most = maxControl
	}
	if n > most {
		return mqttError("it announces a packet of type %d with %d bytes, and at most %d are read"+withMemory, kind, n,
			most)
	}
	c.id = 0
	if c.head[0]&0x06 != 0 { // the QoS
		c.id = 2
	}
	if c.head = c.head[:0]; kind != mqttPublish {
		c.skip = n
		return nil
	}
	c.left, c.part = n, mqttTopic
	c.endAtEnd()
	return nil
}

// mqttLength decodes the length in b; complete is false if b is incomplete.
func mqttLength(b []byte) (n int64, complete bool, err error) {
	const longest = 4 // bytes of a length
	for i, part := range b {
		n |= int64(part&0x7f) << (7 * i)
	}
	complete = b[len(b)-1] < 0x80
	if !complete && len(b) == longest {
		return 0, false, mqttError("a length is malformed")
	}
	return n, complete, nil
}
