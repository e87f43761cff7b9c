package wasm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// stamp differs when the content of a file may differ.
type stamp struct {
	size    int64
	mtime   time.Time
	mode    fs.FileMode
	changed any // the inode and the time of its last change, where the system has them
}

// list returns the regular files in dir, by path. A directory that is not there has none.
func list(dir string) (map[string]fs.FileInfo, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot search for processors: %w", err)
	}
	files := make(map[string]fs.FileInfo, len(entries))
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			files[path] = info
		}
	}
	return files, nil
}

func stampOf(info fs.FileInfo) stamp {
	return stamp{size: info.Size(), mtime: info.ModTime(), mode: info.Mode(), changed: changeOf(info)}
}

// quiet reports whether the file was not written to a moment ago.
func quiet(info fs.FileInfo, now time.Time) bool {
	age := now.Sub(info.ModTime())
	return age < 0 || age >= settling
}
