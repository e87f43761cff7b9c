package sockets

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Sender sends messages to a server. It connects when it sends, and again after a lost connection. The fields must not
// change after the first call of a method.
type Sender struct {
	Network  string // tcp, udp, unix or unixgram
	Address  string
	TLS      *tls.Config   // nil: the connection is not encrypted
	Timeout  time.Duration // maximum time of connecting, and of sending without progress
	RetryFor time.Duration // time for which connecting and sending are retried

	mu      sync.Mutex
	conn    *Connection // guarded by mu; nil when not connected
	packets net.Conn    // guarded by mu: socket for packets; nil when not open
	pending []*sending  // guarded by mu: unacknowledged messages in order; all were sent over conn, if it is not nil
}

// sending is a group of messages that are sent together.
type sending struct {
	messages [][]byte
	end      int64 // see Connection.Send; guarded by Sender.mu
}

// Packets reports whether each message is a packet.
func (s *Sender) Packets() bool { return s.Network == "udp" || s.Network == "unixgram" }

// Write sends packets. It returns the number of packets that the local kernel has accepted, and why the next one was
// not.
func (s *Sender) Write(ctx context.Context, packets [][]byte) (int, error) {
	for done, packet := range packets {
		if err := s.again(ctx, func() error { return s.packet(ctx, packet) }); err != nil {
			return done, err
		}
	}
	return len(packets), nil
}

// Begin sends the messages over the connection, if there is one. The result waits until the kernel of the server has
// acknowledged them and the server has not closed the connection. After a lost connection it reconnects and sends all
// unacknowledged messages again.
func (s *Sender) Begin(ctx context.Context, messages [][]byte) sdk.WriteResult {
	group := &sending{messages: messages}
	s.begin(ctx, group)
	return func(ctx context.Context) (int, error) {
		defer s.forget(group)
		if err := s.again(ctx, func() error { return s.finish(ctx, group) }); err != nil {
			return 0, err
		}
		return len(messages), nil
	}
}

// begin sends one over the connection, if there is one.
func (s *Sender) begin(ctx context.Context, one *sending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, one)
	if s.conn != nil && (s.conn.Ended() != nil || s.send(ctx, one) != nil) {
		s.abandon() // finish reconnects
	}
}

// send sends one over the connection. The caller holds mu.
func (s *Sender) send(ctx context.Context, one *sending) (err error) {
	one.end, err = s.conn.Send(ctx, one.messages)
	return err
}

// forget removes one from the pending messages, whatever the outcome.
func (s *Sender) forget(one *sending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = slices.DeleteFunc(s.pending, func(other *sending) bool { return other == one })
}

// finish waits until one is acknowledged. Without a connection it connects and sends all pending messages again.
func (s *Sender) finish(ctx context.Context, one *sending) error {
	c, end, err := s.connected(ctx, one)
	if err != nil {
		return err
	}
	if err := c.Wait(ctx, end); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.conn == c {
			s.abandon()
		}
		return err
	}
	return nil
}

// connected returns a connection that has sent all pending messages, and the offset at which one ends in it.
func (s *Sender) connected(ctx context.Context, one *sending) (*Connection, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && s.conn.Ended() != nil {
		s.abandon()
	}
	if s.conn == nil {
		if err := s.connect(ctx); err != nil {
			return nil, 0, err
		}
		for _, each := range s.pending {
			if err := s.send(ctx, each); err != nil {
				s.abandon()
				return nil, 0, err
			}
		}
	}
	return s.conn, one.end, nil
}

// packet sends a packet.
func (s *Sender) packet(ctx context.Context, message []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.packets == nil {
		c, err := s.dial(ctx)
		if err != nil {
			return err
		}
		s.packets = c
	}
	err := s.packets.SetWriteDeadline(time.Now().Add(s.Timeout))
	if err == nil {
		_, err = s.packets.Write(message)
	}
	if err != nil {
		_ = s.packets.Close()
		s.packets = nil
	}
	return err
}

func (s *Sender) dial(ctx context.Context) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: s.Timeout}
	return dialer.DialContext(ctx, s.Network, s.Address)
}

// connect opens a connection. The caller holds mu.
func (s *Sender) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	var secure func(net.Conn) *tls.Conn
	if s.TLS != nil {
		secure = func(c net.Conn) *tls.Conn { return tls.Client(c, s.TLS) }
	}
	if s.conn, err = Over(ctx, c, secure, s.Timeout, "server"); err != nil {
		_ = c.Close()
	}
	return err
}

// abandon gives up the connection. The caller holds mu.
func (s *Sender) abandon() {
	s.conn.Abandon()
	s.conn = nil
}

// again calls try until it succeeds, and retries only after temporary failures.
func (s *Sender) again(ctx context.Context, try func() error) error {
	var pause common.Backoff
	for begin := time.Now(); ; {
		err := try()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return sdk.Unavailable(ctx.Err())
		case s.Packets() && errors.Is(err, syscall.EMSGSIZE):
			return fmt.Errorf("cannot send the record: it is too long for %s: %w", names[s.Network], err)
		case time.Since(begin) >= s.RetryFor:
			return sdk.Unavailable(fmt.Errorf("cannot send: %w", err))
		}
		sdk.Logger(ctx).Warn("cannot send, retrying", "err", err)
		if err := pause.Wait(ctx); err != nil {
			return sdk.Unavailable(err)
		}
	}
}

// names are the names of networks whose packets have a limited size.
var names = map[string]string{"udp": "UDP", "unixgram": "a packet of a Unix socket"}

// Close disconnects. What the kernel has accepted is still sent.
func (s *Sender) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
	if s.packets != nil {
		_ = s.packets.Close()
		s.packets = nil
	}
}
