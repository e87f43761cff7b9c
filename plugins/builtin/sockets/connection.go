package sockets

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// Connection is a connection that sends messages, and knows the number of bytes that the kernel of the other side has
// acknowledged. It discards received data. Over creates a Connection.
type Connection struct {
	net.Conn
	socket *socket
	limit  time.Duration // maximum time without progress
	peer   string        // server or client
	gone   chan struct{} // closed when the connection has ended
	lost   error         // reason, valid once gone is closed; nil: the other side has closed it
}

// stream is a TCP connection, or one of a Unix socket.
type stream interface {
	net.Conn
	SyscallConn() (syscall.RawConn, error)
}

// socket counts sent bytes.
type socket struct {
	stream
	raw   syscall.RawConn
	limit time.Duration // maximum time without progress of a write
	sent  atomic.Int64  // bytes
}

// Write implements net.Conn. It fails when the kernel accepts no data for the duration of the limit. The total duration
// is unlimited: with TLS, a partial write cannot be continued later. The kernel's own limit (TCP_USER_TIMEOUT) does not
// fit: it also gives up a slow peer with a small window that was closed once, and again after the limit.
func (s *socket) Write(b []byte) (written int, err error) {
	for {
		if err := s.SetWriteDeadline(time.Now().Add(s.limit)); err != nil {
			return written, err
		}
		n, err := s.stream.Write(b[written:])
		written += n
		s.sent.Add(int64(n))
		if n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return written, err
		}
	}
}

// acknowledged returns the number of sent bytes that the kernel of the other side has acknowledged. Of a Unix socket
// it returns no more than the number of bytes that the other side has read.
func (s *socket) acknowledged() (int64, error) {
	sent := s.sent.Load() // first: bytes sent between the two measurements must not count as acknowledged
	n, err := queued(s.raw)
	return sent - int64(n), err
}

// Over returns a connection over c, a TCP connection or one of a Unix socket. secure, if not nil, encrypts it, and is
// followed by the handshake. limit is the maximum time in which the other side makes no progress, and peer its name in
// errors. After an error the caller still has to close c.
func Over(
	ctx context.Context, c net.Conn, secure func(net.Conn) *tls.Conn, limit time.Duration, peer string,
) (*Connection, error) {
	s, ok := c.(stream)
	if !ok {
		return nil, fmt.Errorf("cannot get the socket of a %T", c)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, err
	}
	conn := &Connection{socket: &socket{stream: s, raw: raw, limit: limit}, limit: limit, peer: peer,
		gone: make(chan struct{})}
	if conn.Conn = conn.socket; secure != nil {
		encrypted := secure(conn.socket)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn.Conn = encrypted
	}
	go conn.watch()
	return conn, nil
}

// watch waits for the end of the connection.
func (c *Connection) watch() {
	_, c.lost = io.Copy(io.Discard, c.Conn)
	close(c.gone)
}

// Gone returns a channel that is closed when the connection has ended.
func (c *Connection) Gone() <-chan struct{} { return c.gone }

// Ended returns the reason for the end of the connection; nil while it is open.
func (c *Connection) Ended() error {
	select {
	case <-c.gone:
		return cmp.Or(c.lost, fmt.Errorf("the %s has closed the connection", c.peer))
	default:
		return nil
	}
}

// Send passes the messages to the kernel, and returns the number of bytes sent over the connection up to and including
// the last message. It fails when the kernel accepts no data for the limit, and abandons the connection when ctx ends
// before.
func (c *Connection) Send(ctx context.Context, messages [][]byte) (end int64, err error) {
	defer context.AfterFunc(ctx, c.Abandon)()
	for len(messages) > 0 {
		n := batch(messages)
		if _, err := c.Write(bytes.Join(messages[:n], nil)); err != nil {
			return 0, err
		}
		messages = messages[n:]
	}
	return c.socket.sent.Load(), nil
}

// batch returns the number of messages to send with one write.
func batch(messages [][]byte) (n int) {
	const most = 64 << 10
	for size := 0; n < len(messages) && (n == 0 || size < most); n++ {
		size += len(messages[n])
	}
	return n
}

// Wait waits until the kernel of the other side has acknowledged end bytes. Bytes in the local kernel's queue are lost
// when the other side never answers again, for example after a cable is pulled. It fails when nothing is acknowledged
// for the limit, and when the connection has ended, unless the other side has read all bytes of a Unix socket.
func (c *Connection) Wait(ctx context.Context, end int64) error {
	const shortest, longest = 50 * time.Microsecond, 10 * time.Millisecond
	before, since := int64(-1), time.Now()
	for pause := shortest; ; pause = min(2*pause, longest) {
		switch n, err := c.socket.acknowledged(); {
		case err != nil:
			return err
		case n >= end:
			return c.outcome(ctx)
		case n > before:
			before, since = n, time.Now()
		case time.Since(since) >= c.limit:
			return fmt.Errorf("the host of the %s has acknowledged nothing for %v", c.peer, c.limit)
		}
		select {
		case <-time.After(pause):
		case <-c.gone:
			if n, err := c.socket.acknowledged(); err != nil || n < end {
				return c.Ended()
			}
			return c.outcome(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// outcome returns nil if the bytes that acknowledged has counted arrived. The kernel also counts the bytes of a Unix
// socket that it discards because the peer closes its end without reading them; before, it marks the connection as
// ended and failed.
func (c *Connection) outcome(ctx context.Context) error {
	if ended, _ := state(c.socket.raw); ended {
		select {
		case <-c.gone: // watch is about to notice
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := c.Ended()
	if _, isUnix := c.socket.stream.(*net.UnixConn); err == nil || !isUnix || c.lost != nil {
		return err
	}
	if _, failed := state(c.socket.raw); failed {
		return err
	}
	return nil
}

// Abandon resets a connection whose unacknowledged messages are sent again over another one. The kernel discards its
// queue, so these messages cannot arrive later. Over a Unix socket they can, because it has no queue of its own.
func (c *Connection) Abandon() {
	if tcp, ok := c.socket.stream.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.socket.Close()
	c.Close()
}

// Close closes the connection. Messages in the queue of the kernel are still sent.
func (c *Connection) Close() {
	_ = c.Conn.Close()
	<-c.gone
}
