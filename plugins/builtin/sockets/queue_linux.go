package sockets

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// queued returns the number of bytes of a connection that the kernel holds and the peer has not acknowledged. Of a Unix
// socket it returns the memory of the bytes that the peer has not read, which is more. It returns 0 if the kernel does
// not report the number.
func queued(c syscall.RawConn) (n int, err error) {
	err = c.Control(func(fd uintptr) {
		size, _ := unix.IoctlGetUint32(int(fd), unix.SIOCOUTQ)
		n = int(size)
	})
	return n, err
}

// state reports whether the peer has closed its side of the connection, and whether the connection has an error that no
// call has returned yet.
func state(c syscall.RawConn) (ended, failed bool) {
	_ = c.Control(func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		if n, err := unix.Poll(polled, 0); err != nil || n == 0 {
			failed = err != nil
			return
		}
		ended, failed = true, polled[0].Revents&unix.POLLERR != 0
	})
	return ended, failed
}
