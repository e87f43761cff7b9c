//go:build unix && !darwin && !freebsd && !netbsd

package fingerprint

import "syscall"

// times returns the times of the last change of a file's content, and of anything in the file.
func times(st *syscall.Stat_t) (mtime, ctime syscall.Timespec) { return st.Mtim, st.Ctim }
