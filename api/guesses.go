package api

import (
	"net/netip"
	"sync"
	"time"
)

const (
	wrongPerSecond = 10   // wrong tokens that an address may send
	maxAddresses   = 1024 // that are told apart
)

// guesses counts wrong tokens by where they come from. A valid token is never counted,
// so that nobody can lock out who shares an address with him. The zero value is ready.
type guesses struct {
	mu   sync.Mutex
	from map[netip.Prefix]*budget // guarded by mu
}

// tooMany notes a wrong token, and returns whether there were too many of late.
func (g *guesses) tooMany(remote string) bool {
	return g.of(network(remote)).take(1, 1, wrongPerSecond) == 0
}

// of returns what is left to a network. When there are too many to tell apart, those
// that are not known yet share one.
func (g *guesses) of(n netip.Prefix) *budget {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.from[n] == nil && len(g.from) >= maxAddresses {
		g.forget()
	}
	if g.from[n] == nil && len(g.from) >= maxAddresses {
		n = netip.Prefix{}
	}
	if g.from == nil {
		g.from = map[netip.Prefix]*budget{}
	}
	if g.from[n] == nil {
		g.from[n] = &budget{}
	}
	return g.from[n]
}

// forget drops those that sent nothing wrong for a second, whose budget is full again.
// The caller holds mu.
func (g *guesses) forget() {
	for n, b := range g.from {
		if b.idle() > time.Second {
			delete(g.from, n)
		}
	}
}

// network returns what an address counts as: itself, or the network that a host is
// given in IPv6.
func network(remote string) netip.Prefix {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := ap.Addr().Unmap().WithZone(""), 64
	if ip.Is4() {
		bits = 32
	}
	n, _ := ip.Prefix(bits) // that many fit
	return n
}
