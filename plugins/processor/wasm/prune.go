//go:build !minimal

package wasm

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/conduit-agent/conduit/spec/sorting"
)

// What is kept of modules that are not in the directory and do not run: compiling one takes
// long, and a file that was replaced may come back.
const (
	maxUnused    = 512 << 20 // bytes
	maxUnusedAge = 7 * 24 * time.Hour
)

// unused is something that is kept, and that no module in the directory was made into.
type unused struct {
	path  string
	bytes int64
	used  time.Time // last
}

// prune removes what was made of modules that are gone, the longest unused first, unless that
// was done since files changed or it is not known which there are.
func (m *Modules) prune(now time.Time) {
	m.mu.Lock()
	known := m.dirErr == nil && !m.pruned && m.CacheDir != ""
	used := map[string]bool{filepath.Join(m.CacheDir, sums): true}
	for path, f := range m.files {
		used[m.cache.sumFile(path, f.stamp)] = true
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
	m.cache.prune(m.CacheDir, used, now)
	m.cache.prune(filepath.Join(m.CacheDir, sums), used, now)
}

// prune removes of dir what is not used and too old, or too much.
func (c *cache) prune(dir string, used map[string]bool, now time.Time) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // nothing is kept
	}
	var all []unused
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if info, err := entry.Info(); err == nil && !used[path] {
			all = append(all, unused{path, bytesIn(path), info.ModTime()})
		}
	}
	sorting.By(all, func(a, b unused) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.path, b.path)) })
	var kept int64
	for _, u := range all {
		if kept += u.bytes; kept <= maxUnused && now.Sub(u.used) < maxUnusedAge {
			continue
		}
		if err := os.RemoveAll(u.path); err != nil {
			c.log.Warn("cannot remove what was made of a processor that is gone", "path", u.path, "err", err)
		}
	}
}

// bytesIn returns how much is in a file, or in the files of a directory.
func bytesIn(path string) (n int64) {
	_ = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // it went meanwhile
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
