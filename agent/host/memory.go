package host

import (
	"io/fs"
	"math"
	"os"
	slash "path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// LimitMemory has the Go runtime keep this process within limit bytes, 0 for none: the
// garbage collector works harder before they are used. The runtime counts neither the pages
// of the executable nor what SQLite allocates, for which a fifth is left, 128 MiB at most.
func LimitMemory(limit int64) {
	if limit > 0 {
		debug.SetMemoryLimit(limit - min(limit/5, 128<<20))
	}
}

// MemoryLimitOf returns the memory limit in bytes that the setting memory.limit means, 0 for none.
func MemoryLimitOf(setting int) int64 {
	switch {
	case setting > 0:
		return int64(setting)
	case setting < 0:
		return 0
	}
	return MemoryLimit() / 10 * 9
}

// MemoryLimit returns the least memory limit in bytes of the control groups that this
// process is in, 0 for none.
func MemoryLimit() int64 {
	limit, ok := groupLimit(os.DirFS("/"))
	if !ok {
		return 0
	}
	return limit
}

// groupLimit returns the least memory limit in bytes of the control groups that this
// process is in, of version 1 or 2. root is the file system of the machine.
func groupLimit(root fs.FS) (limit int64, ok bool) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	limit = math.MaxInt64
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path, with no controllers in version 2
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		switch {
		case fields[1] == "":
			limit = min(limit, leastLimit(root, "sys/fs/cgroup", fields[2], "memory.max"))
		case slices.Contains(strings.Split(fields[1], ","), "memory"):
			limit = min(limit, leastLimit(root, "sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"))
		}
	}
	return limit, limit < unlimited
}

// unlimited is what version 1 says of a group without a limit, up to a page.
const unlimited = math.MaxInt64 - 1<<20

// leastLimit returns the least limit of a group and those around it. In a container the
// path may be that of the host and not exist, but the group at mount is the container's.
func leastLimit(root fs.FS, mount, group, file string) int64 {
	limit := int64(math.MaxInt64)
	for group = slash.Clean("/" + group); ; group = slash.Dir(group) {
		text, err := fs.ReadFile(root, slash.Join(mount, group, file))
		if err == nil {
			// "max" is no number, and means that there is no limit
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
				limit = min(limit, n)
			}
		}
		if group == "/" {
			return limit
		}
	}
}
