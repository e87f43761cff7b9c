package api

import "time"

// Hurry gives clients little time to send headers, a whole request, and another one,
// until restore is called.
func Hurry(header, read, idle time.Duration) (restore func()) {
	h, r, i := headerTimeout, readTimeout, idleTimeout
	headerTimeout, readTimeout, idleTimeout = header, read, idle
	return func() { headerTimeout, readTimeout, idleTimeout = h, r, i }
}
