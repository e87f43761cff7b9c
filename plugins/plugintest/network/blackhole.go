package network

import (
	"net"
	"sync/atomic"
)

// Blackhole makes the connections that exist half-open, for ever: what either end sends is taken and
// dropped, and neither learns that the other one closed, as after a pulled cable. New connections are
// passed on. What is held is dropped, too. Only Cut, and the end of the test, end the connection to an end that does not end it
// itself. It returns how many connections became half-open.
func (p *Proxy) Blackhole() (n int) {
	p.set(func() {
		for l := range p.links {
			if l.lost.CompareAndSwap(false, true) {
				n++
			}
		}
	})
	return n
}

// link is a connection through the proxy.
type link struct{ lost atomic.Bool }

// end is one end of a link.
type end struct {
	net.Conn
	link *link
}

// Read reads what is to be passed on.
func (e end) Read(b []byte) (int, error) {
	for {
		n, err := e.Conn.Read(b)
		if err != nil || !e.link.lost.Load() {
			return n, err
		}
	}
}

// Write passes on b, or drops it.
func (e end) Write(b []byte) (int, error) {
	if e.link.lost.Load() {
		return len(b), nil
	}
	return e.Conn.Write(b)
}
