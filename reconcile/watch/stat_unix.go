//go:build unix

package watch

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// dirID tells one directory from another that takes its path.
type dirID struct{ dev, ino uint64 }

func (id dirID) String() string { return fmt.Sprintf("%x:%x", id.dev, id.ino) }

func identify(fi fs.FileInfo) dirID {
	st := fi.Sys().(*syscall.Stat_t)
	return dirID{dev: uint64(st.Dev), ino: uint64(st.Ino)} // types differ between systems
}

func statDir(dir string) (dirID, error) {
	fi, err := os.Stat(dir)
	if err != nil {
		return dirID{}, err
	}
	if !fi.IsDir() {
		return dirID{}, syscall.ENOTDIR
	}
	return identify(fi), nil
}

// fingerprint differs when the content of a file may differ.
type fingerprint struct {
	id           dirID
	size         int64
	mtime, ctime int64
}

func fingerprintOf(fi fs.FileInfo) fingerprint {
	st := fi.Sys().(*syscall.Stat_t)
	mtime, ctime := times(st)
	return fingerprint{id: identify(fi), size: st.Size, mtime: mtime.Nano(), ctime: ctime.Nano()}
}

func (f fingerprint) newest() time.Time { return time.Unix(0, max(f.mtime, f.ctime)) }
