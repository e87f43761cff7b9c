package chaos

import (
	"bytes"
	"net"
	"sync"
)

// output is a listener that keeps the last bytes written to its connections.
type output struct {
	net.Listener

	mu  sync.Mutex
	end []byte // guarded by mu
}

// kept is the number of bytes that an output keeps.
const kept = 4 << 10

// Accept waits for the next connection.
func (o *output) Accept() (net.Conn, error) {
	c, err := o.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{c, o}, nil
}

// has reports whether b is in the last written bytes.
func (o *output) has(b []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Contains(o.end, b)
}

type connection struct {
	net.Conn
	out *output
}

// Write writes b.
func (c *connection) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.end = append(c.out.end, b[max(0, n-kept):n]...)
	c.out.end = c.out.end[max(0, len(c.out.end)-kept):]
	return n, err
}
