package guard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Conn is a connection that occupies a slot of a Limiter.
type Conn struct {
	net.Conn
	limiter *Limiter
	network netip.Prefix // of the client
	peer    *peer        // the peer of a Unix socket; nil for any other connection
	refused bool         // there are too many connections: its requests are not performed

	// Guarded by limiter.mu.
	used     bool      // something came in on it
	idle     bool      // it waits for its next request
	complete bool      // its request was received to the end
	since    time.Time // it is idle, or its request has begun
}

type connKey struct{}

// WithConn adds their connection to the context of requests.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf(c))
}

// connOf returns the connection of a Limiter beneath the connection of the HTTP server, nil if there is none.
func connOf(c net.Conn) *Conn {
	for {
		if own, ok := c.(*Conn); ok {
			return own
		}
		over, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = over.NetConn()
	}
}

// connection returns the connection of r, nil when another server serves it.
func connection(r *http.Request) *Conn {
	c, _ := r.Context().Value(connKey{}).(*Conn)
	return c
}

// Release gives up the slot that the connection of r occupies in its Limiter.
func Release(r *http.Request) {
	if c := connection(r); c != nil {
		c.limiter.remove(c)
	}
}

// peer is the process that opened a connection through a Unix socket.
type peer struct {
	uid, gid uint32
	pid      int32
	known    bool // reported by the system
}

// attributes describes p for the log.
func (p *peer) attributes() []any {
	if !p.known {
		return []any{"remote", "socket"}
	}
	return []any{"remote", "socket", "uid", p.uid, "gid", p.gid, "pid", p.pid}
}

// innermost returns the innermost connection beneath all wrappers.
func innermost(c net.Conn) net.Conn {
	for {
		over, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = over.NetConn()
	}
}

// NetConn returns the underlying connection.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// CloseWrite lets the HTTP server give the client time to read the answer to a request that it does not read to the
// end.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
