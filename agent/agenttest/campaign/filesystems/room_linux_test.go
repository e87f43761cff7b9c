package filesystems_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
)

// A file system with one free page has no space for a transaction.
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Fatalf("cannot mount a small file system, which needs root: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	path := filepath.Join(dir, "conduit.db")
	if err := sqlitefile.Room(path); err != nil {
		t.Errorf("an empty file system: %v", err)
	}
	fill := filepath.Join(dir, "fill")
	if err := os.WriteFile(fill, make([]byte, 1<<20-8<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sqlitefile.Room(path); !errors.Is(err, sqlitefile.ErrFull) {
		t.Errorf("a file system with 8 KiB left: %v", err)
	}
	if err := os.WriteFile(path, make([]byte, 4<<10), 0o600); err != nil {
		t.Errorf("the probe left no page: %v", err)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if err := sqlitefile.Room(path); err != nil {
		t.Errorf("with space again: %v", err)
	}
}
