package standalone

import (
	"os"

	"golang.org/x/sys/unix"
)

// mayBeWritten reports whether somebody may have the file open for writing. The kernel grants a lease for reading only
// on a file that nobody has open for writing, and only to its owner or root.
func mayBeWritten(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	fd := f.Fd()
	if _, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return true
	}
	_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK) // closing the file ends it, too
	return false
}
