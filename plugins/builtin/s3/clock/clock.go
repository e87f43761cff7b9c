// Package clock knows the time of a store by its answers.
package clock

import (
	"net/http"
	"sync"
	"time"
)

// Clock is a transport that knows the time of the store: that of the machine may differ. Several goroutines may use it.
type Clock struct {
	Next http.RoundTripper // sends the requests

	mu     sync.Mutex
	behind time.Duration // guarded by mu: how much the store's time is behind this machine's, at most
}

// RoundTrip sends a request and takes note of the time of the answer.
func (c *Clock) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.Next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil { // in whole seconds, of when the answer was made
		c.mu.Lock()
		c.behind = time.Since(at)
		c.mu.Unlock()
	}
	return resp, nil
}

// Now returns a time that the store's clock has reached, that of the machine before the first answer.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(-c.behind)
}
