package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/conduit-agent/conduit/plugins/record"
)

// After a failed fsync the kernel may have dropped the data, while the next fsync succeeds. The destination therefore
// reports the failure until it is opened again, and accepts no records.
func TestDestinationFailsForGoodWhenAnFsyncFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	lost := []record.Record{{Position: record.Position("1"), After: record.Raw([]byte("lost"))}}
	later := []record.Record{{Position: record.Position("2"), After: record.Raw([]byte("later"))}}
	var d deferred
	ctx, dst := d.open(t, map[string]string{"path": path})
	if n, err := dst.Write(ctx, lost); n != 1 || err != nil || len(d) != 1 {
		t.Fatalf("wrote %d records with %d syncs: %v", n, len(d), err)
	}
	mend := breakSync(t, path)
	if err := d[0].Sync(); !errors.Is(err, syscall.EBADF) {
		t.Fatalf("the sync ended with %v, want %v", err, syscall.EBADF)
	}
	mend()
	if err := d[0].Sync(); !errors.Is(err, syscall.EBADF) {
		t.Errorf("the next sync ended with %v, want the failure of the first", err)
	}
	if n, err := dst.Write(ctx, later); n != 0 || !errors.Is(err, syscall.EBADF) {
		t.Errorf("wrote %d records after the sync failed: %v", n, err)
	}
	if err := dst.Teardown(ctx); !errors.Is(err, syscall.EBADF) {
		t.Errorf("the teardown ended with %v, want the failure of the sync", err)
	}

	var next deferred
	ctx, dst = next.open(t, map[string]string{"path": path})
	if n, err := dst.Write(ctx, append(lost, later...)); n != 2 || err != nil || len(next) != 1 {
		t.Fatalf("wrote %d records with %d syncs: %v", n, len(next), err)
	}
	if err := errors.Join(next[0].Sync(), dst.Teardown(ctx)); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(path)
	if lines := strings.Count(string(text), "\n"); err != nil || lines != 3 {
		t.Errorf("the file has %d lines, want the first one twice: %v", lines, err)
	}
}

// breakSync makes syncs of the open file at path fail until mend is called. It replaces the file's descriptor by one
// that only names the file (O_PATH).
func breakSync(t *testing.T, path string) (mend func()) {
	t.Helper()
	fd := descriptorOf(t, path)
	saved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	name, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	exchange := func(from int) {
		t.Helper()
		if err := errors.Join(unix.Dup3(from, fd, unix.O_CLOEXEC), unix.Close(from)); err != nil {
			t.Fatal(err)
		}
	}
	exchange(name)
	return func() { exchange(saved) }
}

// descriptorOf returns the only descriptor of this process for the file at path.
func descriptorOf(t *testing.T, path string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	found := -1
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err != nil || target != path {
			continue
		}
		if found >= 0 {
			t.Fatalf("%s is open twice", path)
		}
		if found, err = strconv.Atoi(e.Name()); err != nil {
			t.Fatal(err)
		}
	}
	if found < 0 {
		t.Fatalf("%s is not open", path)
	}
	return found
}
