//go:build !linux

package file

import (
	"os"
	"syscall"
)

// links returns how many names f has.
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
