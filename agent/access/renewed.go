package access

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// secretFile is a file that a setting names.
type secretFile struct {
	setting, path string                            // path "": the setting is not set
	read          func(path string) (string, error) // returns the content
}

// renewed is a value made from files. It is made again when a file has changed.
type renewed[T any] struct {
	log   *slog.Logger
	files []secretFile
	parse func(contents []string) (T, error) // of files; it gets "" for a setting that is not set

	mu       sync.Mutex
	value    T
	contents []string      // from which value was made
	seen     []os.FileInfo // of files, before they were read; nil: read the file again
	failure  string        // the error that was logged last
}

// renew reads the files for the first time.
func renew[T any](
	log *slog.Logger, files []secretFile, parse func(contents []string) (T, error),
) (*renewed[T], error) {
	r := &renewed[T]{log: log, files: files, parse: parse, seen: make([]os.FileInfo, len(files))}
	_, err := r.update()
	return r, err
}

// get returns the value of the files as they are. If they cannot be read or used, it logs the error and returns the
// former value: a file that is being replaced takes nobody's rights, and a deleted one gives none.
func (r *renewed[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.differ() {
		return r.value
	}
	changed, err := r.update()
	switch {
	case err != nil && err.Error() != r.failure:
		r.failure = err.Error()
		r.log.Error("the former content of a changed file stays in use", "component", "api", "err", err)
	case err == nil && changed:
		r.log.Info("a changed file is in use", "component", "api", "settings", r.settings())
	}
	if err == nil {
		r.failure = ""
	}
	return r.value
}

// differ reports whether a file may have changed since it was read.
func (r *renewed[T]) differ() bool {
	for i, f := range r.files {
		if f.path == "" {
			continue
		}
		now, err := os.Stat(f.path)
		if was := r.seen[i]; err != nil || was == nil || !os.SameFile(was, now) || was.Size() != now.Size() ||
			!was.ModTime().Equal(now.ModTime()) {
			return true
		}
	}
	return false
}

// recently is how old the last change of a file must be for its times to tell it from the next change.
const recently = time.Second

// update reads the files, and makes the value again if their contents differ.
func (r *renewed[T]) update() (changed bool, err error) {
	contents, seen := make([]string, len(r.files)), make([]os.FileInfo, len(r.files))
	for i, f := range r.files {
		if f.path == "" {
			continue
		}
		if info, err := os.Stat(f.path); err == nil && time.Since(info.ModTime()) > recently {
			seen[i] = info
		}
		if contents[i], err = f.read(f.path); err != nil {
			return false, fmt.Errorf("cannot read %s: %w", f.setting, err)
		}
	}
	if r.contents != nil && slices.Equal(contents, r.contents) {
		r.seen = seen
		return false, nil
	}
	value, err := r.parse(contents)
	if err != nil {
		return false, err
	}
	r.value, r.contents, r.seen = value, contents, seen
	return true, nil
}

// settings returns the names of the settings that are set.
func (r *renewed[T]) settings() (names []string) {
	for _, f := range r.files {
		if f.path != "" {
			names = append(names, f.setting)
		}
	}
	return names
}
