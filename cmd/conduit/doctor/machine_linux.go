package doctor

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/conduit-agent/conduit/agent/host"
)

// leastWatches is how many inotify watches, and instances, an agent with hundreds of files needs.
var leastWatches = map[string]int{"max_user_watches": 4096, "max_user_instances": 32}

// machine checks limits of the kernel and of the control group.
func (e *examination) machine() {
	for _, name := range []string{"max_user_watches", "max_user_instances"} {
		text, err := os.ReadFile("/proc/sys/fs/inotify/" + name)
		n, perr := strconv.Atoi(strings.TrimSpace(string(text)))
		switch {
		case err != nil || perr != nil:
			e.add("inotify", Unknown, "", "the limit %s is not known", name)
		case n < leastWatches[name]:
			e.add("inotify", Warning, fmt.Sprintf("sysctl fs.inotify.%s=%d: beyond it changes of files are found by polling", name, 2*leastWatches[name]), "%s is %d", name, n)
		default:
			e.add("inotify", OK, "", "%s is %d", name, n)
		}
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		level := OK
		if files.Max < 4096 {
			level = Warning
		}
		e.add("open files", level, "raise it, for a service by LimitNOFILE=", "at most %d", files.Max)
	}
	limit := host.MemoryLimit()
	switch {
	case limit == 0:
		e.add("memory", OK, "", "the control group has no limit")
	case limit < 32<<20:
		e.add("memory", Warning, "ten pipelines need about 32 MiB", "the control group allows %d MiB", limit>>20)
	default:
		e.add("memory", OK, "", "the control group allows %d MiB", limit>>20)
	}
}

// clockSynchronized reports whether something keeps the clock right.
func clockSynchronized() (synchronized, known bool) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, false
	}
	return t.Status&unix.STA_UNSYNC == 0, true
}

// fileSystems are names of kinds of file systems by their magic numbers.
var fileSystems = map[uint32]string{
	0xef53: "ext", 0x58465342: "xfs", 0x9123683e: "btrfs", 0xf2f52010: "f2fs", 0x2fc12fc1: "zfs", 0x794c7630: "overlay", 0x01021994: "tmpfs", 0x858458f6: "ramfs",
	0x6969: "nfs", 0x517b: "smb", 0xff534d42: "cifs", 0xfe534d42: "cifs", 0x01021997: "9p", 0x65735546: "fuse", 0x00c36400: "ceph", 0x5346414f: "afs", 0x4d44: "vfat",
}

// freeSpace returns the bytes that are free at dir, and the kind of the file system.
func freeSpace(dir string) (free uint64, kind string, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, "", fmt.Errorf("cannot inspect the disk of %s: %w", dir, err)
	}
	kind = fileSystems[uint32(st.Type)]
	if kind == "" {
		kind = fmt.Sprintf("file system %#x", uint32(st.Type))
	}
	return st.Bavail * uint64(st.Bsize), kind, nil
}

// remoteFileSystem returns the kind of the file system of dir if it has no events of what other
// machines change.
func remoteFileSystem(dir string) string {
	switch _, kind, _ := freeSpace(dir); kind {
	case "nfs", "smb", "cifs", "9p", "fuse", "ceph", "afs":
		return kind
	}
	return ""
}
