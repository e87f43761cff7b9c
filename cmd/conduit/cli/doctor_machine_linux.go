package cli

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/conduit-agent/conduit/agent/process"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins/sandbox"
)

// leastWatches is the number of inotify watches, and instances, that an agent with hundreds of files needs.
var leastWatches = map[string]int{"max_user_watches": 4096, "max_user_instances": 32}

// machine checks limits of the kernel and of the control group for the running agent, or else for this process.
func (e *examination) machine() {
	for _, name := range []string{"max_user_watches", "max_user_instances"} {
		text, err := os.ReadFile("/proc/sys/fs/inotify/" + name)
		n, perr := strconv.Atoi(strings.TrimSpace(string(text)))
		switch {
		case err != nil || perr != nil:
			e.add("inotify", Unknown, "", "limit %s is unknown", name)
		case n < leastWatches[name]:
			e.add("inotify", Warning, fmt.Sprintf("sysctl fs.inotify.%s=%d: beyond it changes of files are found by "+
				"polling", name, 2*leastWatches[name]), "%s is %d", name, n)
		default:
			e.add("inotify", OK, "", "%s is %d", name, n)
		}
	}
	e.openFiles()
	e.memory()
	e.cpu()
	e.kernel()
}

const minOpenFiles = 4096

func (e *examination) openFiles() {
	var files unix.Rlimit
	if err := unix.Prlimit(e.pid, unix.RLIMIT_NOFILE, nil, &files); err != nil {
		e.add("open files", Unknown, "", "cannot read the limit of process %d: %v", e.pid, err)
		return
	}
	level := OK
	if files.Max < minOpenFiles {
		level = Warning
	}
	e.add("open files", level, "raise it, for a service by LimitNOFILE=", "at most %d", files.Max)
}

func (e *examination) memory() {
	limit := process.MemoryLimit(e.pid)
	switch {
	case limit == 0:
		e.add("memory", OK, "", "the control group has no limit")
	case limit < 32<<20:
		e.add("memory", Warning, "ten pipelines need about 32 MiB, plus page cache for the executable",
			"the control group allows %d MiB", limit>>20)
	default:
		e.add("memory", OK, "", "the control group allows %d MiB", limit>>20)
	}
}

// minCPU is the share of a CPU with which ten pipelines at a record per second were tested.
const minCPU = 0.01

func (e *examination) cpu() {
	limit := process.CPULimit(e.pid)
	switch {
	case limit == 0:
		e.add("cpu", OK, "", "the control group has no limit; %s", terminal.Count(runtime.NumCPU(), "CPU"))
	case limit < minCPU:
		e.add("cpu", Warning, "raise it, for a service by CPUQuota=: a hanging stage and a slow one cannot be "+
			"distinguished", "the control group allows %.2g %% of a CPU", 100*limit)
	default:
		e.add("cpu", OK, "", "the control group allows %.3g %% of a CPU", 100*limit)
	}
}

// kernel checks that the kernel can confine connectors, if the settings require it.
func (e *examination) kernel() {
	var name unix.Utsname
	_ = unix.Uname(&name) // fails for a bad address only
	release := unix.ByteSliceToString(name.Release[:])
	switch {
	case e.config.Connectors.Sandbox == "off":
		e.add("kernel", OK, "", "Linux %s", release)
	case sandbox.Version() == 0:
		e.add("kernel", Error, "add landlock to the kernel parameter lsm=, or set connectors.sandbox: off",
			"Linux %s lacks Landlock, which the sandbox of connectors requires", release)
	default:
		e.add("kernel", OK, "", "Linux %s supports the sandbox of connectors", release)
	}
}

// clockSynchronized reports whether the clock is synchronized.
func clockSynchronized() (synchronized, known bool) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, false
	}
	return t.Status&unix.STA_UNSYNC == 0, true
}

// freeSpace returns the number of free bytes and free inodes at dir, -1 for inodes if the file system has no such
// limit.
func freeSpace(dir string) (bytes, inodes int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("cannot inspect the disk of %s: %w", dir, err)
	}
	inodes = int64(st.Ffree)
	if st.Files == 0 { // btrfs and others allocate inodes on demand
		inodes = -1
	}
	return int64(st.Bavail) * int64(st.Bsize), inodes, nil
}
