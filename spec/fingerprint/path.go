package fingerprint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PathOf returns the path under which an open file is found, without links. It is that of the
// file itself, whatever its name has come to lead to since (Linux); elsewhere it is what the
// name leads to now.
func PathOf(f *os.File) (string, error) {
	if path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err == nil && filepath.IsAbs(path) {
		return strings.TrimSuffix(path, " (deleted)"), nil
	}
	return filepath.EvalSymlinks(f.Name())
}
