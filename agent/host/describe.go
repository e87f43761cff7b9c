package host

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec/lazy"
)

// Process describes this process and its machine.
func Process() rest.Agent {
	name, _ := os.Hostname() // empty when the machine has none
	return rest.Agent{OS: runtime.GOOS, Arch: runtime.GOARCH, Host: name, PID: os.Getpid(), Unit: unit(), Goroutines: runtime.NumGoroutine(),
		Memory: rest.Memory{Resident: resident()}}
}

// resident returns the resident memory of this process in bytes, 0 if /proc does not have it.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

var unitName = lazy.Regexp(`([\w.@\\-]+\.service)\b`)

// unit returns the unit of systemd that contains this process, "" for none.
func unit() string {
	if os.Getenv("INVOCATION_ID") == "" {
		return ""
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return unitName().FindString(string(groups))
}

// Store describes the store at path and its file system. problem is the problem with the store, nil for none.
func Store(path string, problem error) rest.Store {
	s := rest.Store{Path: path}
	if info, err := os.Stat(path); err == nil {
		s.Bytes = info.Size()
	}
	if info, err := os.Stat(path + "-wal"); err == nil {
		s.WALBytes = info.Size()
	}
	var fs syscall.Statfs_t
	if syscall.Statfs(path, &fs) == nil {
		s.DiskFree, s.DiskTotal = int64(fs.Bavail)*int64(fs.Bsize), int64(fs.Blocks)*int64(fs.Bsize)
	}
	s.FileSystem, _ = sqlitefile.FileSystem(path)
	if problem != nil {
		s.Problem = strings.TrimSpace(problem.Error())
	}
	return s
}
