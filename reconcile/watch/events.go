package watch

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// quiet returns how long to wait after ev without another event before a scan, 0 when ev is of no interest. A file that
// was renamed into place is complete. A file that was written to, or that vanished, may be in the middle of a save.
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

// unreadable reports whether a file could not be read, which a chmod may fix.
func (s *scanner) unreadable(name string) bool {
	e := s.files[name]
	return e != nil && e.file.Err != nil
}

// pause returns how long to wait for an event before scanning anyway.
func (s *scanner) pause(snap *Snapshot, stable bool) time.Duration {
	if snap.Err == nil && (!stable || s.writing()) {
		return s.timing.debounce
	}
	if snap.Err != nil || s.err != nil || s.remote(s.dir) {
		return s.timing.poll
	}
	return s.timing.rescan
}

// writing reports whether the snapshot has the previous content of a file that is being written.
func (s *scanner) writing() bool {
	for _, e := range s.files {
		if !e.since.IsZero() && e.file.Err == nil && len(e.file.Data) > 0 {
			return true
		}
	}
	return false
}
