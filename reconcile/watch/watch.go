// Package watch observes a directory of pipeline files. Events of the file system are
// hints; every report is a complete scan.
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
)

// Snapshot is one complete look at the directory.
type Snapshot struct {
	// Err says why the directory could not be looked at: missing, unreadable. Files is
	// then empty, and nothing may be concluded from the absence of a file.
	Err error
	// Dir identifies the directory that was looked at. It changes when another
	// directory, or another file system, takes its place. It is "" with Err.
	Dir string
	// NoEvents says why changes may come without an event, so that they are found by polling
	// only; nil where events can be had, and on remote file systems, which have none.
	NoEvents error
	// Files are the pipeline files found, sorted by path.
	Files []File
}

// File is one pipeline file as it was found.
type File struct {
	Path string // relative to the directory, with slashes
	Data []byte
	Hash string // of Data, hex; "" with Err
	Err  error  // why it could not be read; Data is then empty
}

// MaxSize is the size in bytes beyond which a pipeline file is not read.
const MaxSize = 1 << 20

// Watcher reports what is in a directory, at once and whenever it changes. Only Dir
// must be set.
type Watcher struct {
	// Dir is the directory, or a single pipeline file. It may be missing, come and go.
	Dir string
	Log *slog.Logger

	Debounce time.Duration // how long it must be quiet after a write; default 25 ms
	MaxWait  time.Duration // a stream of events delays a scan no longer; default 2 s
	Rescan   time.Duration // between scans that no event asked for; default 15 s
	Poll     time.Duration // the same where events cannot be relied on; default 1 s

	PollOnly bool // ask for no events: scan every Poll, and at a Reload

	once    sync.Once
	reloads chan chan struct{}
	system  system
}

// Reload scans now, reading every file afresh, and reports even if nothing changed. It
// returns when the report was made; Run must be running.
func (w *Watcher) Reload(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case w.requests() <- done:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *Watcher) requests() chan chan struct{} {
	w.once.Do(func() { w.reloads = make(chan chan struct{}) })
	return w.reloads
}

// Run calls report with the first scan, and then with every scan that differs from the
// one before. Calls do not overlap. It returns nil when ctx ends.
func (w *Watcher) Run(ctx context.Context, report func(Snapshot)) error {
	s := newScanner(w)
	defer s.close()
	var last *Snapshot
	var reloads []chan struct{}
	for {
		snap, settled := s.scan(time.Now(), len(reloads) > 0)
		if !errors.Is(s.noEvents, errPollOnly) {
			snap.NoEvents = s.noEvents
		}
		if settled && (last == nil || len(reloads) > 0 || !same(&snap, last)) {
			last = &snap
			report(snap)
		}
		if settled {
			for _, done := range reloads {
				close(done)
			}
			reloads = nil
		}
		if done := w.wait(ctx, s, s.pause(&snap, settled)); done != nil {
			reloads = append(reloads, done)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// wait returns when it is time to scan: pause has passed, what happened has come to
// rest, or a reload was asked for, whose channel it then returns.
func (w *Watcher) wait(ctx context.Context, s *scanner, pause time.Duration) chan struct{} {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var first, due time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case done := <-w.requests():
			return done
		case <-timer.C:
			return nil
		case err := <-s.errors():
			s.log.Warn("events of the pipelines directory were lost, looking at everything", "err", err)
			return nil
		case ev := <-s.events():
			quiet := s.quiet(ev)
			if quiet == 0 {
				continue
			}
			now := time.Now()
			if first.IsZero() {
				first = now
			}
			due = later(due, now.Add(quiet))
			if limit := first.Add(s.timing.maxWait); due.After(limit) {
				due = limit
			}
			timer.Reset(time.Until(due))
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// system is what the scanner asks of the system. Tests put their own in.
type system struct {
	notify func() (*fsnotify.Watcher, error)
	print  func(fs.FileInfo) fingerprint
	remote func(dir string) bool
}

// timing is the settings of a Watcher with defaults filled in.
type timing struct{ debounce, maxWait, rescan, poll time.Duration }

func (w *Watcher) timing() timing {
	return timing{
		debounce: cmp.Or(w.Debounce, 25*time.Millisecond),
		maxWait:  cmp.Or(w.MaxWait, 2*time.Second),
		rescan:   cmp.Or(w.Rescan, 15*time.Second),
		poll:     cmp.Or(w.Poll, time.Second),
	}
}

func (w *Watcher) logger() *slog.Logger {
	if w.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return w.Log.With("component", "watch")
}

// same reports whether a and b tell the same.
func same(a, b *Snapshot) bool {
	if text(a.Err) != text(b.Err) || text(a.NoEvents) != text(b.NoEvents) || a.Dir != b.Dir || len(a.Files) != len(b.Files) {
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
