//go:build darwin || freebsd || netbsd

package fingerprint

import "syscall"

// times returns when the content and when anything of a file changed.
func times(st *syscall.Stat_t) (mtime, ctime syscall.Timespec) { return st.Mtimespec, st.Ctimespec }
