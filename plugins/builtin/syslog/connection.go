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

// connection is one to the server, or a socket for packets.
type connection struct {
	net.Conn
	socket *socket       // of a connection; nil with UDP
	gone   chan struct{} // closed when it has ended
	lost   error         // why, once gone is closed; nil: the server has closed it
}

// socket counts what is sent.
type socket struct {
	*net.TCPConn
	raw   syscall.RawConn
	limit time.Duration // for how long the kernel may take nothing
	sent  atomic.Int64  // bytes
}

// Write implements net.Conn. It fails when the kernel takes nothing for as long as the limit, however long it takes for all: with
// TLS a write could not be continued later.
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

// acknowledged returns how many of the bytes that were sent the machine of the server has acknowledged.
func (s *socket) acknowledged() (int64, error) {
	sent := s.sent.Load() // first: more may be sent before the queue is measured, not after
	n, err := queued(s.raw)
	return sent - int64(n), err
}

// sending is what is sent at once.
type sending struct {
	messages [][]byte
	end      int64 // bytes that were sent over the connection with the last of the messages
}

// begin sends s over the connection, if there is one.
func (d *Destination) begin(s *sending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = append(d.pending, s)
	if d.conn != nil && (d.conn.ended() != nil || d.conn.send(s) != nil) {
		d.abandon() // finish connects again
	}
}

// forget forgets s, whatever has become of it.
func (d *Destination) forget(s *sending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = slices.DeleteFunc(d.pending, func(other *sending) bool { return other == s })
}

// finish waits until s is acknowledged. Without a connection it connects, and sends all that is pending.
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

// connected returns a connection that was given all that is pending, and where s ends in it.
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

// packet sends a message with UDP.
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

// connect connects. The caller holds mu.
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

// secured returns how connections are encrypted; nil: they are not.
func (d *Destination) secured() *tls.Config {
	if d.settings.Protocol != "tls" {
		return nil
	}
	return d.tls
}

// over returns a connection over c, encrypted if it is to be. Its kernel may take nothing for as long as the limit.
func over(ctx context.Context, c net.Conn, config *tls.Config, limit time.Duration) (*connection, error) {
	s, ok := c.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("cannot find the socket of a %T", c)
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

// abandon ends a connection, the contents of whose queue are sent again over another one: the kernel forgets them, so that they do
// not arrive after that. The caller holds mu.
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

// watch notes the end of the connection. The server sends nothing else.
func (c *connection) watch() {
	_, c.lost = io.Copy(io.Discard, c.Conn)
	close(c.gone)
}

var errClosed = errors.New("the server has closed the connection")

// ended says why the connection has ended, if it has.
func (c *connection) ended() error {
	select {
	case <-c.gone:
		return cmp.Or(c.lost, errClosed)
	default:
		return nil
	}
}

// send gives s to the kernel, or fails when that takes nothing for as long as the limit of the socket. The limit is not the kernel's
// own (TCP_USER_TIMEOUT): that gives up a slow server with a small window, too, whose window was shut once and then again after the limit.
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

// wait waits until the machine of the server has acknowledged so many bytes: what the kernel has in its queue is lost when
// nobody answers any more, as after a pulled cable. It fails when nothing is acknowledged for as long as the limit.
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
			return fmt.Errorf("the machine of the server has acknowledged nothing for %v", limit)
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
