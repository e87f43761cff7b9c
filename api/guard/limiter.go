package guard

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/spec/notify"
)

// Limits of the number of connections. Streams are counted separately.
const (
	MaxConns      = 256
	MaxPerAddress = 128 // from one address other than an address of this machine
	MaxRejected   = 32  // additional connections, to answer that there are too many
)

// Limiter accepts a limited number of connections. When there are too many, each ends with the answer to its request,
// so that clients take turns. A new connection replaces a connection that has been idle for a while, or else the
// connection whose request has been incomplete for longest. If there is neither, new connections wait for a while, as
// many may come at once. After that they are refused until a connection ends.
type Limiter struct {
	net.Listener
	log   *slog.Logger
	wait  time.Duration // of new connections for a slot, until they are refused
	grace time.Duration // for a request to arrive, before its connection is closed in favour of a new one
	freed notify.Signal // a slot may be free

	mu       sync.Mutex
	held     map[*Conn]struct{}   // guarded by mu
	from     map[netip.Prefix]int // connections by address, guarded by mu
	refusing bool                 // guarded by mu: no slot was free for too long
	closing  bool                 // guarded by mu: CloseUnused was called
}

// Limit limits the connections that l accepts. A new connection waits at most wait for a slot. A connection without a
// complete request keeps its slot for at least the grace period, since the client may be sending right now.
func Limit(l net.Listener, wait, grace time.Duration, log *slog.Logger) *Limiter {
	return &Limiter{Listener: l, log: log, wait: wait, grace: grace, freed: notify.NewSignal(),
		held: map[*Conn]struct{}{}, from: map[netip.Prefix]int{}}
}

// Accept returns the next connection that has a slot, or may be answered that there is none.
func (l *Limiter) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		own := &Conn{Conn: c, limiter: l, network: remoteNetwork(c), peer: peerOf(c), since: time.Now()}
		if l.admit(own) || l.await(own) {
			return own, nil
		}
		c.Close() // too many connections even for an answer
	}
}

// remoteNetwork returns the network by which c counts towards the limit per address. It is zero for loopback addresses:
// all clients on this machine, and all connections through a proxy on it, have the same address.
func remoteNetwork(c net.Conn) netip.Prefix {
	n := network(c.RemoteAddr().String())
	if n.Addr().IsLoopback() {
		return netip.Prefix{}
	}
	return n
}

// await reports whether c is admitted in the end.
func (l *Limiter) await(c *Conn) bool {
	timeout := time.NewTimer(l.wait)
	defer timeout.Stop()
	tick := time.NewTicker(max(l.grace/10, time.Millisecond)) // the grace period of a connection may end
	defer tick.Stop()
	for {
		select {
		case <-l.freed:
			if l.admit(c) {
				return true
			}
		case <-tick.C:
			if l.admit(c) {
				return true
			}
		case <-timeout.C:
			l.refuse()
			return l.admit(c)
		}
	}
}

// refuse makes the limiter refuse new connections until a slot is free.
func (l *Limiter) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.refusing {
		l.log.Warn("too many connections; refusing new ones until one ends", "limit", MaxConns)
	}
	l.refusing = true
}

// admit reports whether Accept returns c now. A connection without a slot is either returned with c.refused set, to be
// answered that there are too many, or has to wait.
func (l *Limiter) admit(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	anyConn := func(*Conn) bool { return true }
	switch own := func(o *Conn) bool { return o.network == c.network }; {
	case c.network.IsValid() && l.from[c.network] >= MaxPerAddress && !l.evict(own):
		c.refused = true
	case len(l.held) >= MaxConns && !l.evict(anyConn):
		if !l.refusing {
			return false
		}
		c.refused = true
	}
	if len(l.held) >= MaxConns+MaxRejected {
		return false
	}
	l.held[c] = struct{}{}
	l.from[c.network]++
	if l.closing {
		c.Close()
	}
	return true
}

// evict closes a connection for which may reports true and whose grace period is over: an idle connection, or else the
// connection whose request has been incomplete for longest. It reports whether there was such a connection. The caller
// holds mu.
func (l *Limiter) evict(may func(*Conn) bool) bool {
	var found *Conn
	for c := range l.held {
		if !may(c) || c.refused || !c.idle && c.complete || time.Since(c.since) < l.grace {
			continue
		}
		if found == nil || c.idle && !found.idle || c.idle == found.idle && c.since.Before(found.since) {
			found = c
		}
	}
	if found == nil {
		return false
	}
	found.Close()
	l.forget(found)
	return true
}

// full reports whether no slot is free for another connection.
func (l *Limiter) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held) >= MaxConns
}

// remove releases the slot of a connection, if it has one.
func (l *Limiter) remove(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, held := l.held[c]; held {
		l.forget(c)
		l.free()
	}
}

// forget drops a connection that is held. The caller holds mu.
func (l *Limiter) forget(c *Conn) {
	delete(l.held, c)
	if l.from[c.network]--; l.from[c.network] == 0 {
		delete(l.from, c.network)
	}
}

// free wakes Accept to try again. The caller holds mu.
func (l *Limiter) free() {
	l.refusing = l.refusing && len(l.held) >= MaxConns
	l.freed.Notify()
}

// Observe tracks the state of a connection. It is for http.Server.ConnState.
func (l *Limiter) Observe(c net.Conn, state http.ConnState) {
	own := connOf(c)
	switch state {
	case http.StateHijacked, http.StateClosed:
		l.remove(own)
	case http.StateIdle, http.StateActive:
		l.mu.Lock()
		defer l.mu.Unlock()
		own.used, own.idle, own.complete, own.since = true, state == http.StateIdle, false, time.Now()
		if _, held := l.held[own]; held {
			l.free()
		}
	}
}

// CloseUnused closes the connections without any input so far, such as connections that a browser opens in advance, and
// all new connections. http.Server.Shutdown gives each of these seconds to send a request.
func (l *Limiter) CloseUnused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
	for c := range l.held {
		if !c.used {
			c.Close()
		}
	}
}

// received records that the request on c was received to its end.
func (l *Limiter) received(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.complete = true
}

// body is the body of a request. It records when its end is reached.
type body struct {
	io.ReadCloser
	conn *Conn
	done bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && !b.done {
		b.done = true
		b.conn.limiter.received(b.conn)
	}
	return n, err
}

// follow makes the connection of r record when r is received, and returns its body, nil if the request is complete.
func follow(r *http.Request) *body {
	c := connection(r)
	switch {
	case c == nil:
		return nil
	case r.Body == nil || r.Body == http.NoBody:
		c.limiter.received(c)
		return nil
	}
	b := &body{ReadCloser: r.Body, conn: c}
	r.Body = b
	return b
}
