package syslog

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// queued returns the number of bytes of a connection that the kernel holds and the peer has not acknowledged. It
// returns 0 if the kernel does not report the number.
func queued(c syscall.RawConn) (n int, err error) {
	err = c.Control(func(fd uintptr) {
		size, _ := unix.IoctlGetUint32(int(fd), unix.SIOCOUTQ)
		n = int(size)
	})
	return n, err
}
