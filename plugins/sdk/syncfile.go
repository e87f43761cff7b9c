package sdk

import (
	"errors"
	"os"
	"syscall"
)

// SyncFile syncs f. It ignores errors of file systems that do not support it.
func SyncFile(f *os.File) error {
	if err := f.Sync(); !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// SyncDir syncs the directory dir, so that new files in it survive a power failure. A missing directory is no error:
// it was moved together with the file.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	return SyncFile(d)
}
