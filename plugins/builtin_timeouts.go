package plugins

import (
	"time"
)

// BuiltinTimeouts limits the unary calls to a built-in connector. Zero means a minute.
type BuiltinTimeouts struct {
	Configure time.Duration
	Open      time.Duration
	Lifecycle time.Duration // each of the lifecycle calls
	Teardown  time.Duration
}

const (
	defaultBuiltinTimeout = time.Minute
	// grace is the time in which a connector must notice that its context ended.
	grace = time.Second
)
