package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/spec/fingerprint"
)

// hints are the events of the relevant paths. They only say when to scan: each scan determines the relevant paths
// again, between begin and end.
type hints struct {
	notify   func() (*notifier, error)
	log      *slog.Logger
	notifier *notifier
	watched  map[string]subscription
	wanted   map[string]interest // paths that this scan needs
	err      error               // why changes may come without an event
}

// subscription is a watched path, with the identity of the file or directory at that time.
type subscription struct {
	id   fingerprint.ID
	want interest
}

func newHints(notify func() (*notifier, error), log *slog.Logger) hints {
	return hints{notify: notify, log: log, watched: map[string]subscription{}}
}

func (h *hints) begin() { h.wanted, h.err = map[string]interest{}, nil }

// watch subscribes to events of a directory or file and reports whether the subscription is new. A path without events
// is polled.
func (h *hints) watch(path string, want interest) bool {
	if path == "" || h.wanted[path]|want == h.wanted[path] {
		return false
	}
	h.wanted[path] |= want
	want = h.wanted[path]
	fi, err := os.Stat(path)
	if err != nil || !fi.IsDir() && !fi.Mode().IsRegular() {
		return false
	}
	id := fingerprint.Identify(fi)
	known, ok := h.watched[path]
	if ok = ok && known.id == id; ok && known.want|want == known.want {
		return false
	}
	if h.notifier == nil {
		if h.notifier, err = h.notify(); err != nil {
			h.notifier, h.err = nil, explain(err)
			return false
		}
	}
	if !ok {
		h.notifier.remove(path) // what was in this place
	}
	if err := h.notifier.add(path, want); err != nil {
		delete(h.watched, path)
		h.err = explain(err)
		return false
	}
	h.watched[path] = subscription{id, want}
	return true
}

// end stops watching what is no longer relevant.
func (h *hints) end() {
	for path, s := range h.watched {
		switch want := h.wanted[path]; {
		case want == 0:
			h.notifier.remove(path)
			delete(h.watched, path)
		case want != s.want:
			if h.notifier.add(path, want) == nil { // else more events come than are needed
				h.watched[path] = subscription{s.id, want}
			}
		}
	}
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
// quiet returns how long to wait after an event for another one, 0 for an irrelevant event. Only the last event of each
// name counts. The wait ends at the latest maxWait after the first event.
func (h *hints) wait(
	ctx context.Context, pause, maxWait time.Duration, wake <-chan struct{}, quiet func(event) time.Duration,
) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var first time.Time
	due := map[string]time.Time{} // by name
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
			due[ev.name] = now.Add(d)
			timer.Reset(time.Until(earlier(latest(due), first.Add(maxWait))))
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func latest(times map[string]time.Time) (last time.Time) {
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

func (h *hints) events() <-chan event {
	if h.notifier == nil {
		return nil
	}
	return h.notifier.events
}

func (h *hints) errors() <-chan error {
	if h.notifier == nil {
		return nil
	}
	return h.notifier.errors
}

func (h *hints) close() {
	if h.notifier != nil {
		h.notifier.close()
	}
}
