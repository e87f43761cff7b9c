package filesystems_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/reconcile/watch"
)

// mount mounts the file or directory from at to, or a new tmpfs if from is "".
func mount(t *testing.T, from, to string) {
	t.Helper()
	kind, flags := "", uintptr(syscall.MS_BIND)
	if from == "" {
		from, kind, flags = "none", "tmpfs", 0
	}
	err := syscall.Mount(from, to, kind, flags, "")
	if errors.Is(err, os.ErrPermission) {
		t.Fatalf("mounting needs root: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { _ = syscall.Unmount(to, syscall.MNT_DETACH) })
}

// A file that is itself a mount point remains the same file, even if the original is replaced. This is logged once,
// with a remedy.
func TestFilesMountedByThemselves(t *testing.T) {
	base := t.TempDir()
	outside, dir := filepath.Join(base, "outside.yaml"), filepath.Join(base, "pipe lines")
	must(t, os.Mkdir(dir, 0o700))
	write(t, outside, "a")
	write(t, filepath.Join(dir, "a.yaml"), "")
	write(t, filepath.Join(dir, "b.yaml"), "b")
	mount(t, outside, filepath.Join(dir, "a.yaml"))
	var log strings.Builder
	t.Run("at work", func(t *testing.T) { // ends before the log is read
		o := observe(t,
			&watch.Watcher{Dir: dir, Rescan: 10 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))},
			func(watch.Snapshot) {})
		o.until("the files", is("a.yaml=a b.yaml=b"))
		write(t, outside, "in place")
		o.until("a change in place", is("a.yaml=in place b.yaml=b"))
		write(t, outside+".new", "replaced")
		must(t, os.Rename(outside+".new", outside))
		write(t, filepath.Join(dir, "b.yaml"), "c")
		o.until("a change of the other file", is("a.yaml=in place b.yaml=c"))
	})
	if n := strings.Count(log.String(), "mount the directory instead"); n != 1 ||
		!strings.Contains(log.String(), "a.yaml") {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
}

// The directory below an unmounted file system is another directory.
func TestDirectoryIsMountedAndUnmounted(t *testing.T) {
	dir := t.TempDir()
	o := observe(t, &watch.Watcher{Dir: dir, Rescan: 10 * time.Millisecond}, func(watch.Snapshot) {})
	write(t, o.path("under.yaml"), "u")
	o.until("what is under it", is("under.yaml=u"))
	id := func() string { all := o.reports(); return all[len(all)-1].Dir }
	under := id()
	for range 2 {
		mount(t, "", dir)
		write(t, o.path("a.yaml"), "a")
		o.until("what is mounted", is("a.yaml=a"))
		if id() == under {
			t.Error("Dir is the same for another file system")
		}
		must(t, syscall.Unmount(dir, 0))
		o.until("what is under it, again", is("under.yaml=u"))
	}
	if id() != under {
		t.Error("Dir differs for the same directory")
	}
}

// More events happen than the kernel queues, while nothing reads them. The changes at that time, and later ones, are
// detected nevertheless.
func TestQueueOverflow(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	must(t, err)
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	if most > 1<<17 {
		t.Fatalf("the kernel keeps %d events here, too many to overflow in a test", most)
	}
	outside := filepath.Join(t.TempDir(), "same file")
	write(t, outside, "a")
	var log strings.Builder
	t.Run("at work", func(t *testing.T) { // ends before the log is read
		w := &watch.Watcher{Dir: t.TempDir(), Rescan: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil))}
		var others []*os.File // only written to, to fill the queue
		for _, name := range []string{"x.txt", "y.txt"} {
			f, err := os.Create(filepath.Join(w.Dir, name))
			must(t, err)
			defer f.Close()
			others = append(others, f)
		}
		paused, resume := make(chan struct{}), make(chan struct{})
		o := observe(t, w, func(s watch.Snapshot) {
			if content(s) == "a.yaml=a" {
				close(paused)
				<-resume
			}
		})
		must(t, os.Link(outside, o.path("a.yaml")))
		<-paused
		for i := range most + 10_000 { // some are taken out of the queue and kept elsewhere
			_, err := others[i%2].WriteAt([]byte("x"), 0)
			must(t, err)
		}
		write(t, outside, "b") // under a name that is not watched
		close(resume)
		o.until("its change", is("a.yaml=b"))
		write(t, o.path("b.yaml"), "b")
		o.until("another file", is("a.yaml=b b.yaml=b"))
	})
	if !strings.Contains(log.String(), "file system events were lost") {
		t.Errorf("nothing was lost:\n%s", log.String())
	}
}

// observer runs a Watcher and keeps its reports.
type observer struct {
	t    *testing.T
	dir  string
	mu   sync.Mutex
	seen []watch.Snapshot
}

// observe returns an observer that has seen the first report. During each report the watcher waits for during.
func observe(t *testing.T, w *watch.Watcher, during func(watch.Snapshot)) *observer {
	t.Helper()
	o, ended := &observer{t: t, dir: w.Dir}, make(chan error)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		ended <- w.Run(ctx, func(s watch.Snapshot) {
			o.mu.Lock()
			o.seen = append(o.seen, s)
			o.mu.Unlock()
			during(s)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	o.until("the first report", func(watch.Snapshot) bool { return true })
	return o
}

func (o *observer) reports() []watch.Snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.seen)
}

// until waits for a last report that matches.
func (o *observer) until(what string, fits func(watch.Snapshot) bool) {
	o.t.Helper()
	wait.For(o.t, what, func() bool {
		all := o.reports()
		return len(all) > 0 && fits(all[len(all)-1])
	}, func() string { return fmt.Sprint(o.reports()) })
}

func (o *observer) path(name string) string { return filepath.Join(o.dir, name) }

// is matches a report of files, each as NAME=TEXT.
func is(want string) func(watch.Snapshot) bool {
	return func(s watch.Snapshot) bool { return s.Err == nil && content(s) == want }
}

func content(s watch.Snapshot) string {
	var parts []string
	for _, f := range s.Files {
		parts = append(parts, f.Path+"="+string(f.Data))
	}
	return strings.Join(parts, " ")
}

func write(t *testing.T, path, data string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(data), 0o600))
}
