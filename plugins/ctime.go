//go:build unix && !darwin && !freebsd && !netbsd

package plugins

import "syscall"

// ctime returns when anything of a file changed.
func ctime(st *syscall.Stat_t) syscall.Timespec { return st.Ctim }
