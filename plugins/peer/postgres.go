package peer

import (
	"encoding/binary"
	"fmt"
)

// Limits of the messages of a PostgreSQL server, in addition to MaxMessage.
const (
	maxReport     = 1 << 20 // bytes of an error or a notice
	maxParameter  = 64 << 10
	maxParameters = 10_000 // parameter reports in one session; the client keeps every name
)

// Postgres checks the messages of a server, as defined at
// https://www.postgresql.org/docs/current/protocol-message-formats.html.
type Postgres struct {
	head       [5]byte // type and length of a message, possibly incomplete
	have       int     // bytes of head
	left       int64   // bytes that remain of the message
	parameters int
}

func postgresError(format string, args ...any) error {
	return &Error{"PostgreSQL", fmt.Sprintf(format, args...)}
}

// Check implements Checker.
func (c *Postgres) Check(p []byte) error {
	for len(p) > 0 {
		if c.left > 0 {
			n := min(c.left, int64(len(p)))
			p, c.left = p[n:], c.left-n
			continue
		}
		n := copy(c.head[c.have:], p)
		if p, c.have = p[n:], c.have+n; c.have < len(c.head) {
			return nil
		}
		c.have = 0
		if err := c.begin(c.head[0], int64(binary.BigEndian.Uint32(c.head[1:]))-4); err != nil {
			return err
		}
	}
	return nil
}

// begin takes the type of a message and the number of bytes that follow.
func (c *Postgres) begin(kind byte, size int64) error {
	most := MaxMessage()
	switch kind {
	case 'E', 'N': // error, notice
		most = maxReport
	case 'S', 'K', 'v', 'R', 'Z': // parameter, key to cancel, version, authentication, ready
		most = maxParameter
	}
	if size < 0 || size > most {
		return postgresError("it announces a message of type %q with %d bytes, and at most %d are read", kind, size,
			most)
	}
	if kind == 'S' {
		if c.parameters++; c.parameters > maxParameters {
			return postgresError("it reports parameters more than %d times", maxParameters)
		}
	}
	c.left = size
	return nil
}
