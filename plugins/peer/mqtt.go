package peer

import "fmt"

// MQTT checks the packets of a server, as https://docs.oasis-open.org/mqtt/mqtt/v5.0/mqtt-v5.0.html has them.
type MQTT struct {
	head []byte // type and length of a packet, begun and not complete
	left int64  // bytes that remain of the packet
}

// Check implements Checker.
func (c *MQTT) Check(p []byte) error {
	const longest = 4 // bytes of a length
	for len(p) > 0 {
		if c.left > 0 {
			n := min(c.left, int64(len(p)))
			p, c.left = p[n:], c.left-n
			continue
		}
		c.head, p = append(c.head, p[0]), p[1:]
		last := len(c.head) - 1
		switch {
		case last == 0:
			continue
		case c.head[last] >= 0x80 && last == longest:
			return &Error{"MQTT", "a length is malformed"}
		case c.head[last] >= 0x80:
			continue
		}
		for i, b := range c.head[1:] {
			c.left |= int64(b&0x7f) << (7 * i)
		}
		if c.head = c.head[:0]; c.left > MaxMessage() {
			return &Error{"MQTT", fmt.Sprintf("it announces a packet of %d bytes, and at most %d are read"+withMemory,
				c.left, MaxMessage())}
		}
	}
	return nil
}
