package api

import (
	"time"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/inspect"
	"github.com/conduit-agent/conduit/api/resource"
)

// ShortTimeouts gives clients little time to send headers, a whole request, and another one,
// until restore is called.
func ShortTimeouts(header, read, idle time.Duration) (restore func()) {
	h, r, i := headerTimeout, readTimeout, idleTimeout
	headerTimeout, readTimeout, idleTimeout = header, read, idle
	return func() { headerTimeout, readTimeout, idleTimeout = h, r, i }
}

// LongShutdown has servers wait that long for their clients when they end.
func LongShutdown(d time.Duration) { shutdownTimeout = d }

// ShortSessionTimeouts gives clients of a server's inspector this time to take a message or to
// answer a ping, and that time between pings.
func ShortSessionTimeouts(answer, ping time.Duration) func(*Server) {
	return func(s *Server) {
		limits := inspect.DefaultLimits
		limits.Answer, limits.Ping = answer, ping
		s.limits = &limits
	}
}

// FilterBurst has filters of a server take that much time at once, none when it is negative.
func FilterBurst(d time.Duration) func(*Server) {
	return func(s *Server) {
		limits := inspect.DefaultLimits
		limits.Filter = d
		s.limits = &limits
	}
}

// ConnectionWait has new connections wait that long for a place until restore is called.
func ConnectionWait(d time.Duration) (restore func()) {
	oldWait, oldGrace := placeTimeout, placeGrace
	placeTimeout, placeGrace = d, d/10
	return func() { placeTimeout, placeGrace = oldWait, oldGrace }
}

// How many connections and streams there may be.
const (
	MaxConns   = guard.MaxConns
	MaxRefused = guard.MaxRefused
	MaxStreams = resource.MaxStreams
)
