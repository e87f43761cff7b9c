package http

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
	longestAsked = 10 * time.Minute // that a server may ask for
)

// backoff returns pauses that grow exponentially, with jitter: clients that failed together do
// not come back together.
type backoff struct{ tries int }

// next returns the next pause, at least what the response asks for.
func (b *backoff) next(r *response) time.Duration {
	pause := longestPause
	if b.tries < 16 {
		pause = min(firstPause<<b.tries, longestPause)
	}
	b.tries++
	pause = pause/2 + rand.N(pause/2+1)
	if r == nil {
		return pause
	}
	return max(pause, min(retryAfter(r.header, time.Now()), longestAsked))
}

// retryAfter returns the pause that the header Retry-After asks for, 0 without one.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return time.Duration(min(seconds, int(longestAsked/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// passes reports whether the same request may succeed later.
func passes(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusLocked:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= 500
}
