// Package watch observes files: a directory of pipeline files (Watcher), or files and directories anywhere (Trigger).
// Events of the file system are hints that say when to scan. Only a complete scan finds the changes, and a scan is made
// at intervals in any case.
package watch

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/conduit-agent/conduit/spec/fingerprint"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Snapshot is the result of a complete scan of the directory.
type Snapshot struct {
	// Err says why the directory could not be scanned: missing, unreadable. Files is then empty, and the absence of a
	// file means nothing.
	Err error
	// Dir identifies the directory that was scanned. It changes when another
	// directory, or another file system, takes its place. It is "" with Err.
	Dir string
	// NoEvents says why changes may come without an event, so that only polling finds them. It is nil where events are
	// available, and on remote file systems, which have none.
	NoEvents error
	// Files are the pipeline files found, sorted by path.
	Files []File
}

// File is a pipeline file in a scan.
type File struct {
	Path string // relative to the directory, with slashes
	Data []byte
	Hash string // of Data, hex; "" with Err
	Err  error  // why it could not be read; Data is then empty
}

// MaxSize is the size in bytes beyond which a pipeline file is not read.
const MaxSize = 1 << 20

// Watcher reports the content of a directory, at once and whenever it changes. Only Dir must be set.
type Watcher struct {
	// Dir is the directory, or a single pipeline file. It may be missing, come and go.
	Dir string
	Log *slog.Logger

	Debounce time.Duration // time without events before a scan; default 25 ms
	MaxWait  time.Duration // limit on the delay of a scan by a stream of events; default 2 s
	Rescan   time.Duration // between scans without an event; default 15 s
	Poll     time.Duration // the same where events are unreliable; default 1 s

	PollOnly bool // use no events: scan every Poll, and at a Reload

	once     sync.Once
	reload   notify.Signal
	mu       sync.Mutex
	awaiting []chan struct{} // guarded by mu; each is closed after a reload
	system   system
}

func (w *Watcher) init() { w.once.Do(func() { w.reload = notify.NewSignal() }) }

// Reload scans now, reading every file again, and reports even if nothing changed. It returns when the report was made;
// Run must be running.
func (w *Watcher) Reload(ctx context.Context) error {
	w.init()
	done := make(chan struct{})
	w.mu.Lock()
	w.awaiting = append(w.awaiting, done)
	w.mu.Unlock()
	w.reload.Notify()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// requested returns the requested reloads. Each is closed when it is done.
func (w *Watcher) requested() []chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.awaiting
	w.awaiting = nil
	return all
}

// Run calls report with the first scan, and then with every scan that differs from the previous one. Calls do not
// overlap. It returns nil when ctx ends.
func (w *Watcher) Run(ctx context.Context, report func(Snapshot)) error {
	w.init()
	s := newScanner(w)
	defer s.close()
	var last *Snapshot
	var reloads []chan struct{}
	for ctx.Err() == nil {
		reloads = append(reloads, w.requested()...)
		snap, stable := s.scan(time.Now(), len(reloads) > 0)
		if !errors.Is(s.err, errPollOnly) {
			snap.NoEvents = s.err
		}
		if stable && (last == nil || len(reloads) > 0 || !same(&snap, last)) {
			last = &snap
			report(snap)
		}
		if stable {
			for _, done := range reloads {
				close(done)
			}
			reloads = nil
		}
		s.wait(ctx, s.pause(&snap, stable), s.timing.maxWait, w.reload, s.quiet)
	}
	return nil
}

// system is the interface of the scanner to the operating system. Tests replace it.
type system struct {
	notify func() (*fsnotify.Watcher, error)
	print  func(fs.FileInfo) fingerprint.Print
	remote func(dir string) bool
}

// timing is the settings of a Watcher with defaults filled in.
type timing struct{ debounce, maxWait, rescan, poll time.Duration }

// defaultTiming is the default timing of a Watcher and of a Trigger.
var defaultTiming = timing{debounce: 25 * time.Millisecond, maxWait: 2 * time.Second, rescan: 15 * time.Second,
	poll: time.Second}

func (w *Watcher) timing() timing {
	return timing{
		debounce: cmp.Or(w.Debounce, defaultTiming.debounce),
		maxWait:  cmp.Or(w.MaxWait, defaultTiming.maxWait),
		rescan:   cmp.Or(w.Rescan, defaultTiming.rescan),
		poll:     cmp.Or(w.Poll, defaultTiming.poll),
	}
}

// logger returns log for this package, or a discarding logger if log is nil.
func logger(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log.With("component", "watch")
}

// same reports whether a and b are equal.
func same(a, b *Snapshot) bool {
	if text(a.Err) != text(b.Err) || text(a.NoEvents) != text(b.NoEvents) || a.Dir != b.Dir ||
		len(a.Files) != len(b.Files) {
		return false
	}
	for i := range a.Files {
		f, g := &a.Files[i], &b.Files[i]
		if f.Path != g.Path || f.Hash != g.Hash || text(f.Err) != text(g.Err) {
			return false
		}
	}
	return true
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
