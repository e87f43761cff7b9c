package process

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	slash "path"
	"slices"
	"strconv"
	"strings"
)

// MemoryLimit returns the smallest memory limit in bytes of the control groups of a process, 0 for none. The process 0
// is this one.
func MemoryLimit(pid int) int64 { return memoryLimit(os.DirFS("/"), pid) }

func memoryLimit(root fs.FS, pid int) int64 {
	limit := int64(math.MaxInt64)
	inGroups(root, pid, "memory", func(files group) { limit = min(limit, files.memory()) })
	if limit >= unlimited {
		return 0
	}
	return limit
}

// CPULimit returns the maximum number of CPUs that the control groups of a process allow it, 0 for no limit. The
// process 0 is this one.
func CPULimit(pid int) float64 { return cpuLimit(os.DirFS("/"), pid) }

func cpuLimit(root fs.FS, pid int) float64 {
	limit := math.Inf(1)
	inGroups(root, pid, "cpu", func(files group) { limit = min(limit, files.cpus()) })
	if math.IsInf(limit, 1) {
		return 0
	}
	return limit
}

// unlimited is the value for a group without a limit in version 1, rounded down to a page.
const unlimited = math.MaxInt64 - 1<<20

// group is the directory of a control group, of version 1 or 2.
type group struct {
	root fs.FS // of the machine
	dir  string
}

// memory returns the memory limit of the group itself in bytes.
func (g group) memory() int64 {
	for _, file := range []string{"memory.max", "memory.limit_in_bytes"} {
		if n, ok := g.number(file); ok && n > 0 {
			return n
		}
	}
	return math.MaxInt64
}

// cpus returns the CPU quota of the group itself as a number of CPUs.
func (g group) cpus() float64 {
	var quota, period int64
	if text, err := fs.ReadFile(g.root, slash.Join(g.dir, "cpu.max")); err == nil {
		if _, err := fmt.Sscan(string(text), &quota, &period); err != nil {
			return math.Inf(1) // "max", which means no limit, is not a number
		}
	} else {
		quota, _ = g.number("cpu.cfs_quota_us")
		period, _ = g.number("cpu.cfs_period_us")
	}
	if quota <= 0 || period <= 0 {
		return math.Inf(1)
	}
	return float64(quota) / float64(period)
}

func (g group) number(file string) (n int64, ok bool) {
	text, err := fs.ReadFile(g.root, slash.Join(g.dir, file))
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// inGroups calls visit with the groups of a process for a controller, and with their ancestors. In a container the
// path may be the path of the host and not exist, but the group at the mount point is the group of the container.
func inGroups(root fs.FS, pid int, controller string, visit func(group)) {
	process := "self"
	if pid > 0 {
		process = strconv.Itoa(pid)
	}
	groups, err := fs.ReadFile(root, slash.Join("proc", process, "cgroup"))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path, with no controllers in version 2
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		mount := "sys/fs/cgroup"
		switch {
		case len(fields) < 3:
			continue
		case slices.Contains(strings.Split(fields[1], ","), controller):
			mount = slash.Join(mount, controller)
		case fields[1] != "":
			continue
		}
		path := slash.Clean("/" + fields[2])
		for ; path != "/"; path = slash.Dir(path) {
			visit(group{root, slash.Join(mount, path)})
		}
		visit(group{root, mount})
	}
}
