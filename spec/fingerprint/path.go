package fingerprint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PathOf returns the path of an open file, without links. On Linux it is the path of the file itself, even if its name
// now leads elsewhere. On other systems it is the path that the name leads to now.
func PathOf(f *os.File) (string, error) {
	if path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err == nil && filepath.IsAbs(path) {
		return strings.TrimSuffix(path, " (deleted)"), nil
	}
	return filepath.EvalSymlinks(f.Name())
}
