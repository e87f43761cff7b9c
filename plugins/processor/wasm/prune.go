package wasm

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Limits of the cached files of modules that are neither in the directory nor running. They are kept for a while
// because compiling takes long, and a replaced file may come back.
const (
	maxUnused    = 512 << 20 // bytes
	maxUnusedAge = 7 * 24 * time.Hour
)

// unused is a cached file or directory that belongs to no module in the directory.
type unused struct {
	path  string
	bytes int64
	used  time.Time // time of the last use
}

// prune removes the cached files of modules that are gone, least recently used first. It does nothing if it ran since
// the last change of the files, or if the directory could not be read.
func (m *Modules) prune(now time.Time) {
	m.mu.Lock()
	known := m.dirErr == nil && !m.pruned && m.CacheDir != ""
	used := map[string]bool{}
	for _, f := range m.files {
		if f.module != nil {
			used[m.cache.dirOf(f.module.sum)] = true
		}
	}
	for r := range m.running {
		used[m.cache.dirOf(r.module.sum)] = true
	}
	m.pruned = m.pruned || known
	m.mu.Unlock()
	if !known {
		return
	}
	m.cache.prune(used, now)
}

// prune removes unused entries that are too old or exceed the size limit.
func (c *cache) prune(used map[string]bool, now time.Time) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return // nothing is cached
	}
	var all []unused
	for _, entry := range entries {
		path := filepath.Join(c.dir, entry.Name())
		if info, err := entry.Info(); err == nil && !used[path] {
			all = append(all, unused{path, bytesIn(path), info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b unused) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.path, b.path)) })
	var kept int64
	for _, u := range all {
		if kept += u.bytes; kept <= maxUnused && now.Sub(u.used) < maxUnusedAge {
			continue
		}
		if err := os.RemoveAll(u.path); err != nil {
			c.log.Warn("cannot remove the compiled module of a deleted processor", "path", u.path, "err", err)
		}
	}
}

// bytesIn returns the size of a file, or the total size of the files of a directory.
func bytesIn(path string) (n int64) {
	_ = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was removed meanwhile
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
