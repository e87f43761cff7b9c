package watch

import (
	"path/filepath"
	"strings"
	"time"
)

// quiet returns how long to wait after ev without another event before a scan, 0 when ev is of no interest. A file that
// was renamed into place is complete. A file that was closed after a write is probably complete, but its writer may
// open it again for more. A file that is being written to, or that vanished, may be in the middle of a save.
func (s *scanner) quiet(ev event) time.Duration {
	_, ours := s.watched[ev.name]
	if ev.op == changed && !ours && !s.unreadable(filepath.Base(ev.name)) {
		return 0
	}
	if ours && ev.op&removed != 0 {
		delete(s.watched, ev.name)
		return s.timing.debounce
	}
	if IsPipelineFile(filepath.Base(ev.name)) || s.targets[ev.name] {
		return s.timing.after(ev.op)
	}
	if ev.op&^(written|complete) == 0 && !strings.HasPrefix(filepath.Base(ev.name), "..") {
		return 0
	}
	return s.timing.after(created)
}

// after returns how long to wait for more after a change of a file.
func (t *timing) after(op op) time.Duration {
	switch op {
	case created:
		return max(t.debounce/5, time.Millisecond)
	case complete:
		return max(t.debounce*2/5, time.Millisecond)
	}
	return t.debounce
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
