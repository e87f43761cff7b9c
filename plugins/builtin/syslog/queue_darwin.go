package syslog

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// queued returns how many bytes the kernel was given for a connection that the other end has not acknowledged. A kernel that
// does not say counts as one that was given none.
func queued(c syscall.RawConn) (n int, err error) {
	err = c.Control(func(fd uintptr) { n, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NWRITE) })
	return n, err
}
