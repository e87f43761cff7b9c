package network

import "net"

// Blackhole makes the existing connections half-open, permanently: data from either end is received and dropped, and
// neither end learns that the other one closed, as after a pulled cable. New connections work. Held data is dropped,
// too. If an end does not close its connection itself, only Cut and the end of the test do. Blackhole returns the
// number of connections that became half-open.
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

// end is one end of a link.
type end struct {
	net.Conn
	link *link
}

// Read reads data to forward.
func (e end) Read(b []byte) (int, error) {
	for {
		n, err := e.Conn.Read(b)
		if err != nil || !e.link.lost.Load() {
			return n, err
		}
	}
}

// Write forwards b, or drops it, or cuts the connection instead.
func (e end) Write(b []byte) (int, error) {
	if e.link.lost.Load() {
		return len(b), nil
	}
	if !e.link.spend() {
		return 0, net.ErrClosed
	}
	return e.Conn.Write(b)
}
