package sqlitefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// fileSystems maps types of file systems, as returned by statfs(2), to names.
var fileSystems = map[uint32]struct {
	name    string
	network bool // or a kernel of another machine, or a program, may change its files
}{
	0x6969: {"NFS", true}, 0xff534d42: {"CIFS", true}, 0xfe534d42: {"SMB", true}, 0x517b: {"SMB", true},
	0x00c36400: {"Ceph", true},
	0x01021997: {"9P", true}, 0x5346414f: {"AFS", true}, 0x6b414653: {"AFS", true}, 0x73757245: {"Coda", true},
	0x0bd00bd0: {"Lustre", true},
	0x47504653: {"GPFS", true}, 0x01161970: {"GFS2", true}, 0x7461636f: {"OCFS2", true}, 0x19830326: {"BeeGFS", true},
	0x65735546: {"FUSE", true},
	0xef53:     {"ext4", false}, 0x58465342: {"XFS", false}, 0x9123683e: {"btrfs", false}, 0x01021994: {"tmpfs", false},
	0x794c7630: {"overlay", false},
	0xf2f52010: {"F2FS", false}, 0x2fc12fc1: {"ZFS", false}, 0x4d44: {"FAT", false}, 0x24051905: {"UBIFS", false},
	0x858458f6: {"ramfs", false},
}

// FileSystem returns the name of the file system of path, or of the nearest existing directory above it. The name is ""
// if it is not in fileSystems.
func FileSystem(path string) (name string, network bool) {
	for {
		var s syscall.Statfs_t
		err := syscall.Statfs(path, &s)
		if err == nil {
			kind := fileSystems[uint32(s.Type)]
			return kind.name, kind.network
		}
		if parent := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) && parent != path {
			path = parent
			continue
		}
		return "", false
	}
}

// CheckNetwork returns ErrNetwork if path is, or would be, on a network file system: the locks and the shared memory
// of SQLite work only among processes under the same kernel.
func CheckNetwork(path string) error {
	if _, err := os.Stat(path); err != nil {
		path = filepath.Dir(path)
	}
	if name, network := FileSystem(path); network {
		return fmt.Errorf("%w: %s is on %s, where neither locks nor commits are reliable; set db.sqlite.path to a "+
			"disk of this machine, or set db.sqlite.network-filesystem: true if "+
			"only one machine uses it and it keeps locks, mappings and fsync", ErrNetwork, path, name)
	}
	return nil
}
