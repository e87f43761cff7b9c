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
	return dirID{dev: st.Dev, ino: st.Ino}
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
	return fingerprint{id: identify(fi), size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
}

func (f fingerprint) newest() time.Time { return time.Unix(0, max(f.mtime, f.ctime)) }

// remote reports whether dir is on a file system that does not tell about changes made
// elsewhere: NFS, SMB, CIFS, 9P, FUSE, Ceph, AFS.
func remote(dir string) bool {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return false
	}
	switch uint32(st.Type) {
	case 0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x01021997, 0x65735546, 0x00c36400, 0x5346414f:
		return true
	}
	return false
}
