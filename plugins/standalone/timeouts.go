package standalone

import "time"

// Default timeouts for a plugin; the Client, or Executables, may override them. The engine ends a teardown earlier, see
// its timeouts.go.
const (
	defaultStartTimeout   = time.Minute
	defaultSpecifyTimeout = 30 * time.Second
	defaultCallTimeout    = time.Minute
	teardownTimeout       = 65 * time.Second // plugins wait up to 60 s for their own readers
	defaultStopTimeout    = 65 * time.Second
	maxQuiet              = 2 * time.Second
)

// endTimeouts limit how long the host waits for a plugin that ends.
type endTimeouts struct {
	stream    time.Duration // from half-closing a stream to cancelling it
	exit      time.Duration // from the loss of the connection to the end of the process, which gives the reason
	shutdown  time.Duration // from asking a process to exit to SIGTERM
	terminate time.Duration // from SIGTERM to SIGKILL
}

var defaultEndTimeouts = endTimeouts{
	stream: time.Second, exit: time.Second, shutdown: 2 * time.Second, terminate: time.Second,
}

func (c *Client) callTimeout() time.Duration {
	if c.CallTimeout == 0 {
		return defaultCallTimeout
	}
	return c.CallTimeout
}

func (c *Client) stopTimeout() time.Duration {
	if c.StopTimeout == 0 {
		return defaultStopTimeout
	}
	return c.StopTimeout
}

func (c *Client) endTimeouts() endTimeouts {
	if c.ends == nil {
		return defaultEndTimeouts
	}
	return *c.ends
}

// quietTimeout returns the time to wait after Stop for messages that may never come.
func (c *Client) quietTimeout() time.Duration { return min(c.stopTimeout(), maxQuiet) }
