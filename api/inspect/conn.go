package inspect

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
)

// maxBacklog is the maximum size of the backlog of a detached connection. A goroutine that writes stops long before.
const maxBacklog = 64 << 10

// listener accepts connections that sessions can take over.
type listener struct{ net.Listener }

// Listen returns a listener. Sessions can take over the connections that it accepts.
func Listen(l net.Listener) net.Listener { return listener{l} }

// Accept returns the next connection.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// conn is a connection of the server. Once it is detached, reads and writes do not block, so that one goroutine can
// serve a thousand.
type conn struct {
	net.Conn
	raw     syscall.RawConn // nil until detached
	waits   bool            // Write blocks, even if detached
	backlog []byte          // of a detached connection: written, but not yet sent
}

type connKey struct{}

// WithConn adds their connection to the context of requests.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf(c))
}

// connOf returns the connection of Listen beneath the connection of the HTTP server, nil if there is none.
func connOf(c net.Conn) *conn {
	for {
		if own, ok := c.(*conn); ok {
			return own
		}
		over, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = over.NetConn()
	}
}

// NetConn returns the underlying connection.
func (c *conn) NetConn() net.Conn { return c.Conn }

// connection returns the connection of r, nil when another server serves it.
func connection(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// detach makes reads and writes non-blocking.
func (c *conn) detach() error {
	under, ok := c.Conn.(syscall.Conn)
	if !ok {
		return errors.ErrUnsupported
	}
	raw, err := under.SyscallConn()
	c.raw = raw
	return err
}

// Read returns os.ErrDeadlineExceeded when a detached connection has nothing to read.
func (c *conn) Read(p []byte) (n int, err error) {
	if c.raw == nil {
		return c.Conn.Read(p)
	}
	n, err = try(c.raw.Read, syscall.Read, p)
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return 0, os.ErrDeadlineExceeded
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return n, err
}

// Write buffers the bytes that a detached connection cannot send at once, until flush is called.
func (c *conn) Write(p []byte) (n int, err error) {
	if c.raw == nil || c.waits {
		return c.Conn.Write(p)
	}
	if !c.behind() {
		if n, err = try(c.raw.Write, syscall.Write, p); err != nil && !errors.Is(err, syscall.EAGAIN) {
			return n, err
		}
	}
	if len(c.backlog)+len(p)-n > maxBacklog {
		return n, errors.New("the client takes nothing")
	}
	c.backlog = append(c.backlog, p[n:]...)
	return len(p), nil
}

// try calls do once, whether the connection is ready for it or not.
func try(with func(func(uintptr) bool) error, do func(int, []byte) (int, error), p []byte) (n int, err error) {
	if failed := with(func(fd uintptr) bool { n, err = do(int(fd), p); return true }); failed != nil {
		err = failed
	}
	return max(n, 0), err
}

// behind reports whether there are buffered bytes that the client has yet to receive.
func (c *conn) behind() bool { return len(c.backlog) > 0 }

// flush waits until the client has received all buffered bytes.
func (c *conn) flush() error {
	_, err := c.Conn.Write(c.backlog)
	c.backlog = nil
	return err
}

// CloseWrite lets the HTTP server give the client time to read the answer to a request that it does not read to the
// end.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
