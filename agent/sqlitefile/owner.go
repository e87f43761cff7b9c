package sqlitefile

import (
	"os"
	"path/filepath"
	"syscall"
)

// inherit gives the file at path, when root made it, the owner of the one at from, or of its directory
// when there is none: commands of root work on the state of a service that has a user of its own. SQLite
// does the same for its log, and there as here a file that cannot be given away stays root's.
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
