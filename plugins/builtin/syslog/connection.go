package syslog

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
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// connection is a TCP connection to the server, or a UDP socket.
type connection struct {
	net.Conn
	socket *socket       // nil with UDP
	gone   chan struct{} // closed when the connection has ended
	lost   error         // reason, valid once gone is closed; nil: the server has closed it
}

// socket counts sent bytes.
type socket struct {
	*net.TCPConn
	raw   syscall.RawConn
	limit time.Duration // maximum time without progress of a write
	sent  atomic.Int64  // bytes
}

// Write implements net.Conn. It fails when the kernel accepts no data for the duration of the limit. The total duration
// is unlimited: with TLS, a partial write cannot be continued later.
func (s *socket) Write(b []byte) (written int, err error) {
	for {
		if err := s.SetWriteDeadline(time.Now().Add(s.limit)); err != nil {
			return written, err
		}
		n, err := s.TCPConn.Write(b[written:])
		written += n
		s.sent.Add(int64(n))
		if n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return written, err
		}
	}
}

// acknowledged returns the number of sent bytes that the kernel of the server has acknowledged.
func (s *socket) acknowledged() (int64, error) {
	sent := s.sent.Load() // first: bytes sent between the two measurements must not count as acknowledged
	n, err := queued(s.raw)
	return sent - int64(n), err
}

// sending is a group of messages that are sent together.
type sending struct {
	messages [][]byte
	end      int64 // bytes sent over the connection up to and including the last message
}

// begin sends s over the connection, if there is one.
func (d *Destination) begin(s *sending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = append(d.pending, s)
	if d.conn != nil && (d.conn.ended() != nil || d.conn.send(s) != nil) {
		d.abandon() // finish reconnects
	}
}

// forget removes s from the pending messages, whatever the outcome.
func (d *Destination) forget(s *sending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = slices.DeleteFunc(d.pending, func(other *sending) bool { return other == s })
}

// finish waits until s is acknowledged. Without a connection it connects and sends all pending messages again.
func (d *Destination) finish(ctx context.Context, s *sending) error {
	c, end, err := d.connected(ctx, s)
	if err != nil {
		return err
	}
	if err := c.wait(ctx, end, d.settings.Timeout); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.conn == c {
			d.abandon()
		}
		return err
	}
	return nil
}

// connected returns a connection over which all pending messages were sent, and the offset of the end of s in it.
func (d *Destination) connected(ctx context.Context, s *sending) (*connection, int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil && d.conn.ended() != nil {
		d.abandon()
	}
	if d.conn == nil {
		if err := d.connect(ctx); err != nil {
			return nil, 0, err
		}
		for _, one := range d.pending {
			if err := d.conn.send(one); err != nil {
				d.abandon()
				return nil, 0, err
			}
		}
	}
	return d.conn, s.end, nil
}

// packet sends a message over UDP.
func (d *Destination) packet(ctx context.Context, message []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn == nil {
		if err := d.connect(ctx); err != nil {
			return err
		}
	}
	err := d.conn.SetWriteDeadline(time.Now().Add(d.settings.Timeout))
	if err == nil {
		_, err = d.conn.Write(message)
	}
	if err != nil {
		d.close()
	}
	return err
}

// connect opens a connection. The caller holds mu.
func (d *Destination) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.settings.Timeout)
	defer cancel()
	dialer := &net.Dialer{}
	if d.settings.Protocol == "udp" {
		c, err := dialer.DialContext(ctx, "udp", d.settings.Address)
		if err == nil {
			d.conn = &connection{Conn: c}
		}
		return err
	}
	c, err := dialer.DialContext(ctx, "tcp", d.settings.Address)
	if err != nil {
		return err
	}
	conn, err := over(ctx, c, d.secured(), d.settings.Timeout)
	if err != nil {
		_ = c.Close()
		return err
	}
	d.conn = conn
	go conn.watch()
	return nil
}

// secured returns the TLS configuration; nil if connections are not encrypted.
func (d *Destination) secured() *tls.Config {
	if d.settings.Protocol != "tls" {
		return nil
	}
	return d.tls
}

// over returns a connection over c, encrypted if config is not nil. limit is the maximum time without progress of a
// write.
func over(ctx context.Context, c net.Conn, config *tls.Config, limit time.Duration) (*connection, error) {
	s, ok := c.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("cannot get the socket of a %T", c)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, err
	}
	conn := &connection{socket: &socket{TCPConn: s, raw: raw, limit: limit}, gone: make(chan struct{})}
	if conn.Conn = conn.socket; config != nil {
		secure := tls.Client(conn.socket, config)
		conn.Conn, err = secure, secure.HandshakeContext(ctx)
	}
	return conn, err
}

// abandon resets a connection whose unacknowledged messages are sent again over another one. The kernel discards its
// queue, so these messages cannot arrive later. The caller holds mu.
func (d *Destination) abandon() {
	_ = d.conn.socket.SetLinger(0)
	_ = d.conn.socket.Close()
	d.close()
}

// close disconnects. The caller holds mu.
func (d *Destination) close() {
	if d.conn == nil {
		return
	}
	_ = d.conn.Close()
	if d.conn.gone != nil {
		<-d.conn.gone
	}
	d.conn = nil
}

// watch waits for the end of the connection. The server sends no data.
func (c *connection) watch() {
	_, c.lost = io.Copy(io.Discard, c.Conn)
	close(c.gone)
}

var errClosed = errors.New("the server has closed the connection")

// ended returns the reason for the end of the connection; nil while it is open.
func (c *connection) ended() error {
	select {
	case <-c.gone:
		return cmp.Or(c.lost, errClosed)
	default:
		return nil
	}
}

// send passes s to the kernel. It fails when the kernel accepts no data for the limit of the socket. The kernel's own
// limit (TCP_USER_TIMEOUT) does not fit: it also gives up a slow server with a small window that was closed once, and
// again after the limit.
func (c *connection) send(s *sending) error {
	for rest := s.messages; len(rest) > 0; {
		n := batch(rest)
		if _, err := c.Write(bytes.Join(rest[:n], nil)); err != nil {
			return err
		}
		rest = rest[n:]
	}
	s.end = c.socket.sent.Load()
	return nil
}

// wait waits until the kernel of the server has acknowledged end bytes. Bytes in the local kernel's queue are lost when
// the server never answers again, for example after a cable is pulled. It fails when nothing is acknowledged for limit.
func (c *connection) wait(ctx context.Context, end int64, limit time.Duration) error {
	const shortest, longest = 50 * time.Microsecond, 10 * time.Millisecond
	before, since := int64(-1), time.Now()
	for pause := shortest; ; pause = min(2*pause, longest) {
		switch n, err := c.socket.acknowledged(); {
		case err != nil:
			return err
		case n >= end:
			return c.ended()
		case n > before:
			before, since = n, time.Now()
		case time.Since(since) >= limit:
			return fmt.Errorf("the host of the server has acknowledged nothing for %v", limit)
		}
		select {
		case <-time.After(pause):
		case <-c.gone:
			return c.ended()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
