package watch

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Trigger requests scans of files and directories anywhere. Its zero value is ready for use.
type Trigger struct {
	Log *slog.Logger

	Debounce time.Duration // time without events before a scan; default 25 ms
	MaxWait  time.Duration // limit on the delay of a scan by a stream of events; default 2 s
	Rescan   time.Duration // between scans without an event; default 15 s
	Poll     time.Duration // the same where events are not available; default 1 s

	PollOnly bool // use no events: scan every Poll

	seen func(event string, scans bool) // is called for each event with its path; nil outside of tests
}

// Run calls scan at once, when something may have changed at the paths that scan returned last, when wake is received,
// and at intervals: events are hints, the scan is the truth. A path may name a file, a directory with all of its
// entries, or a file that does not exist yet. scan also returns the longest time until its next call, 0 for the
// interval. Run returns nil when ctx ends.
func (t *Trigger) Run(
	ctx context.Context, wake <-chan struct{}, scan func() (paths []string, again time.Duration),
) error {
	r := &triggerRun{timing: t.timing(), hints: newHints(fsnotify.NewWatcher, logger(t.Log)),
		hanging: map[string]<-chan located{},
		busy:    busy{counts: map[string]*eventCount{}, polled: map[string]time.Time{}}}
	if t.PollOnly {
		r.notify = func() (*fsnotify.Watcher, error) { return nil, errPollOnly }
	}
	defer r.close()
	for ctx.Err() == nil {
		paths, again := scan()
		if r.follow(ctx, paths) {
			continue // something may have changed before the watch was in place
		}
		pause := r.timing.rescan
		if r.err != nil || r.unheard {
			pause = r.timing.poll
		}
		if again > 0 {
			pause = min(pause, again)
		}
		r.wait(ctx, pause, r.timing.maxWait, wake, t.observed(r.quiet))
	}
	return nil
}

func (t *Trigger) observed(quiet func(fsnotify.Event) time.Duration) func(fsnotify.Event) time.Duration {
	if t.seen == nil {
		return quiet
	}
	return func(ev fsnotify.Event) time.Duration {
		d := quiet(ev)
		t.seen(ev.Name, d > 0)
		return d
	}
}

func (t *Trigger) timing() timing {
	return timing{
		debounce: cmp.Or(t.Debounce, defaultTiming.debounce),
		maxWait:  cmp.Or(t.MaxWait, defaultTiming.maxWait),
		rescan:   cmp.Or(t.Rescan, defaultTiming.rescan),
		poll:     cmp.Or(t.Poll, defaultTiming.poll),
	}
}

// triggerRun is the state of a Run of a Trigger, which owns it.
type triggerRun struct {
	hints
	timing  timing
	names   map[string]bool           // files, links and missing names whose events count
	whole   map[string]bool           // directories where all events count; false: except writes to files
	unheard bool                      // a path has no events
	hanging map[string]<-chan located // paths on file systems that did not respond in time
	busy    busy
}

// located is the result of following a path.
type located struct {
	names  []string // links on the way, and the path itself, by their names in events
	dirs   []string // to watch
	whole  string   // path if it is a directory, or the existing part of a missing path; "" for anything else
	exists bool     // whole is path
	remote bool
}

// follow watches the dependencies of paths and reports whether any subscription is new.
func (r *triggerRun) follow(ctx context.Context, paths []string) (added bool) {
	r.begin()
	defer r.end()
	r.names, r.whole, r.unheard = map[string]bool{}, map[string]bool{}, false
	for _, path := range paths {
		l, ok := r.locate(ctx, path)
		if !ok || l.remote {
			r.unheard = true
			continue
		}
		for _, name := range l.names {
			r.names[name] = true
		}
		if l.whole != "" {
			r.whole[l.whole] = r.whole[l.whole] || l.exists
		}
		for _, dir := range l.dirs {
			if r.busy.isPolled(dir, time.Now()) {
				r.unheard = true
				continue
			}
			added = r.watch(dir) || added
		}
	}
	return added
}

// locate follows a path. It returns false while the file system does not respond, as can happen on a network. That must
// not keep the other paths from being watched.
func (r *triggerRun) locate(ctx context.Context, path string) (located, bool) {
	answer := r.hanging[path]
	if answer == nil {
		c := make(chan located, 1)
		go func() { c <- locate(path) }()
		answer = c
	}
	timer := time.NewTimer(r.timing.poll)
	defer timer.Stop()
	if r.hanging[path] != nil {
		timer.Reset(0) // locate has waited already
	}
	select {
	case l := <-answer:
		delete(r.hanging, path)
		return l, true
	case <-timer.C:
	case <-ctx.Done():
	}
	r.hanging[path] = answer
	return located{}, false
}

func locate(path string) located {
	real, links, err := trail(path)
	l := located{names: append(links, real), dirs: []string{filepath.Dir(real)}, remote: remote(real)}
	for _, link := range links {
		l.dirs = append(l.dirs, filepath.Dir(link))
	}
	if fi, serr := os.Stat(real); err != nil || serr == nil && fi.IsDir() { // the directory, or the existing part
		l.whole, l.exists, l.dirs = real, err == nil, append(l.dirs, real)
	}
	return l
}

// quiet returns how long to wait after ev without another event before a scan, 0 when ev is irrelevant.
func (r *triggerRun) quiet(ev fsnotify.Event) time.Duration {
	if _, ours := r.watched[ev.Name]; ours && ev.Op&(fsnotify.Remove|fsnotify.Rename) != 0 {
		delete(r.watched, ev.Name)
		return r.timing.debounce
	}
	dir, name := filepath.Dir(ev.Name), filepath.Base(ev.Name)
	writes, whole := r.whole[dir]
	if whole && !writes && ev.Op == fsnotify.Write { // a write creates no name
		whole = false
	}
	if r.names[ev.Name] || whole || strings.HasPrefix(name, "..") {
		return r.timing.debounce
	}
	if r.ignore(dir, time.Now()) {
		return r.timing.debounce // the wait for an event becomes one for a poll
	}
	return 0
}
