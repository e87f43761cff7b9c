//go:build !linux

package syslog

import (
	"syscall"
	"time"
)

// patience leaves it to the kernel when it gives up a connection.
func patience(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
