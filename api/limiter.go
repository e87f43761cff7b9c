package api

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// How many connections there may be beside streams, which are counted apart.
const (
	maxConns   = 256
	maxRefused = 32 // more, to say that there are too many
)

// placeTimeout is how long new connections wait for a place until they are refused.
var placeTimeout = 2 * time.Second

// limiter accepts a limited number of connections. When there are too many, one that
// waits for its next request is closed in favour of a new one. If there is none, new
// ones wait for a while, as many may come at once, and are refused then until one ends.
type limiter struct {
	net.Listener
	log   *slog.Logger
	freed chan struct{} // capacity 1: there may be a place

	mu       sync.Mutex
	held     map[*conn]bool // guarded by mu: whether it waits for its next request
	refusing bool           // guarded by mu: no place came free for too long
}

func newLimiter(l net.Listener, log *slog.Logger) *limiter {
	return &limiter{Listener: l, log: log, freed: make(chan struct{}, 1), held: map[*conn]bool{}}
}

// Accept returns the next connection that has a place, or may be told that it has none.
func (l *limiter) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		own := &conn{Conn: c}
		own.release = func() { l.remove(own) }
		if l.admit(own) || l.wait(own) {
			return own, nil
		}
		c.Close() // there are too many even to say so
	}
}

// wait returns whether c is admitted in the end.
func (l *limiter) wait(c *conn) bool {
	timeout := time.NewTimer(placeTimeout)
	defer timeout.Stop()
	for {
		select {
		case <-l.freed:
			if l.admit(c) {
				return true
			}
		case <-timeout.C:
			l.refuse()
			return l.admit(c)
		}
	}
}

// refuse has new connections be refused until there is a place again.
func (l *limiter) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.refusing {
		l.log.Warn("too many connections, new ones are refused until one ends", "limit", maxConns)
	}
	l.refusing = true
}

// admit returns whether c has a place, or is to be told that it has none.
func (l *limiter) admit(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) >= maxConns && !l.closeIdle() {
		if !l.refusing || len(l.held) >= maxConns+maxRefused {
			return false
		}
		c.refused = true
	}
	l.held[c] = false
	return true
}

// closeIdle closes a connection that waits for its next request, if there is one. The
// caller holds mu.
func (l *limiter) closeIdle() bool {
	for c, idle := range l.held {
		if idle {
			c.Close()
			delete(l.held, c)
			return true
		}
	}
	return false
}

// remove gives up the place of a connection, if it has one.
func (l *limiter) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, held := l.held[c]; held {
		delete(l.held, c)
		l.free()
	}
}

// free has Accept look for a place. The caller holds mu.
func (l *limiter) free() {
	l.refusing = l.refusing && len(l.held) >= maxConns
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// observe is told what becomes of a connection.
func (l *limiter) observe(c net.Conn, state http.ConnState) {
	own := connOf(c)
	switch state {
	case http.StateHijacked, http.StateClosed:
		l.remove(own)
	case http.StateIdle, http.StateActive:
		l.mu.Lock()
		defer l.mu.Unlock()
		if _, held := l.held[own]; held {
			l.held[own] = state == http.StateIdle
			l.free()
		}
	}
}
