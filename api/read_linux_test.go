package api_test

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hasRead reports whether the server has read everything that the client sent.
func hasRead(server, client net.Conn) bool {
	return queued(client, unix.TIOCOUTQ) == 0 && queued(server, unix.TIOCINQ) == 0
}

// queued returns how many bytes are in a queue of the connection, none when it is closed.
func queued(c net.Conn, queue uint) (n int) {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), queue) }) // it is closed
	}
	return n
}
