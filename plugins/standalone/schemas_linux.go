package standalone

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// isOwn reports whether a process of this user, or of root, has connected.
func isOwn(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	var peer *unix.Ucred
	if controlErr := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); controlErr != nil || err != nil {
		return false
	}
	return peer.Uid == uint32(os.Geteuid()) || peer.Uid == 0
}
