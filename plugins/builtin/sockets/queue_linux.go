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

// hungUp reports whether the peer has closed its side of the connection. The kernel sets this state of a Unix socket
// before it frees the bytes that the peer has not read, and that queued counts.
func hungUp(c syscall.RawConn) (ended bool) {
	_ = c.Control(func(fd uintptr) {
		state := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(state, 0)
		ended = err == nil && n > 0
	})
	return ended
}
