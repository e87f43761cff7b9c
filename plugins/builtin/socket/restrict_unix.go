//go:build unix

package socket

import (
	"io/fs"
	"syscall"
)

// restrict gives the file of a Unix socket, which is about to be created, no more than these permissions: otherwise
// others could connect before they are set. Systems other than Linux do not offer this.
func restrict(c syscall.RawConn, mode fs.FileMode) error {
	return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode)) })
}
