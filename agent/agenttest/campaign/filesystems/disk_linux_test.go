package filesystems_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/prove"
)

// A disk that was full has space again after a power cut, also if the removal of the file that filled
// it was not durable.
func TestDiskHasSpaceAfterACut(t *testing.T) {
	dir := t.TempDir()
	d, why := prove.New(filepath.Join(t.TempDir(), "image"), dir)
	if why != "" {
		t.Fatalf("there is no disk to cut the power of, which needs root and the package e2fsprogs: %s", why)
	}
	t.Cleanup(func() { _ = d.Close() })
	must(t, d.Fill())
	full, err := os.Open(d.Ballast())
	must(t, err)
	must(t, full.Sync())
	must(t, full.Close())
	must(t, d.Free())
	must(t, d.Cut())
	must(t, d.Restore())
	if _, err := os.Stat(d.Ballast()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the disk is full: %v", err)
	}
}
