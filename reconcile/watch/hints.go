package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/conduit-agent/conduit/spec/fingerprint"
)

// hints are the events of the relevant directories. They only say when to scan: each scan determines the relevant
// directories again, between begin and end.
type hints struct {
	notify  func() (*fsnotify.Watcher, error)
	log     *slog.Logger
	fsw     *fsnotify.Watcher
	watched map[string]fingerprint.ID // watched directories, with their identity at that time
	wanted  map[string]bool           // directories that this scan needs
	err     error                     // why changes may come without an event
}

func newHints(notify func() (*fsnotify.Watcher, error), log *slog.Logger) hints {
	return hints{notify: notify, log: log, watched: map[string]fingerprint.ID{}}
}

func (h *hints) begin() { h.wanted, h.err = map[string]bool{}, nil }

// watch subscribes to events of a directory and reports whether the subscription is new. A directory without events is
// polled.
func (h *hints) watch(dir string) bool {
	if dir == "" || h.wanted[dir] {
		return false
	}
	h.wanted[dir] = true
	id, err := statDir(dir)
	if err != nil {
		return false
	}
	if known, ok := h.watched[dir]; ok && known == id {
		return false
	}
	if h.fsw == nil {
		if h.fsw, err = h.notify(); err != nil {
			h.fsw, h.err = nil, explain(err)
			return false
		}
	}
	_ = h.fsw.Remove(dir) // of the previous directory in this place
	if err := h.fsw.Add(dir); err != nil {
		delete(h.watched, dir)
		h.err = explain(err)
		return false
	}
	h.watched[dir] = id
	return true
}

func statDir(dir string) (fingerprint.ID, error) {
	fi, err := os.Stat(dir)
	if err != nil {
		return fingerprint.ID{}, err
	}
	if !fi.IsDir() {
		return fingerprint.ID{}, syscall.ENOTDIR
	}
	return fingerprint.Identify(fi), nil
}

// end stops watching the directories that are no longer relevant.
func (h *hints) end() {
	for dir := range h.watched {
		if !h.wanted[dir] {
			h.unwatch(dir)
		}
	}
}

// unwatch stops watching a directory.
func (h *hints) unwatch(dir string) {
	_ = h.fsw.Remove(dir)
	delete(h.watched, dir)
}

// explain adds a remedy to an error of the system that prevents events.
func explain(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w; raise the limit with: sysctl fs.inotify.max_user_watches=524288", err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w; raise the limit with: sysctl fs.inotify.max_user_instances=1024", err)
	}
	return err
}

// wait returns when it is time to scan: after pause, when wake is received, when events were lost, or after events.
// quiet returns how long to wait after an event for another one, 0 for an irrelevant event. The wait ends at the latest
// maxWait after the first event.
func (h *hints) wait(
	ctx context.Context, pause, maxWait time.Duration, wake <-chan struct{}, quiet func(fsnotify.Event) time.Duration,
) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var first, due time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
			return
		case <-timer.C:
			return
		case err := <-h.errors():
			h.log.Warn("file system events were lost, rescanning the directory", "err", err)
			return
		case ev := <-h.events():
			d := quiet(ev)
			if d == 0 {
				continue
			}
			now := time.Now()
			if first.IsZero() {
				first = now
			}
			due = later(due, now.Add(d))
			if limit := first.Add(maxWait); due.After(limit) {
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

func (h *hints) events() <-chan fsnotify.Event {
	if h.fsw == nil {
		return nil
	}
	return h.fsw.Events
}

func (h *hints) errors() <-chan error {
	if h.fsw == nil {
		return nil
	}
	return h.fsw.Errors
}

func (h *hints) close() {
	if h.fsw != nil {
		_ = h.fsw.Close()
	}
}
