//go:build linux

package faults

import "golang.org/x/sys/unix"

// amd64 has older calls without a directory argument, which SQLite makes.
func init() {
	watched[unix.SYS_RENAME] = operation{name: "rename", descriptor: -1, path: 1}
	watched[unix.SYS_LINK] = operation{name: "link", descriptor: -1, path: 1}
	watched[unix.SYS_MKDIR] = operation{name: "mkdir", descriptor: -1}
	watched[unix.SYS_UNLINK] = operation{name: "remove", descriptor: -1}
	watched[unix.SYS_RMDIR] = operation{name: "remove", descriptor: -1}
}
