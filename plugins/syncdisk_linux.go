package plugins

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// syncWhole makes files on one disk durable with one sync of their file system: one flush of the disk and one commit of
// the journal, instead of one per file. The sync also covers the directories of new files. syncWhole sets the error of
// each file in errs. It returns false and does nothing where such a sync is not known to be safe and cheap, for example
// when the machine has more than most bytes to write.
func syncWhole(files []sdk.UnsyncedFile, errs []error, most int64) bool {
	first := int(files[0].File.Fd())
	if noSyncfs.Load() || !reportsErrors() || !canSyncWhole(first) || dirty() > most {
		return false
	}
	err := unix.Syncfs(first)
	for i, f := range files {
		// syncfs does not report the file that it could not write. This call does, and writes nothing.
		errs[i] = unix.SyncFileRange(int(f.File.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE)
	}
	if err == nil {
		// ext4 without a journal flushes the disk before it writes the inodes. A sync of a file flushes it again.
		err = sdk.SyncFile(files[0].File)
	}
	if err == nil {
		return true
	}
	// The error may belong to any file on the disk, so all count as lost. From now on each file reports its own errors.
	noSyncfs.Store(true)
	for i := range errs {
		if errs[i] == nil {
			errs[i] = os.NewSyscallError("syncfs", err)
		}
	}
	return true
}

// noSyncfs is set after an error of syncfs.
var noSyncfs atomic.Bool

// reportsErrors reports whether syncfs of the kernel returns write errors, as it does since Linux 5.8.
var reportsErrors = sync.OnceValue(func() bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	major, rest, _ := bytes.Cut(name.Release[:], []byte("."))
	minor, _, _ := bytes.Cut(rest, []byte("."))
	m, err := strconv.Atoi(string(major))
	n, err2 := strconv.Atoi(string(minor))
	return err == nil && err2 == nil && (m > 5 || m == 5 && n >= 8)
})

// canSyncWhole reports whether a sync of the file system of fd is known to make all its files durable. Power cuts were
// tested with ext4. File systems in user space may ignore the sync.
func canSyncWhole(fd int) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil {
		return false
	}
	return fs.Type == unix.EXT4_SUPER_MAGIC
}

// dirty returns the number of bytes that wait to be written to disks, a large number if it is unknown.
func dirty() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 1 << 62
	}
	_, after, _ := bytes.Cut(text, []byte("\nDirty:"))
	kib, _, _ := bytes.Cut(after, []byte(" kB"))
	n, err := strconv.ParseInt(string(bytes.TrimSpace(kib)), 10, 64)
	if err != nil {
		return 1 << 62
	}
	return n << 10
}
