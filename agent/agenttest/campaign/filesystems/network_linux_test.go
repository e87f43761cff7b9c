package filesystems_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
)

// TestNetworkFileSystemsAreRefused checks a directory on FUSE without a server: the kernel reports the type of the file
// system without querying the server.
func TestNetworkFileSystemsAreRefused(t *testing.T) {
	dir := t.TempDir()
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("there is no FUSE, whose module of the kernel is needed: %v", err)
	}
	defer device.Close()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=12345,group_id=12345", device.Fd())
	if err := syscall.Mount("test", dir, "fuse.test", 0, options); err != nil {
		t.Fatalf("cannot mount, which needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	err = sqlitefile.CheckNetwork(filepath.Join(dir, "conduit.db"))
	if !errors.Is(err, sqlitefile.ErrNetwork) || !strings.Contains(err.Error(), "FUSE") ||
		!strings.Contains(err.Error(), "db.sqlite.network-filesystem") {
		t.Errorf("on FUSE: %v", err)
	}
}
