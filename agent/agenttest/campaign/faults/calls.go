//go:build linux && (amd64 || arm64)

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Call is a system call that a process is about to make.
type Call struct {
	Name string // open for an open for writing, write, truncate, fsync, rename, link, mkdir or remove
	Path string // path of the file; the new path of rename and link
	Size int64  // of a write

	Thread int // the calling thread
}

// operation describes a system call and its arguments.
type operation struct {
	name       string
	descriptor int // index of the descriptor: of the file, or of the directory that a path is relative to; -1 for none
	path       int // index of the path; -1 for none
	flags      int // index of the flags of an open
}

// watched are the intercepted calls.
var watched = map[int]operation{
	unix.SYS_FSYNC:           {name: "fsync", path: -1},
	unix.SYS_FDATASYNC:       {name: "fsync", path: -1},
	unix.SYS_WRITE:           {name: "write", path: -1},
	unix.SYS_PWRITE64:        {name: "write", path: -1},
	unix.SYS_WRITEV:          {name: "write", path: -1},
	unix.SYS_PWRITEV:         {name: "write", path: -1},
	unix.SYS_FALLOCATE:       {name: "write", path: -1},
	unix.SYS_COPY_FILE_RANGE: {name: "write", descriptor: 2, path: -1},
	unix.SYS_FTRUNCATE:       {name: "truncate", path: -1},
	unix.SYS_OPENAT:          {name: "open", path: 1, flags: 2},
	unix.SYS_RENAMEAT:        {name: "rename", descriptor: 2, path: 3},
	unix.SYS_RENAMEAT2:       {name: "rename", descriptor: 2, path: 3},
	unix.SYS_LINKAT:          {name: "link", descriptor: 2, path: 3},
	unix.SYS_MKDIRAT:         {name: "mkdir", path: 1},
	unix.SYS_UNLINKAT:        {name: "remove", path: 1},
}

// callOf decodes the call that a process is about to make. It reports false for an open that changes nothing.
func callOf(n *notification) (c Call, changes bool) {
	o := watched[int(n.Number)]
	c = Call{Name: o.name, Thread: int(n.PID)}
	if o.flags > 0 {
		const writes = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC
		if n.Args[o.flags]&writes == 0 {
			return c, false
		}
	}
	if o.path < 0 {
		c.Size = int64(n.Args[2])
		c.Path = n.descriptor(o.descriptor)
		return c, true
	}
	c.Path = textOf(n.PID, n.Args[o.path])
	if !filepath.IsAbs(c.Path) {
		c.Path = filepath.Join(n.descriptor(o.descriptor), c.Path)
	}
	return c, true
}

// descriptor returns the path of a descriptor among the arguments, or of the working directory.
func (n *notification) descriptor(argument int) string {
	link := fmt.Sprintf("/proc/%d/cwd", n.PID)
	if argument >= 0 && int32(n.Args[argument]) != unix.AT_FDCWD {
		link = fmt.Sprintf("/proc/%d/fd/%d", n.PID, int32(n.Args[argument]))
	}
	path, _ := os.Readlink(link)
	return path
}

// textOf reads the text at an address in another process.
func textOf(pid uint32, at uint64) string {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return ""
	}
	defer memory.Close()
	text := make([]byte, 4096)
	n, _ := memory.ReadAt(text, int64(at))
	path, _, _ := strings.Cut(string(text[:n]), "\x00")
	return path
}
