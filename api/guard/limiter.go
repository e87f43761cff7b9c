package guard

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/spec/notify"
)

// How many connections there may be beside streams, which are counted apart.
const (
	MaxConns   = 256
	MaxRefused = 32 // more, to say that there are too many
)

// Limiter accepts a limited number of connections. When there are too many, one that
// waits for its next request is closed in favour of a new one. If there is none, new
// ones wait for a while, as many may come at once, and are refused then until one ends.
type Limiter struct {
	net.Listener
	log   *slog.Logger
	wait  time.Duration // that new connections wait for a place until they are refused
	freed notify.Signal // there may be a place

	mu       sync.Mutex
	held     map[*Conn]bool // guarded by mu: whether it waits for its next request
	refusing bool           // guarded by mu: no place came free for too long
}

// Limit limits the connections that l accepts. A new one waits as long for a place.
func Limit(l net.Listener, wait time.Duration, log *slog.Logger) *Limiter {
	return &Limiter{Listener: l, log: log, wait: wait, freed: notify.NewSignal(), held: map[*Conn]bool{}}
}

// Accept returns the next connection that has a place, or may be answered that it has none.
func (l *Limiter) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		own := &Conn{Conn: c}
		own.release = func() { l.remove(own) }
		if l.admit(own) || l.await(own) {
			return own, nil
		}
		c.Close() // there are too many even to say so
	}
}

// await returns whether c is admitted in the end.
func (l *Limiter) await(c *Conn) bool {
	timeout := time.NewTimer(l.wait)
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
func (l *Limiter) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.refusing {
		l.log.Warn("too many connections, new ones are refused until one ends", "limit", MaxConns)
	}
	l.refusing = true
}

// admit returns whether c has a place, or is to be answered that it has none.
func (l *Limiter) admit(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) >= MaxConns && !l.closeIdle() {
		if !l.refusing || len(l.held) >= MaxConns+MaxRefused {
			return false
		}
		c.refused = true
	}
	l.held[c] = false
	return true
}

// closeIdle closes a connection that waits for its next request, if there is one. The
// caller holds mu.
func (l *Limiter) closeIdle() bool {
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
func (l *Limiter) remove(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, held := l.held[c]; held {
		delete(l.held, c)
		l.free()
	}
}

// free has Accept try again. The caller holds mu.
func (l *Limiter) free() {
	l.refusing = l.refusing && len(l.held) >= MaxConns
	l.freed.Notify()
}

// Observe follows the state of a connection; it is for http.Server.ConnState.
func (l *Limiter) Observe(c net.Conn, state http.ConnState) {
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
