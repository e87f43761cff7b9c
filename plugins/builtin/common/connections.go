package common

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// openConnections is the number of accepted connections of all connectors in this process.
var openConnections atomic.Int64

// TakeConnection counts a connection before it is accepted. It returns false, without counting the connection, when the
// connectors of this process hold half of all file descriptors that it may use. ReleaseConnection releases the
// connection.
func TakeConnection() bool {
	if openConnections.Add(1) <= share() {
		return true
	}
	openConnections.Add(-1)
	return false
}

// ReleaseConnection releases a connection counted by TakeConnection.
func ReleaseConnection() { openConnections.Add(-1) }

// Listener accepts a limited number of connections for an HTTP server. At the limit, it accepts a new connection and
// closes the connection that has waited longest for a request, or for the rest of a request header. If no connection
// waits, it closes the new one.
type Listener struct {
	net.Listener
	limit int
	log   *slog.Logger

	mu     sync.Mutex
	held   map[*conn]struct{} // guarded by mu
	warned time.Time          // guarded by mu
}

// LimitConnections limits the number of connections that l accepts.
func LimitConnections(l net.Listener, limit int, log *slog.Logger) *Listener {
	return &Listener{Listener: l, limit: limit, log: log, held: map[*conn]struct{}{}}
}

// conn is a counted connection.
type conn struct {
	net.Conn
	listener *Listener
	active   bool      // guarded by listener.mu: processing a request, or taken over by its handler
	since    time.Time // guarded by listener.mu: last change of active
}

// Accept returns the next connection within the limit.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		own := &conn{Conn: c, listener: l, since: time.Now()}
		if l.admit(own) {
			return own, nil
		}
		_ = c.Close()
	}
}

func (l *Listener) admit(c *conn) bool {
	l.mu.Lock()
	evicted := (*conn)(nil)
	if len(l.held) >= l.limit {
		evicted = l.idlest()
	}
	full := len(l.held) >= l.limit && evicted == nil
	if evicted != nil {
		l.forget(evicted)
	}
	ok := !full && TakeConnection()
	if !ok && !full {
		if evicted = l.idlest(); evicted != nil { // makes room, because all sources together have too many
			l.forget(evicted)
			ok = TakeConnection()
		}
	}
	if ok {
		l.held[c] = struct{}{}
	} else {
		l.warn(c)
	}
	l.mu.Unlock()
	if evicted != nil {
		_ = evicted.Conn.Close()
	}
	return ok
}

// warn logs at most once per minute that connections are closed. The caller holds mu.
func (l *Listener) warn(c *conn) {
	if now := time.Now(); now.Sub(l.warned) > time.Minute {
		l.warned = now
		l.log.Warn("connections are closed: there are as many as limit.connections, or half of the file descriptors "+
			"of the agent, allow",
			"limit", l.limit, "remote", c.RemoteAddr().String())
	}
}

// idlest returns the connection that has waited longest for a request; nil if all are active. The caller holds mu.
func (l *Listener) idlest() (found *conn) {
	for c := range l.held {
		if !c.active && (found == nil || c.since.Before(found.since)) {
			found = c
		}
	}
	return found
}

// forget releases a connection if it is counted. The caller holds mu.
func (l *Listener) forget(c *conn) {
	if _, ok := l.held[c]; ok {
		delete(l.held, c)
		ReleaseConnection()
	}
}

// Close closes the connection and releases it.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.forget(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// Observe tracks the state of a connection. It is a value for http.Server.ConnState.
func (l *Listener) Observe(c net.Conn, state http.ConnState) {
	if wrapper, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = wrapper.NetConn()
	}
	own, ok := c.(*conn)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	own.active, own.since = state == http.StateActive || state == http.StateHijacked, time.Now()
}
