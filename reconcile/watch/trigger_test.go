package watch_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec/notify"
)

// triggered is a running Trigger, and the scans that it requested.
type triggered struct {
	*testing.T
	scans chan time.Time

	mu      sync.Mutex
	paths   []string       // guarded by mu
	ignored map[string]int // guarded by mu: number of events that lead to no scan, by path
}

// trigger runs t for paths until the test ends.
func trigger(t *testing.T, trigger *watch.Trigger, wake notify.Signal, paths ...string) *triggered {
	t.Helper()
	w := &triggered{T: t, scans: make(chan time.Time, 1000), paths: paths, ignored: map[string]int{}}
	trigger.Seen(func(event string, scans bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !scans {
			w.ignored[event]++
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- trigger.Run(ctx, wake, func() ([]string, time.Duration) {
			w.scans <- time.Now()
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.paths, 0
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return w
}

// watches waits until the trigger gets events: it scans again when it has begun to.
func (w *triggered) watches() {
	w.Helper()
	w.scan("the start")
	w.scan("watching began")
}

// ignores changes something at a path, and waits until the trigger has seen the event there and ignored it.
func (w *triggered) ignores(path string, change func()) {
	w.Helper()
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.ignored[path]
	}
	before := count()
	change()
	wait.For(w, "an event that is ignored", func() bool { return count() > before })
}

// rests waits until the trigger has seen all earlier events, and forgets their scans. It writes to a file that the
// trigger ignores.
func (w *triggered) rests(ignored string) {
	w.Helper()
	w.ignores(ignored, func() { write(w.T, ignored, "again") })
	for len(w.scans) > 0 {
		<-w.scans
	}
}

// scan waits for a scan after what.
func (w *triggered) scan(what string) {
	w.Helper()
	select {
	case <-w.scans:
	case <-time.After(wait.Limit):
		w.Fatalf("no scan after %s", what)
	}
}

// mustOf returns a function that fails the test on an error.
func mustOf(t *testing.T) func(error) {
	return func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTriggerSeesWhatMayChangeAPath makes every kind of change that leads to other content at a path. Intervals are so
// long that only events can cause a scan.
func TestTriggerSeesWhatMayChangeAPath(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	must := mustOf(t)
	for _, d := range []string{"files", "a", "b", "whole", "links", "late"} {
		must(os.Mkdir(path(d), 0o755))
	}
	write(t, path("files", "one"), "1")
	write(t, path("a", "two"), "1")
	write(t, path("b", "two"), "2")
	must(os.Symlink("a", path("..data"))) // as Kubernetes mounts a secret
	must(os.Symlink(path("..data", "two"), path("links", "two")))
	other := path("files", "other")
	write(t, other, "1")
	w := trigger(t, &watch.Trigger{Debounce: time.Nanosecond, Rescan: time.Hour, Poll: time.Hour}, nil,
		path("files", "one"), path("links", "two"), path("whole"), path("late", "later", "deep", "file"))
	w.watches()
	steps := []struct {
		name string
		do   func()
	}{
		{"a write", func() { write(t, path("files", "one"), "2") }},
		{"a rename over it", func() {
			write(t, path("files", ".tmp"), "3")
			must(os.Rename(path("files", ".tmp"), path("files", "one")))
		}},
		{"a chmod", func() { must(os.Chmod(path("files", "one"), 0o600)) }},
		{"its removal", func() { must(os.Remove(path("files", "one"))) }},
		{"its return", func() { write(t, path("files", "one"), "4") }},
		{"a write behind links", func() { write(t, path("a", "two"), "5") }},
		{"another target of a link on the way", func() {
			must(os.Symlink("b", path("..tmp")))
			must(os.Rename(path("..tmp"), path("..data")))
		}},
		{"a write to the new target", func() { write(t, path("b", "two"), "6") }},
		{"a new entry of a directory", func() { write(t, path("whole", "entry"), "1") }},
		{"a write to an entry of a directory", func() { write(t, path("whole", "entry"), "2") }},
		{"the directory of a path that was missing", func() { must(os.Mkdir(path("late", "later"), 0o755)) }},
		{"the one below", func() { must(os.Mkdir(path("late", "later", "deep"), 0o755)) }},
		{"a file that was missing", func() { write(t, path("late", "later", "deep", "file"), "1") }},
		{"another directory in its place", func() {
			must(os.Rename(path("late", "later", "deep"), path("old")))
			must(os.Mkdir(path("late", "later", "deep"), 0o755))
		}},
		{"a file in that", func() { write(t, path("late", "later", "deep", "file"), "2") }},
	}
	for _, s := range steps {
		s.do()
		w.scan(s.name)
		w.rests(other)
	}
	w.ignores(path("files", "new"), func() { write(t, path("files", "new"), "1") })
}

// A wait for a missing path does not scan with each write to a file next to it.
func TestTriggerIgnoresWritesNextToWhatIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	busy := filepath.Join(dir, "busy")
	write(t, busy, "1")
	w := trigger(t, &watch.Trigger{Rescan: time.Hour, Poll: time.Hour}, nil, filepath.Join(dir, "missing"))
	w.watches()
	w.rests(busy)
	if err := os.Mkdir(filepath.Join(dir, "missing"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.scan("the path came")
}

// A directory that others write to all the time is polled while the trigger only waits there for a missing name: it
// does not subscribe to an event for each write.
func TestTriggerPollsABusyDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	busy := []string{filepath.Join(dir, "busy"), filepath.Join(dir, "too")} // equal events in a row are coalesced
	write(t, busy[0], "line")
	write(t, busy[1], "line")
	w := trigger(t, &watch.Trigger{Rescan: time.Hour, Poll: 2 * time.Millisecond}, nil, filepath.Join(dir, "missing"))
	w.watches()
	w.rests(busy[0])
	wait.For(t, "scans by the clock", func() bool {
		for i := range 300 {
			write(t, busy[i%2], "line")
		}
		return len(w.scans) > 0
	})
	for range 50 {
		w.scan("those, though nothing happens")
	}
}

func TestBusyDirectoriesArePolledForAWhile(t *testing.T) {
	at := time.Unix(1e9, 0)
	if watch.PolledAfter(100, at, at) {
		t.Error("polled after 100 events in a second")
	}
	if watch.PolledAfter(1000, at, at.Add(20*time.Millisecond)) != true {
		t.Error("not polled after 1000 events in a second")
	}
	if watch.PolledAfter(101, at, at.Add(2*time.Minute)) {
		t.Error("still polled two minutes later")
	}
}

// TestTriggerScansAnyway has no events, and then a wake-up: the intervals hold.
func TestTriggerScansAnyway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := notify.NewSignal()
		w := trigger(t, &watch.Trigger{PollOnly: true, Poll: time.Second, Rescan: time.Minute}, wake, t.TempDir())
		first := <-w.scans
		if pause := (<-w.scans).Sub(first); pause != time.Second {
			t.Errorf("the next scan comes after %v, want 1s", pause)
		}
		wake.Notify()
		synctest.Wait()
		select {
		case <-w.scans:
		default:
			t.Error("a wake-up causes no scan")
		}
	})
}
