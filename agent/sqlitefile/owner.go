package sqlitefile

import (
	"os"
	"path/filepath"
	"syscall"
)

// inherit changes the owner of a file at path that root created to the owner of the file at from, or, if that does not
// exist, to the owner of the directory: commands run by root work on the state of a service that has its own user.
// SQLite does the same for its log. If the owner cannot be changed, the file stays root's in both cases.
func inherit(path, from string) {
	if os.Geteuid() != 0 {
		return
	}
	info, err := os.Stat(from)
	if err != nil {
		info, err = os.Stat(filepath.Dir(from))
	}
	if err != nil {
		return
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = os.Lchown(path, int(owner.Uid), int(owner.Gid))
	}
}
