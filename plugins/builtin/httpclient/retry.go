package httpclient

import (
	"net/http"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
)

const longestAsked = 10 * time.Minute // maximum for the pause that a server requests

// PauseAfter returns the next pause of b, or the longer pause that the response requests.
func PauseAfter(r *Response, b *common.Backoff) time.Duration {
	pause := b.Next()
	if r == nil {
		return pause
	}
	return max(pause, RetryAfter(r.Header))
}

// RetryAfter returns the pause that the header Retry-After requests, at most ten minutes; 0 without one.
func RetryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return time.Duration(min(seconds, int(longestAsked/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, time.Until(at)), longestAsked)
	}
	return 0
}

// Passes reports whether a retry of the request may succeed.
func Passes(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusLocked:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= 500
}

// Blames reports whether a status blames the content of the request, not its URL, its credentials or the server.
func Blames(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusProxyAuthRequired, http.StatusGone,
		http.StatusUpgradeRequired, http.StatusMisdirectedRequest:
		return false
	}
	return status/100 == 4
}
