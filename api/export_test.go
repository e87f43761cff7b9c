package api

import (
	"time"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/inspect"
)

// ShortTimeouts gives clients little time to send headers, a whole request, and another one,
// until restore is called.
func ShortTimeouts(header, read, idle time.Duration) (restore func()) {
	h, r, i := headerTimeout, readTimeout, idleTimeout
	headerTimeout, readTimeout, idleTimeout = header, read, idle
	return func() { headerTimeout, readTimeout, idleTimeout = h, r, i }
}

// LongShutdown makes servers wait this long for their clients when they end.
func LongShutdown(d time.Duration) { shutdownTimeout = d }

// ShortSessionTimeouts sets how long clients of a server's inspector may take to receive a message or to answer a ping,
// and the time between pings.
func ShortSessionTimeouts(answer, ping time.Duration) func(*Server) {
	return func(s *Server) {
		limits := inspect.DefaultLimits
		limits.Answer, limits.Ping = answer, ping
		s.limits = &limits
	}
}

// FilterBurst sets how much time filters of a server may take at once, none when it is negative.
func FilterBurst(d time.Duration) func(*Server) {
	return func(s *Server) {
		limits := inspect.DefaultLimits
		limits.Filter = d
		s.limits = &limits
	}
}

// ConnectionWait sets how long new connections wait for a slot, until restore is called.
func ConnectionWait(d time.Duration) (restore func()) {
	oldWait, oldGrace := placeTimeout, placeGrace
	placeTimeout, placeGrace = d, d/10
	return func() { placeTimeout, placeGrace = oldWait, oldGrace }
}

// Limits of connections and streams.
const (
	MaxConns    = guard.MaxConns
	MaxRejected = guard.MaxRejected
	MaxStreams  = maxStreams
)

// The editor's completion, and what pages follow.
type (
	PluginSettings = pluginSettings
	Source         = source
)

// Complete is complete.
var Complete = complete
