package sockets

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// queued returns the number of bytes of a connection that the kernel holds and the peer has not acknowledged. It
// returns 0 if the kernel does not report the number.
func queued(c syscall.RawConn) (n int, err error) {
	err = c.Control(func(fd uintptr) { n, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NWRITE) })
	return n, err
}

// state returns values with which a connection counts as failed once it has ended.
func state(syscall.RawConn) (ended, failed bool) { return false, true }
