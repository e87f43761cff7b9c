package watch

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watch asks for events of a directory and reports whether that is new. Where events
// are not to be had the directory is polled.
func (s *scanner) watch(dir string) bool {
	if dir == "" || s.wanted[dir] {
		return false
	}
	s.wanted[dir] = true
	id, err := statDir(dir)
	if err != nil {
		return false
	}
	if known, ok := s.watched[dir]; ok && known == id {
		return false
	}
	if s.fsw == nil {
		if s.fsw, err = s.notify(); err != nil {
			s.fsw, s.noEvents = nil, explain(err)
			return false
		}
	}
	_ = s.fsw.Remove(dir) // of the directory that was here before
	if err := s.fsw.Add(dir); err != nil {
		delete(s.watched, dir)
		s.noEvents = explain(err)
		return false
	}
	s.watched[dir] = id
	return true
}

// unwatch gives up the directories that no longer matter.
func (s *scanner) unwatch() {
	for dir := range s.watched {
		if !s.wanted[dir] {
			_ = s.fsw.Remove(dir)
			delete(s.watched, dir)
		}
	}
}

// explain says what to do about an error of the system that keeps events from us.
func explain(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w; raise the limit with: sysctl fs.inotify.max_user_watches=524288", err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w; raise the limit with: sysctl fs.inotify.max_user_instances=1024", err)
	}
	return err
}

// quiet returns how long nothing must follow ev before a scan, 0 when ev is of no
// interest. A file that was renamed into place is complete; one that is written to, or
// went away, may be in the middle of being saved.
func (s *scanner) quiet(ev fsnotify.Event) time.Duration {
	_, ours := s.watched[ev.Name]
	if ev.Op == fsnotify.Chmod && !ours && !s.unreadable(filepath.Base(ev.Name)) {
		return 0
	}
	if ours && ev.Op&(fsnotify.Remove|fsnotify.Rename) != 0 {
		delete(s.watched, ev.Name)
		return s.timing.debounce
	}
	soon := max(s.timing.debounce/5, time.Millisecond)
	if IsPipelineFile(filepath.Base(ev.Name)) || s.targets[ev.Name] {
		if ev.Op == fsnotify.Create {
			return soon
		}
		return s.timing.debounce
	}
	if ev.Op == fsnotify.Write && !strings.HasPrefix(filepath.Base(ev.Name), "..") {
		return 0
	}
	return soon
}

// unreadable reports whether a file could not be read, which a chmod may mend.
func (s *scanner) unreadable(name string) bool {
	e := s.files[name]
	return e != nil && e.file.Err != nil
}

// pause returns how long to wait for an event before scanning anyway.
func (s *scanner) pause(snap *Snapshot, settled bool) time.Duration {
	if snap.Err == nil && (!settled || s.writing()) {
		return s.timing.debounce
	}
	if snap.Err != nil || s.noEvents != nil || s.remote(s.dir) {
		return s.timing.poll
	}
	return s.timing.rescan
}

// writing reports whether a file is shown as it was because it is being written.
func (s *scanner) writing() bool {
	for _, e := range s.files {
		if !e.since.IsZero() && e.file.Err == nil && len(e.file.Data) > 0 {
			return true
		}
	}
	return false
}

func (s *scanner) events() <-chan fsnotify.Event {
	if s.fsw == nil {
		return nil
	}
	return s.fsw.Events
}

func (s *scanner) errors() <-chan error {
	if s.fsw == nil {
		return nil
	}
	return s.fsw.Errors
}

func (s *scanner) close() {
	if s.fsw != nil {
		_ = s.fsw.Close()
	}
}
