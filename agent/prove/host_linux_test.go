package prove

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/server"
)

// A disk that was filled has space again after a power cut, also when it did not get to know that what filled
// it was removed.
func TestDiskHasSpaceAfterACut(t *testing.T) {
	dir := t.TempDir()
	d, why := newDisk(filepath.Join(t.TempDir(), "image"), dir)
	if why != "" {
		server.Missing(t, "there is no disk to cut the power of: %s", why)
	}
	t.Cleanup(func() { _ = d.close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(d.fill())
	full, err := os.Open(d.ballast())
	must(err)
	must(full.Sync())
	must(full.Close())
	must(d.free())
	must(d.cut())
	must(d.restore())
	if _, err := os.Stat(d.ballast()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the disk is full: %v", err)
	}
}
