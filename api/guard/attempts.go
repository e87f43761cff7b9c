package guard

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	wrongPerSecond = 10   // wrong tokens that an address may send
	maxAddresses   = 1024 // that have separate buckets
)

// attempts limits wrong tokens by network address, with a token bucket each. A valid token is never counted, so that a
// client cannot lock out others at its address. The zero value is ready for use.
type attempts struct {
	mu   sync.Mutex
	from map[netip.Prefix]*rate.Limiter // guarded by mu
}

// tooMany counts a wrong token, and reports whether there were too many recently.
func (a *attempts) tooMany(remote string) bool { return !a.limiter(network(remote)).Allow() }

// limiter returns the bucket of a network. When there are too many networks, all unknown ones share a bucket.
func (a *attempts) limiter(n netip.Prefix) *rate.Limiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.from[n] == nil && len(a.from) >= maxAddresses {
		a.forget(time.Now())
	}
	if a.from[n] == nil && len(a.from) >= maxAddresses {
		n = netip.Prefix{}
	}
	if a.from == nil {
		a.from = map[netip.Prefix]*rate.Limiter{}
	}
	if a.from[n] == nil {
		a.from[n] = rate.NewLimiter(wrongPerSecond, wrongPerSecond)
	}
	return a.from[n]
}

// forget drops the buckets that are full again. The caller holds mu.
func (a *attempts) forget(now time.Time) {
	for n, bucket := range a.from {
		if bucket.TokensAt(now) >= wrongPerSecond {
			delete(a.from, n)
		}
	}
}

// network returns the network that stands for an address: the address itself, or for IPv6 the network of the host.
func network(remote string) netip.Prefix {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := ap.Addr().Unmap().WithZone(""), 64
	if ip.Is4() {
		bits = 32
	}
	n, _ := ip.Prefix(bits) // bits is always valid
	return n
}
