package s3

import (
	"net/http"
	"sync"
	"time"
)

// storeClock is a transport that learns the store's time from its responses: the clock of the machine may differ. It is
// safe for concurrent use.
type storeClock struct {
	Next http.RoundTripper // sends the requests

	mu     sync.Mutex
	behind time.Duration // guarded by mu: the largest lag of the store's clock behind this machine's
}

// RoundTrip sends a request and records the time of the response.
func (c *storeClock) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.Next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil { // when the response was made, in whole seconds
		c.mu.Lock()
		c.behind = time.Since(at)
		c.mu.Unlock()
	}
	return resp, nil
}

// Now returns a time that the store's clock has reached. Before the first response it is the time of the machine.
func (c *storeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(-c.behind)
}
