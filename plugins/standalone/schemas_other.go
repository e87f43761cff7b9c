//go:build !linux

package standalone

import "net"

// isOwn reports true: here the private directory alone keeps other users out.
func isOwn(*net.UnixConn) bool { return true }
