package syslog

import (
	"cmp"
	"syscall"
	"time"
)

const tcpUserTimeout = 18 // TCP_USER_TIMEOUT of linux/tcp.h

// patience has the kernel give up a connection of which the other end takes nothing for so long.
func patience(limit time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(max(limit.Milliseconds(), 1)))
		})
		return cmp.Or(err, failed)
	}
}
