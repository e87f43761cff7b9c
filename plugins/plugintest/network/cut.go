package network

import (
	"net"
	"sync/atomic"
)

// CutEverywhere cuts all connections, and each further one in place of a part of data: the first connection loses its
// first part, the next one its second, in both directions together, up to part number last, and then from the first one
// again. How far a client gets does not depend on the speed of the machine, as it does when connections are cut at
// random times. cuts returns the number of lost parts. Heal ends this for further connections.
func (p *Proxy) CutEverywhere(last int) (cuts func() int) {
	var lost atomic.Int64
	opened := 0
	p.set(func() {
		p.limit = func(l *link) {
			l.last, l.cuts = int64(1+opened%last), &lost
			opened++
		}
	})
	p.Cut()
	return func() int { return int(lost.Load()) }
}

// link is a connection through the proxy.
type link struct {
	ends  [2]net.Conn
	lost  atomic.Bool   // see Blackhole
	last  int64         // the part that is lost when the connection is cut; 0: it is not cut
	cuts  *atomic.Int64 // counts lost parts
	parts atomic.Int64
}

// spend counts a part. It reports false, and resets both ends, if the part is where the connection is cut.
func (l *link) spend() bool {
	if l.last == 0 {
		return true
	}
	n := l.parts.Add(1)
	if n < l.last {
		return true
	}
	if n == l.last {
		l.cuts.Add(1)
	}
	for _, c := range l.ends {
		reset(c)
	}
	return false
}

// reset closes c such that its peer sees a reset, not an orderly end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
