package syslog

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// queued returns how many bytes the kernel was given for a connection that the other end has not acknowledged. A kernel that
// does not say counts as one that was given none.
func queued(c syscall.RawConn) (n int, err error) {
	err = c.Control(func(fd uintptr) {
		size, _ := unix.IoctlGetUint32(int(fd), unix.SIOCOUTQ)
		n = int(size)
	})
	return n, err
}
