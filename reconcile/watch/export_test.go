package watch

import (
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/conduit-agent/conduit/spec/fingerprint"
)

// Deafen makes w get err instead of events while deaf is true.
func (w *Watcher) Deafen(deaf *atomic.Bool, err error) {
	w.Notify(func() (*fsnotify.Watcher, error) {
		if deaf.Load() {
			return nil, err
		}
		return fsnotify.NewWatcher()
	})
}

// Notify makes w get its events from the watcher that notify returns.
func (w *Watcher) Notify(notify func() (*fsnotify.Watcher, error)) { w.system.notify = notify }

// Stamp stops the clock of the file system: every file seems to have been changed at t.
func (w *Watcher) Stamp(t time.Time) {
	w.system.print = func(fi fs.FileInfo) fingerprint.Print {
		f := fingerprint.Of(fi)
		f.Mtime, f.Ctime = t.UnixNano(), t.UnixNano()
		return f
	}
}

// Remote makes w treat its directory as part of a network file system.
func (w *Watcher) Remote() { w.system.remote = func(string) bool { return true } }

// Quiet returns how long to wait after ev without another event before a scan, when w knows a link to target and
// watches dir.
func (w *Watcher) Quiet(ev fsnotify.Event, target, dir string) time.Duration {
	s := newScanner(w)
	s.targets, s.watched[dir] = map[string]bool{target: true}, fingerprint.ID{}
	return s.quiet(ev)
}

// Seen makes t call seen for each event, with its path and whether it leads to a scan.
func (t *Trigger) Seen(seen func(event string, scans bool)) { t.seen = seen }

// Scans returns a function that scans like w, without waiting for events.
func (w *Watcher) Scans() func(reread bool) {
	s := newScanner(w)
	return func(reread bool) { s.scan(time.Now(), reread) }
}

// PolledAfter reports whether a directory is polled at now, after so many irrelevant events at a time.
func PolledAfter(events int, at, now time.Time) bool {
	b := busy{counts: map[string]*eventCount{}, polled: map[string]time.Time{}}
	for range events {
		if b.exceeded("dir", at) {
			b.poll("dir", at)
		}
	}
	return b.isPolled("dir", now)
}

// Mounts returns the mount points below dir.
func Mounts(dir string) map[string]bool { return mounts(dir) }
