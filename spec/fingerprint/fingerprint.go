//go:build unix

// Package fingerprint detects possible changes of a file without reading it.
package fingerprint

import (
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// ID distinguishes a file or directory from another at the same path.
type ID struct{ dev, ino uint64 }

// String returns the device and the inode.
func (id ID) String() string { return fmt.Sprintf("%x:%x", id.dev, id.ino) }

// Identify returns the ID of a file from the result of os.Stat or a similar function.
func Identify(fi fs.FileInfo) ID {
	st := fi.Sys().(*syscall.Stat_t)
	return ID{dev: uint64(st.Dev), ino: uint64(st.Ino)} // types differ between systems
}

// Print is different after any change of a file's content or access. Equal prints mean equal content only if they are
// Certain.
type Print struct {
	ID    ID
	Size  int64
	Mode  fs.FileMode
	Mtime int64 // when the content changed, in nanoseconds since 1970
	Ctime int64 // time of the last change of content or metadata
}

// Of returns the print of a file from the result of os.Stat or a similar function.
func Of(fi fs.FileInfo) Print {
	mtime, ctime := times(fi.Sys().(*syscall.Stat_t))
	return Print{ID: Identify(fi), Size: fi.Size(), Mode: fi.Mode(), Mtime: mtime.Nano(), Ctime: ctime.Nano()}
}

// step is the coarsest expected resolution of file times: two changes within it may have the same time.
const step = 2 * time.Second

// Certain reports whether the file's last change is so long before now that another change would have changed the
// print.
func (p Print) Certain(now time.Time) bool {
	return now.Sub(time.Unix(0, max(p.Mtime, p.Ctime))) > step
}

// Quiet reports whether the file was not written to within d before now.
func (p Print) Quiet(now time.Time, d time.Duration) bool {
	age := now.Sub(time.Unix(0, p.Mtime))
	return age < 0 || age >= d
}
