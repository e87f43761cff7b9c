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

// stamp identifies a version of a file. It differs whenever the content may differ.
type stamp struct {
	size    int64
	mtime   time.Time
	mode    fs.FileMode
	changed any // inode and change time, on systems that provide them
}

// list returns the regular files in dir, by path. A missing directory has none.
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

// quiet reports whether the last write to the file is not recent.
func quiet(info fs.FileInfo, now time.Time) bool {
	age := now.Sub(info.ModTime())
	return age < 0 || age >= settling
}
