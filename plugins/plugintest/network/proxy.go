// Package network provides free ports and certificates for tests, and proxies between a client and a server that delay,
// stall and break connections.
package network

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a network between a client and a server that fails on command.
type Proxy struct {
	target   string
	listener net.Listener
	done     chan struct{} // closed with the proxy

	mu     sync.Mutex
	change *sync.Cond            // of the fields below
	conns  map[net.Conn]struct{} // both ends of all connections
	links  map[*link]struct{}    // all connections
	delay  time.Duration         // of every forwarded part
	held   bool                  // nothing is forwarded, nothing is closed
	parts  int                   // parts that wait to be forwarded
	refuse bool                  // new connections are closed at once
	limit  func(*link)           // sets which part of a new connection is lost; nil: none
	closed bool

	relay     func(to, from net.Conn) // forwards data until either end closes
	reordered bool                    // guarded by mu: see Reorder
	observe   func(bool, []byte)      // guarded by mu: see Observe; may be nil
	again     atomic.Int64            // duplicated messages
	late      atomic.Int64            // messages that others may have overtaken
}

// NewProxy returns a proxy to the server at target. It is closed when the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listener: l, done: make(chan struct{}), conns: map[net.Conn]struct{}{},
		links: map[*link]struct{}{}}
	p.change, p.relay = sync.NewCond(&p.mu), p.copy
	ended := make(chan struct{})
	go func() { defer close(ended); p.accept() }()
	t.Cleanup(func() {
		close(p.done)
		p.set(func() { p.closed, p.held = true, false })
		_ = l.Close()
		p.Cut()
		<-ended
	})
	return p
}

// Addr returns the address for clients.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes all connections. New ones are accepted, unless Refuse says otherwise.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c)
	}
	p.change.Broadcast()
}

// Refuse closes new connections at once, or no longer.
func (p *Proxy) Refuse(on bool) { p.set(func() { p.refuse = on }) }

// Delay delays all data by d from now on, in both directions.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// Hold stalls all connections: they stay open, and no data passes. When Hold ends, the held data is forwarded.
func (p *Proxy) Hold(on bool) { p.set(func() { p.held = on }) }

// Holds returns the number of connection ends with held data.
func (p *Proxy) Holds() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.parts
}

// Heal ends all faults.
func (p *Proxy) Heal() {
	p.set(func() { p.held, p.refuse, p.delay, p.reordered, p.limit = false, false, 0, false, nil })
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.change.Broadcast()
}

func (p *Proxy) accept() {
	var copies sync.WaitGroup
	defer copies.Wait()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		copies.Go(func() { p.serve(client) })
	}
}

// refuses reports whether new connections are closed at once.
func (p *Proxy) refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuse || p.closed
}

func (p *Proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	if p.refuses() {
		return
	}
	dialer := net.Dialer{Timeout: 5 * time.Second}
	server, err := dialer.DialContext(context.Background(), "tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	l, refuse := &link{ends: [2]net.Conn{client, server}}, false
	p.set(func() {
		if p.limit != nil {
			p.limit(l)
		}
		if refuse = p.refuse || p.closed; !refuse { // checked again: Cut does not know of this connection
			p.conns[client], p.conns[server], p.links[l] = struct{}{}, struct{}{}, struct{}{}
		}
	})
	if refuse {
		return
	}
	defer p.set(func() { delete(p.conns, client); delete(p.conns, server); delete(p.links, l) })
	var both sync.WaitGroup
	relay := func(to, from net.Conn) {
		p.relay(end{to, l}, end{from, l})
		_ = from.Close()
		if !l.lost.Load() {
			_ = to.Close()
		}
	}
	both.Go(func() { relay(server, client) })
	both.Go(func() { relay(client, server) })
	both.Wait()
}

func (p *Proxy) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.pass()
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			p.pass() // the end follows the held data
			return
		}
	}
}

// pass waits for the delay, and until data is no longer held.
func (p *Proxy) pass() {
	p.mu.Lock()
	delay := p.delay
	p.parts++
	for p.held && !p.closed {
		p.change.Wait()
	}
	p.parts--
	p.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-p.done:
	}
}
