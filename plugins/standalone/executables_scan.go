package standalone

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/conduit-agent/conduit/spec/fingerprint"
)

// scan compares the directory with the known files. New and changed files become pending.
func (e *Executables) scan() {
	e.scanning.Lock()
	defer e.scanning.Unlock()
	found, err := e.list()
	e.mu.Lock()
	same := isKnown(e, found, err)
	e.mu.Unlock()
	if !same {
		e.update(func() { e.take(found, err) })
	}
}

// watched returns the paths that the next scan depends on: the directory, and the targets of the links in it.
func (e *Executables) watched() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	paths := []string{e.Dir}
	for path, f := range e.files {
		paths = append(paths, f.entry)
		if path != f.entry {
			paths = append(paths, path)
		}
	}
	return paths
}

// isKnown reports whether the result equals the last scan. The caller holds mu.
func isKnown(e *Executables, found map[string]*file, err error) bool {
	if err != nil {
		return e.dirErr != nil && e.dirErr.Error() == err.Error()
	}
	if e.dirErr != nil || len(found) != len(e.files) {
		return false
	}
	for path, f := range found {
		if known := e.files[path]; known == nil || !known.running && (!known.sameAs(f)) {
			return false
		}
	}
	return true
}

// take replaces the known files with found. The caller holds mu.
func (e *Executables) take(found map[string]*file, err error) {
	if e.dirErr = err; err != nil {
		return // an unreadable directory does not remove its plugins
	}
	for path, f := range found {
		known := e.files[path]
		switch {
		case known == nil:
		case known.running || known.sameAs(f):
			found[path] = known
		case f.err == nil: // its old specification is used until the new one is known
			f.sum, f.spec = known.sum, known.spec
		}
	}
	e.files = found
}

// list returns the files in Dir, by path. It returns none if the directory does not exist.
func (e *Executables) list() (map[string]*file, error) {
	root, err := realDir(e.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot scan for plugins: %w", err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("cannot scan for plugins: %w", err)
	}
	files := make(map[string]*file, len(entries))
	for _, entry := range entries {
		if entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		f := e.inspect(root, entry.Name())
		if f == nil || files[f.path] != nil {
			continue // two links to one file are one plugin
		}
		f.entry = filepath.Join(e.Dir, entry.Name())
		files[f.path] = f
	}
	return files, nil
}

// realDir returns the absolute path of dir without links.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// inspect describes a file without running it, and applies the settings that may refuse it. It returns nil if there is
// no such file.
func (e *Executables) inspect(root, name string) *file {
	f := inspect(root, name)
	if f == nil || f.err != nil {
		return f
	}
	if f.writable = writableByOthers(f.path); f.writable != nil && e.RejectWritable {
		f.pending, f.err = false, f.writable
	}
	return f
}

// inspect describes a file without running it. It returns nil if there is no such file.
func inspect(root, name string) *file {
	path := filepath.Join(root, name)
	target, err := inside(root, path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err != nil {
			return nil
		}
	}
	if err != nil {
		return &file{path: path, err: err}
	}
	info, err := os.Stat(target)
	if err != nil {
		return &file{path: path, err: err}
	}
	switch {
	case info.IsDir():
		return nil
	case !info.Mode().IsRegular():
		return &file{path: target, print: fingerprint.Of(info), err: errors.New("it is not a regular file")}
	case info.Mode().Perm()&0o111 == 0:
		return &file{path: target, print: fingerprint.Of(info), err: errors.New("it is not executable: run chmod +x")}
	}
	return &file{path: target, print: fingerprint.Of(info), pending: true}
}

// inside resolves all links in path. The result must be root or below it.
func inside(root, path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(root, target); err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("it is a symbolic link to %s, which is outside %s", target, root)
	}
	return target, nil
}
