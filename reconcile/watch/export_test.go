package watch

import (
	"context"
	"io/fs"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/spec/fingerprint"
)

// Deafen makes w get err instead of events while deaf is true.
func (w *Watcher) Deafen(deaf *atomic.Bool, err error) {
	w.system.notify = func() (*notifier, error) {
		if deaf.Load() {
			return nil, err
		}
		return newNotifier()
	}
}

// Overflow returns a function that makes w lose its events. It must be called after the first scan.
func (w *Watcher) Overflow() func() {
	var n *notifier
	w.system.notify = func() (_ *notifier, err error) {
		n, err = newNotifier()
		return n, err
	}
	return func() { n.errors <- errOverflow }
}

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

// Op is a change of a file.
type Op = op

// Changes of a file.
const (
	Created  = created
	Written  = written
	Complete = complete
	Removed  = removed
	Changed  = changed
)

// Quiet returns how long to wait after a change of name without another event before a scan, when w knows a link to
// target and watches dir.
func (w *Watcher) Quiet(name string, op Op, target, dir string) time.Duration {
	s := newScanner(w)
	s.targets, s.watched[dir] = map[string]bool{target: true}, subscription{}
	return s.quiet(event{name, op})
}

// Waits returns how long w waits for more after these changes of a file, one after the other.
func (w *Watcher) Waits(name string, ops ...Op) time.Duration {
	s := newScanner(w)
	s.notifier = &notifier{events: make(chan event)}
	go func() {
		for _, op := range ops {
			s.notifier.events <- event{name, op}
		}
	}()
	began := time.Now()
	s.wait(context.Background(), time.Hour, s.timing.maxWait, nil, s.quiet)
	return time.Since(began)
}

// Follow returns a function that waits for the next event that the kernel reports to a Trigger of paths, relevant or
// not.
func Follow(t testing.TB, paths ...string) (next func() (name string, op Op)) {
	r := &triggerRun{timing: defaultTiming, hints: newHints(newNotifier, logger(nil)),
		hanging: map[string]<-chan located{}}
	r.follow(t.Context(), paths)
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(r.close)
	return func() (string, Op) {
		ev := <-r.events()
		return ev.name, ev.op
	}
}

// Scans returns a function that scans like w, without waiting for events.
func (w *Watcher) Scans() func(reread bool) {
	s := newScanner(w)
	return func(reread bool) { s.scan(time.Now(), reread) }
}

// Mounts returns the mount points below dir.
func Mounts(dir string) map[string]bool { return mounts(dir) }
