//go:build !linux

package guard

import "net"

// peerOf returns the process that opened a connection through a Unix socket, nil for any other connection.
func peerOf(c net.Conn) *peer {
	if _, ok := innermost(c).(*net.UnixConn); ok {
		return &peer{}
	}
	return nil
}
