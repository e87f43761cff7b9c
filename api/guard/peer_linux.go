package guard

import (
	"net"
	"syscall"
)

// peerOf returns the process that opened a connection through a Unix socket, nil for any other connection.
func peerOf(c net.Conn) *peer {
	local, ok := innermost(c).(*net.UnixConn)
	if !ok {
		return nil
	}
	p := &peer{}
	raw, err := local.SyscallConn()
	if err != nil {
		return p
	}
	_ = raw.Control(func(fd uintptr) { // without credentials the user is unknown
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			p.uid, p.gid, p.pid, p.known = cred.Uid, cred.Gid, cred.Pid, true
		}
	})
	return p
}
