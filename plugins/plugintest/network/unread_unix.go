//go:build unix

package network

import (
	"net"
	"syscall"
	"testing"
)

// Unread returns the number of bytes, up to 4096, that arrived on a connection and have not been read. It does not
// wait, so a test can check that nothing has arrived once no more can arrive. It fails the test if the connection has
// ended.
func Unread(t testing.TB, c net.Conn) (n int) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	var failed error
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			n, _, failed = syscall.Recvfrom(int(fd), make([]byte, 4096), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		})
	}
	switch {
	case err != nil:
		t.Errorf("cannot examine a connection: %v", err)
	case failed == syscall.EAGAIN:
		return 0
	case failed != nil || n == 0:
		t.Errorf("the connection has ended: %v", failed)
	}
	return n
}
