package s3

import (
	"net/http"
	"sync"
	"time"
)

// storeClock is a transport that knows the time of the store by its answers: that of the machine may differ. Several
// goroutines may use it.
type storeClock struct {
	Next http.RoundTripper // sends the requests

	mu     sync.Mutex
	behind time.Duration // guarded by mu: how much the store's time is behind this machine's, at most
}

// RoundTrip sends a request and takes note of the time of the answer.
func (c *storeClock) RoundTrip(r *http.Request) (*http.Response, error) {
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
func (c *storeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(-c.behind)
}
