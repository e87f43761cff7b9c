package standalone

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// sameAs reports whether a file is unchanged, as far as is known without running it.
func (f *file) sameAs(other *file) bool {
	return f.print == other.print && f.entry == other.entry && fmt.Sprint(f.writable) == fmt.Sprint(other.writable)
}

// writable returns the reasons why others can change candidate files, by path. The caller holds mu.
func writable(e *Executables) map[string]string {
	warnings := map[string]string{}
	for _, f := range e.files {
		if f.err == nil && f.writable != nil {
			warnings[f.entry] = f.writable.Error()
		}
	}
	return warnings
}

// writableByOthers returns why a user other than root and this process's user can change or replace the executable at
// path; nil if none can.
func writableByOthers(path string) error {
	for _, checked := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(checked)
		if err != nil {
			return err
		}
		if reason := othersWrite(info); reason != "" {
			return fmt.Errorf("other users can change it: %s %s", checked, reason)
		}
	}
	return nil
}

// othersWrite returns why others can write to a file, "" if they cannot. A group counts as others unless it is root's
// or this process's own.
func othersWrite(info fs.FileInfo) string {
	stat := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Sprintf("belongs to user %d: change its owner to root or the user of the agent", stat.Uid)
	case mode&0o002 != 0:
		return fmt.Sprintf("has mode %04o: run chmod o-w", mode)
	case mode&0o020 != 0 && stat.Gid != 0 && int(stat.Gid) != os.Getegid():
		return fmt.Sprintf("has mode %04o and group %d: run chmod g-w", mode, stat.Gid)
	}
	return ""
}
