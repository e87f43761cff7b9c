//go:build unix

package plugins

import (
	"crypto/sha256"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// fingerprint differs when the content of a file may differ, or who may run it.
type fingerprint struct {
	dev, ino     uint64
	size         int64
	mode         fs.FileMode
	mtime, ctime int64
}

func fingerprintOf(info fs.FileInfo) fingerprint {
	st := info.Sys().(*syscall.Stat_t)
	changed := ctime(st)
	return fingerprint{
		dev: uint64(st.Dev), ino: uint64(st.Ino), // types differ between systems
		size: st.Size, mode: info.Mode(), mtime: info.ModTime().UnixNano(), ctime: changed.Nano(),
	}
}

// writeDebounce is how long a file has to be unchanged before it counts as written to its end.
const writeDebounce = 300 * time.Millisecond

// quiet reports whether nobody wrote to the file a moment ago.
func (f fingerprint) quiet(now time.Time) bool {
	age := now.Sub(time.Unix(0, f.mtime))
	return age < 0 || age >= writeDebounce
}

// sum returns the SHA-256 of a file's content.
func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return string(h.Sum(nil)), nil
}
