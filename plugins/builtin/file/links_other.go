//go:build !linux

package file

import (
	"os"
	"syscall"
)

// links returns the number of hard links of f.
func links(f *os.File) (uint64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 1, nil
	}
	return uint64(stat.Nlink), nil
}

// leadsTo reports whether path leads to the file described by info.
func leadsTo(path string, info os.FileInfo) (bool, error) {
	now, err := os.Stat(path)
	return err == nil && os.SameFile(now, info), err
}
