package plugins

import (
	"time"
)

// Timeouts limits the unary calls to a connector. Zero means a minute.
type Timeouts struct {
	Configure time.Duration
	Open      time.Duration
	Lifecycle time.Duration // each of the lifecycle calls
	Teardown  time.Duration
}

const (
	defaultTimeout = time.Minute
	// grace is the time in which a connector must notice that its context ended.
	grace = time.Second
)
