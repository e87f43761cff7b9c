package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/peer"
)

// brokerLinks tracks the connections of clients. A client has several connections to each broker, and some may be idle
// for long. If a connection does not deliver an answer, the other connections to that broker that have delivered
// nothing since the request are probably half-open, too. brokerLinks closes them, so that the client does not wait for
// answers on each in turn.
type brokerLinks struct {
	dialer net.Dialer
	tls    *tls.Config // nil: no TLS
	batch  peer.BatchFunc

	mu  sync.Mutex
	all map[*brokerLink]struct{}
}

// newDialer returns a function that connects to brokers, with TLS unless secure is nil. The dialer calls batch, unless
// it is nil, with each fetched batch of messages. Several clients may use the dialer at the same time. If one
// connection to a broker does not deliver an answer, the dialer closes it and every other connection to that broker
// that has delivered nothing since the request.
func newDialer(
	secure *tls.Config, batch peer.BatchFunc,
) func(ctx context.Context, network, addr string) (net.Conn, error) {
	l := &brokerLinks{dialer: net.Dialer{Timeout: dialTimeout}, tls: secure, batch: batch,
		all: map[*brokerLink]struct{}{}}
	return l.dial
}

// dialTimeout bounds the time for connecting.
const dialTimeout = 10 * time.Second

func (l *brokerLinks) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := l.dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	one := &brokerLink{Conn: c, links: l, addr: addr, heard: time.Now()}
	l.mu.Lock()
	l.all[one] = struct{}{}
	l.mu.Unlock()
	if l.tls == nil {
		return peer.NewKafka(one, l.batch), nil
	}
	config := l.tls.Clone()
	if config.ServerName, _, err = net.SplitHostPort(addr); err == nil {
		secure := tls.Client(one, config)
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		if err = secure.HandshakeContext(ctx); err == nil {
			return peer.NewKafka(secure, l.batch), nil
		}
	}
	_ = one.Close()
	return nil, err
}

// silent closes the connections to a broker that have received nothing since the given time.
func (l *brokerLinks) silent(addr string, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.all {
		if tcp, ok := one.Conn.(*net.TCPConn); ok && one.addr == addr && one.heard.Before(since) {
			_, _ = tcp.CloseRead(), tcp.CloseWrite() // the client closes it after reading EOF
		}
	}
}

// brokerLink is a connection to a broker.
type brokerLink struct {
	net.Conn
	links *brokerLinks
	addr  string

	asked, heard time.Time // guarded by mu of links: times of the last write and the last received data
}

// Read implements net.Conn.
func (l *brokerLink) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	l.links.mu.Lock()
	if n > 0 {
		l.heard = time.Now()
	}
	asked := l.asked
	l.links.mu.Unlock()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.links.silent(l.addr, asked)
	}
	return n, err
}

// Write implements net.Conn.
func (l *brokerLink) Write(b []byte) (int, error) {
	l.links.mu.Lock()
	l.asked = time.Now()
	l.links.mu.Unlock()
	return l.Conn.Write(b)
}

// Close implements net.Conn.
func (l *brokerLink) Close() error {
	l.links.mu.Lock()
	delete(l.links.all, l)
	l.links.mu.Unlock()
	return l.Conn.Close()
}
