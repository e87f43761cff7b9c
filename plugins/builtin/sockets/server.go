package sockets

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
)

// Acceptor accepts a limited number of connections. Its fields must not change after the first call of Accept.
type Acceptor struct {
	Log   *slog.Logger
	Limit int // maximum number of connections at a time; further ones are closed

	running   sync.WaitGroup
	mu        sync.Mutex
	listeners []io.Closer           // guarded by mu
	conns     map[net.Conn]struct{} // guarded by mu
	closed    bool                  // guarded by mu
	warned    time.Time             // guarded by mu: the last warning about the limit
}

// retryInterval is the pause after an error of a listener, for example when no file descriptor is left.
const retryInterval = 100 * time.Millisecond

// Accept calls handle, in a goroutine of its own, for each connection that l accepts until Close is called. The
// connection is closed when handle returns.
func (a *Acceptor) Accept(l net.Listener, handle func(net.Conn)) {
	a.start(l, func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				a.Log.Warn("cannot accept a connection", "err", err)
				time.Sleep(retryInterval)
				continue
			}
			if !a.admit(c) {
				_ = c.Close()
				continue
			}
			a.running.Go(func() {
				defer a.release(c)
				handle(c)
			})
		}
	})
}

// start runs work, which ends when l is closed, until Close.
func (a *Acceptor) start(l io.Closer, work func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listeners = append(a.listeners, l)
	a.running.Go(work)
}

func (a *Acceptor) admit(c net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	if len(a.conns) >= a.Limit || !common.TakeConnection() {
		if now := time.Now(); now.Sub(a.warned) > time.Minute {
			a.warned = now
			a.Log.Warn("connection closed, because the number of connections has reached limit.connections, or half "+
				"of the file descriptors of the agent", "remote", c.RemoteAddr().String())
		}
		return false
	}
	if a.conns == nil {
		a.conns = map[net.Conn]struct{}{}
	}
	a.conns[c] = struct{}{}
	return true
}

func (a *Acceptor) release(c net.Conn) {
	_ = c.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	common.ReleaseConnection()
	delete(a.conns, c)
}

// Close closes the listeners and all connections, and returns when every handler has returned.
func (a *Acceptor) Close() error {
	a.mu.Lock()
	var errs []error
	for _, l := range a.listeners {
		errs = append(errs, l.Close())
	}
	for c := range a.conns {
		_ = c.Close()
	}
	a.listeners, a.closed = nil, true
	a.mu.Unlock()
	a.running.Wait()
	return errors.Join(errs...)
}

// Server receives messages into an inbox.
type Server struct {
	Acceptor
	Inbox    *Inbox
	TLS      *tls.Config   // nil: connections are not encrypted
	Idle     time.Duration // maximum time until a message on a connection is complete; 0: no limit
	MaxBytes int           // maximum size of a packet's message
	Framing  func(io.Reader) Framing
}

// handshakeTimeout limits the time in which a peer that is not authenticated yet can hold a connection.
const handshakeTimeout = 10 * time.Second

// Serve receives messages over the connections that l accepts, until Close.
func (s *Server) Serve(l net.Listener) {
	protocol := l.Addr().Network()
	if s.TLS != nil {
		protocol = "tls"
	}
	s.Accept(l, func(c net.Conn) {
		if s.TLS != nil {
			secure := tls.Server(c, s.TLS)
			ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
			err := secure.HandshakeContext(ctx)
			if cancel(); err != nil {
				s.ended(c, err)
				return
			}
			c = secure
		}
		s.ended(c, s.Receive(c, protocol, s.Framing(c)))
	})
}

// ended logs an end of a connection that is not normal.
func (s *Server) ended(c net.Conn, err error) {
	if err != nil && !isEnd(err) {
		s.Log.Warn("connection closed", "remote", HostOf(c.RemoteAddr()), "err", err)
	}
}

// Receive receives the messages in frames, which come from a connection, and returns the reason for its end. It returns
// nil when the inbox is closed.
func (s *Server) Receive(c net.Conn, protocol string, frames Framing) error {
	remote := HostOf(c.RemoteAddr())
	for {
		if s.Idle > 0 {
			_ = c.SetReadDeadline(time.Now().Add(s.Idle))
		}
		message, cut, err := frames.Next()
		m := Received{Remote: remote, Protocol: protocol, At: time.Now(), Message: message, Cut: cut, Partial: err != nil}
		if len(message) > 0 && !s.Inbox.Put(m) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// udpBuffer is the wanted size in bytes of the kernel's buffer for packets.
const udpBuffer = 4 << 20

// ServePackets receives packets, each of which is a message, until Close. When the inbox is full, it drops packets of
// UDP. The senders of other packets wait.
func (s *Server) ServePackets(p net.PacketConn) {
	put, protocol := func(m Received) { s.Inbox.Put(m) }, p.LocalAddr().Network()
	if udp, ok := p.(*net.UDPConn); ok {
		_ = udp.SetReadBuffer(udpBuffer) // as large as the kernel allows
		put = s.Inbox.Offer
	}
	s.start(p, func() {
		buf := make([]byte, max(64<<10, s.MaxBytes+1)) // the kernel cuts off longer packets
		for {
			n, from, err := p.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				s.Log.Warn("cannot receive", "err", err)
				time.Sleep(retryInterval)
				continue
			}
			put(Received{Remote: HostOf(from), Protocol: protocol, At: time.Now(),
				Message: slices.Clone(buf[:min(n, s.MaxBytes)]), Cut: n > s.MaxBytes})
		}
	})
}

// Close stops receiving, makes all senders that wait give up, and returns when nothing runs any more.
func (s *Server) Close() error {
	s.Inbox.Close()
	return s.Acceptor.Close()
}
