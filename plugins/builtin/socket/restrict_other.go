//go:build !unix

package socket

import (
	"io/fs"
	"syscall"
)

// restrict does nothing: the system has no permissions of sockets.
func restrict(syscall.RawConn, fs.FileMode) error { return nil }
