package watch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/reconcile/watch"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// observer runs a Watcher and keeps its reports.
type observer struct {
	t       *testing.T
	dir     string
	watcher *watch.Watcher
	mu      sync.Mutex
	seen    []watch.Snapshot
	news    chan struct{}
}

func observe(t *testing.T, dir string) *observer {
	t.Helper()
	return observeWith(t, &watch.Watcher{Dir: dir, Rescan: time.Hour, Poll: 50 * time.Millisecond})
}

func observeWith(t *testing.T, w *watch.Watcher) *observer {
	t.Helper()
	return observeAs(t, w, func(run func()) { run() })
}

// observeAs runs the watcher by calling as.
func observeAs(t *testing.T, w *watch.Watcher, as func(run func())) *observer {
	t.Helper()
	o := &observer{t: t, dir: w.Dir, news: make(chan struct{}, 1), watcher: w}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go as(func() { ended <- o.watcher.Run(ctx, o.report) })
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	o.until("the first report", func(watch.Snapshot) bool { return true })
	return o
}

func (o *observer) report(s watch.Snapshot) {
	o.mu.Lock()
	o.seen = append(o.seen, s)
	o.mu.Unlock()
	select {
	case o.news <- struct{}{}:
	default:
	}
}

func (o *observer) reports() []watch.Snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]watch.Snapshot(nil), o.seen...)
}

// until waits for a last report that fits and returns the number of reports so far.
func (o *observer) until(what string, fits func(watch.Snapshot) bool) int {
	o.t.Helper()
	timeout := time.After(wait.Limit)
	for {
		if all := o.reports(); len(all) > 0 && fits(all[len(all)-1]) {
			return len(all)
		}
		select {
		case <-o.news:
		case <-timeout:
			o.t.Fatalf("%s was not reported; reports: %s", what, show(o.reports()))
		}
	}
}

func show(all []watch.Snapshot) string {
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "\n  err=%v", s.Err)
		for _, f := range s.Files {
			fmt.Fprintf(&b, " %s=%q(%v)", f.Path, f.Data, f.Err)
		}
	}
	return b.String()
}

// content returns path=data of each file; broken files read path!.
func content(s watch.Snapshot) string {
	var parts []string
	for _, f := range s.Files {
		if f.Err != nil {
			parts = append(parts, f.Path+"!")
			continue
		}
		parts = append(parts, f.Path+"="+string(f.Data))
	}
	return strings.Join(parts, " ")
}

func is(want string) func(watch.Snapshot) bool {
	return func(s watch.Snapshot) bool { return s.Err == nil && content(s) == want }
}

func (o *observer) path(name string) string { return filepath.Join(o.dir, name) }

func write(t *testing.T, path, data string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(data), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// savePatternsCases are the cases of TestSavePatterns.
var savePatternsCases = []struct {
	name string
	save func(t *testing.T, o *observer)
	want string
}{
	{"mv", func(t *testing.T, o *observer) {
		write(t, o.path("a.yaml.tmp"), "new")
		must(t, os.Rename(o.path("a.yaml.tmp"), o.path("a.yaml")))
	}, "a.yaml=new b.yml=b"},
	{"mv from elsewhere", func(t *testing.T, o *observer) {
		from := filepath.Join(t.TempDir(), "x")
		write(t, from, "new")
		must(t, os.Rename(from, o.path("a.yaml")))
	}, "a.yaml=new b.yml=b"},
	{"vim", func(t *testing.T, o *observer) {
		write(t, o.path(".a.yaml.swp"), "swap")
		write(t, o.path("4913"), "")
		must(t, os.Remove(o.path("4913")))
		must(t, os.Rename(o.path("a.yaml"), o.path("a.yaml~")))
		write(t, o.path("a.yaml"), "new")
		must(t, os.Remove(o.path("a.yaml~")))
		must(t, os.Remove(o.path(".a.yaml.swp")))
	}, "a.yaml=new b.yml=b"},
	{"emacs", func(t *testing.T, o *observer) {
		must(t, os.Symlink("me@host.1:2", o.path(".#a.yaml")))
		write(t, o.path("#a.yaml#"), "autosaved")
		must(t, os.Rename(o.path("a.yaml"), o.path("a.yaml~")))
		write(t, o.path("a.yaml"), "new")
		must(t, os.Remove(o.path(".#a.yaml")))
		must(t, os.Remove(o.path("#a.yaml#")))
	}, "a.yaml=new b.yml=b"},
	{"VS Code", func(t *testing.T, o *observer) { write(t, o.path("a.yaml"), "new") }, "a.yaml=new b.yml=b"},
	{"in pieces", func(t *testing.T, o *observer) {
		f, err := os.Create(o.path("a.yaml"))
		must(t, err)
		defer f.Close()
		for _, piece := range []string{"n", "e", "w"} {
			_, err := f.WriteString(piece)
			must(t, err)
		}
	}, "a.yaml=new b.yml=b"},
	{"same size, same time", func(t *testing.T, o *observer) {
		fi, err := os.Stat(o.path("a.yaml"))
		must(t, err)
		write(t, o.path("a.yaml"), "x")
		must(t, os.Chtimes(o.path("a.yaml"), fi.ModTime(), fi.ModTime()))
	}, "a.yaml=x b.yml=b"},
	{"git checkout", func(t *testing.T, o *observer) {
		for i := range 20 {
			name := o.path(fmt.Sprintf("f%02d.yaml", i))
			_ = os.Remove(name)
			write(t, name, "g")
		}
		must(t, os.Remove(o.path("b.yml")))
	}, func() string {
		want := "a.yaml=a"
		for i := range 20 {
			want += fmt.Sprintf(" f%02d.yaml=g", i)
		}
		return want
	}()},
	{"renamed", func(t *testing.T, o *observer) {
		must(t, os.Rename(o.path("a.yaml"), o.path("c.YAML")))
	}, "b.yml=b c.YAML=a"},
}

func TestSavePatterns(t *testing.T) {
	patterns := savePatternsCases
	for _, p := range patterns {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a.yaml"), "a")
			write(t, filepath.Join(dir, "b.yml"), "b")
			o := observe(t, dir)
			o.until("the files", is("a.yaml=a b.yml=b"))
			p.save(t, o)
			o.until("the saved content", is(p.want))
			for _, s := range o.reports() {
				if strings.Contains(content(s), "a.yaml= ") || s.Err != nil {
					t.Errorf("half of a save was reported: %s", show(o.reports()))
				}
			}
		})
	}
}

func TestRenameIntoPlaceIsReportedOnce(t *testing.T) {
	o := observe(t, t.TempDir())
	write(t, o.path("a.tmp"), "1")
	before := len(o.reports())
	must(t, os.Rename(o.path("a.tmp"), o.path("a.yaml")))
	n := o.until("the file", is("a.yaml=1"))
	if n != before+1 {
		t.Errorf("%d reports, want 1: %s", n-before, show(o.reports()))
	}
}

func TestNothingToReport(t *testing.T) {
	actions := map[string]func(t *testing.T, o *observer){
		"chmod":        func(t *testing.T, o *observer) { must(t, os.Chmod(o.path("a.yaml"), 0o644)) },
		"same content": func(t *testing.T, o *observer) { write(t, o.path("a.yaml"), "a") },
		"other files": func(t *testing.T, o *observer) {
			write(t, o.path("notes.txt"), "n")
			write(t, o.path(".x.yaml"), "n")
		},
		"directory": func(t *testing.T, o *observer) { must(t, os.Mkdir(o.path("sub"), 0o700)) },
	}
	for name, act := range actions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a.yaml"), "a")
			o := observe(t, dir)
			act(t, o)
			write(t, o.path("z.yaml"), "z") // its report comes after every report of the action
			o.until("the marker", func(s watch.Snapshot) bool { return strings.Contains(content(s), "z.yaml=z") })
			for _, s := range o.reports() {
				if c := content(s); c != "a.yaml=a" && c != "a.yaml=a z.yaml=z" {
					t.Errorf("reported %s", show(o.reports()))
				}
			}
			if n := len(o.reports()); n != 2 {
				t.Errorf("%d reports, want 2: %s", n, show(o.reports()))
			}
		})
	}
}

func TestConfigMapSwap(t *testing.T) {
	dir := t.TempDir()
	version := func(n, data string) {
		must(t, os.Mkdir(filepath.Join(dir, n), 0o700))
		write(t, filepath.Join(dir, n, "a.yaml"), data)
		must(t, os.Symlink(n, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	version("..1", "one")
	must(t, os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml")))
	o := observe(t, dir)
	o.until("the first version", is("a.yaml=one"))
	version("..2", "two")
	must(t, os.RemoveAll(filepath.Join(dir, "..1")))
	o.until("the second version", is("a.yaml=two"))
	version("..3", "three")
	o.until("the third version", is("a.yaml=three"))
	write(t, filepath.Join(dir, "..3", "a.yaml"), "in place")
	o.until("a write behind the links", is("a.yaml=in place"))
}

func TestLinkToDirectoryIsFollowedAnew(t *testing.T) {
	base := t.TempDir()
	release := func(n string) {
		must(t, os.MkdirAll(filepath.Join(base, n, "pipelines"), 0o700))
		write(t, filepath.Join(base, n, "pipelines", "a.yaml"), n)
		must(t, os.Symlink(n, filepath.Join(base, "next")))
		must(t, os.Rename(filepath.Join(base, "next"), filepath.Join(base, "current")))
	}
	release("r1")
	o := observe(t, filepath.Join(base, "current", "pipelines"))
	o.until("the first release", is("a.yaml=r1"))
	first := o.reports()[0].Dir
	release("r2")
	o.until("the second release", is("a.yaml=r2"))
	all := o.reports()
	if all[len(all)-1].Dir == first {
		t.Error("Dir is the same for another directory")
	}
}

func TestDirectoryComesAndGoes(t *testing.T) {
	base := t.TempDir()
	o := observe(t, filepath.Join(base, "x", "pipelines"))
	missing := func(s watch.Snapshot) bool { return s.Err != nil && len(s.Files) == 0 }
	o.until("that it is missing", missing)
	for i := range 3 {
		must(t, os.MkdirAll(o.dir, 0o700))
		write(t, o.path("a.yaml"), fmt.Sprint(i))
		o.until("the file", is(fmt.Sprint("a.yaml=", i)))
		must(t, os.RemoveAll(filepath.Join(base, "x")))
		o.until("that it is gone", missing)
	}
	must(t, os.MkdirAll(o.dir, 0o700))
	o.until("the empty directory", is(""))
	must(t, os.Rename(o.dir, o.dir+".old"))
	must(t, os.Mkdir(o.dir, 0o700))
	write(t, o.path("b.yaml"), "b")
	o.until("the directory in its place", is("b.yaml=b"))
}

// TestNoDirectory has a FIFO in place of the directory. Opening it would block.
func TestNoDirectory(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "pipelines")
	must(t, syscall.Mkfifo(fifo, 0o600))
	observe(t, fifo).until("the error", func(s watch.Snapshot) bool {
		return s.Err != nil && strings.HasSuffix(s.Err.Error(), "it is not a regular file but a FIFO")
	})
}

func TestReadNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("a.yaml"), "a")
	must(t, os.Mkdir(at("in"), 0o700))
	must(t, os.Symlink(at("a.yaml"), at("in/link.yaml")))
	must(t, os.Mkdir(at("dir.yml"), 0o700))
	must(t, syscall.Mkfifo(at("fifo.test.yaml"), 0o600))
	must(t, os.Symlink(at("fifo.test.yaml"), at("link.YAML")))
	write(t, at("large.yaml"), strings.Repeat("#", watch.MaxSize+1))
	write(t, at("large"), strings.Repeat("#", watch.MaxSize+1))
	for name, want := range map[string]string{
		"a.yaml": "", "in/link.yaml": "", "large": "", "dir.yml": "but a directory: ", "fifo.test.yaml": "but a FIFO: ",
		"link.YAML":  "but a FIFO: ",
		"large.yaml": "larger than 1 MiB", "none.yaml": "no such file",
	} {
		data, err := watch.ReadNamed(at(name))
		if want == "" && (err != nil || len(data) == 0) || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("ReadNamed(%s) = %d bytes, %v; want %q", name, len(data), err, want)
		}
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	cases := []struct {
		name string
		make func(t *testing.T, path string)
		want string
	}{
		{"fifo", func(t *testing.T, p string) { must(t, syscall.Mkfifo(p, 0o600)) }, "not a regular file but a FIFO: "},
		{"directory", func(t *testing.T, p string) {
			must(t, os.Mkdir(p, 0o700))
		}, "not a regular file but a directory: "},
		{"too large", func(t *testing.T, p string) {
			write(t, p, strings.Repeat("#", watch.MaxSize+1))
		}, "larger than 1 MiB"},
		{"loop", func(t *testing.T, p string) { must(t, os.Symlink(filepath.Base(p), p)) }, "too many levels"},
		{"link out", func(t *testing.T, p string) { must(t, os.Symlink("/etc/passwd", p)) },
			"a symbolic link to /etc/passwd"},
		{"link out, to nothing", func(t *testing.T, p string) {
			must(t, os.Symlink("/no/such.yaml", p))
		}, "a symbolic link to /no/such.yaml"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := observe(t, t.TempDir())
			write(t, o.path("good.yaml"), "g")
			c.make(t, o.path("x.yaml"))
			o.until("the error", func(s watch.Snapshot) bool {
				return len(s.Files) == 2 && content(s) == "good.yaml=g x.yaml!" &&
					strings.Contains(s.Files[1].Err.Error(), c.want)
			})
		})
	}
}

func TestEmptyAndDangling(t *testing.T) {
	o := observe(t, t.TempDir())
	must(t, os.Symlink("nowhere", o.path("dangling.yaml")))
	write(t, o.path("empty.yaml"), "")
	o.until("the empty file", is("empty.yaml="))
	write(t, o.path("empty.yaml"), "full")
	o.until("its content", is("empty.yaml=full"))
}

func TestEmptyFileGetsAnotherChance(t *testing.T) {
	t.Parallel()
	o := observeWith(t, &watch.Watcher{Dir: t.TempDir(), Debounce: 300 * time.Millisecond})
	write(t, o.path("a.yaml"), "a")
	o.until("the file", is("a.yaml=a"))
	must(t, os.Truncate(o.path("a.yaml"), 0))
	must(t, o.watcher.Reload(t.Context()))
	if all := o.reports(); content(all[len(all)-1]) != "a.yaml=a" {
		t.Errorf("the truncated file was reported at once: %s", show(all))
	}
	o.until("that it stays empty", is("a.yaml="))
}

// Content that is replaced together with later content is not reported.
func TestEmptyFileInPlaceOfAnother(t *testing.T) {
	o := observe(t, t.TempDir())
	write(t, o.path("b.yaml"), "")
	write(t, o.path("a.yaml"), "a")
	o.until("the files", is("a.yaml=a b.yaml="))
	must(t, os.Rename(o.path("b.yaml"), o.path("a.yaml")))
	o.until("the one that is left", is("a.yaml="))
	for _, s := range o.reports() {
		if content(s) == "a.yaml=a" {
			t.Errorf("a file was reported that is gone: %s", show(o.reports()))
		}
	}
}

func TestStormDoesNotStarve(t *testing.T) {
	t.Parallel()
	o := observeWith(t, &watch.Watcher{Dir: t.TempDir(), MaxWait: 500 * time.Millisecond, Rescan: time.Hour})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				_ = os.WriteFile(o.path("storm.yaml"), fmt.Append(nil, "s", i), 0o600)
			}
		}
	})
	write(t, o.path("a.yaml"), "a")
	o.until("a file changed during the storm", func(s watch.Snapshot) bool {
		return strings.HasPrefix(content(s), "a.yaml=a")
	})
	close(stop)
	wg.Wait()
}

// MaxWait limits the delay, however long the quiet time after an event.
func TestDebounceIsBounded(t *testing.T) {
	o := observeWith(t, &watch.Watcher{Dir: t.TempDir(), Debounce: time.Hour, MaxWait: 20 * time.Millisecond,
		Rescan: time.Hour})
	write(t, o.path("a.yaml"), "a")
	o.until("the file", is("a.yaml=a"))
}

func TestRescanFindsWhatNoEventReported(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "same file")
	o := observeWith(t, &watch.Watcher{Dir: t.TempDir(), Rescan: 20 * time.Millisecond})
	write(t, outside, "a")
	must(t, os.Link(outside, o.path("a.yaml")))
	o.until("the file", is("a.yaml=a"))
	write(t, outside, "b") // under a name that is not watched
	o.until("its change", is("a.yaml=b"))
}

func TestPollsWhenItCannotWatch(t *testing.T) {
	var deaf atomic.Bool
	deaf.Store(true)
	w := &watch.Watcher{Dir: t.TempDir(), Rescan: time.Hour, Poll: 20 * time.Millisecond}
	w.Deafen(&deaf, syscall.EMFILE)
	o := observeWith(t, w)
	for i := range 3 {
		write(t, o.path("a.yaml"), fmt.Sprint(i))
		o.until("a change", is(fmt.Sprint("a.yaml=", i)))
	}
	o.until("how to mend it", func(s watch.Snapshot) bool {
		return errors.Is(s.NoEvents, syscall.EMFILE) && strings.Contains(s.NoEvents.Error(), "max_user_instances")
	})
	deaf.Store(false)
	o.until("the all-clear", func(s watch.Snapshot) bool { return s.NoEvents == nil && content(s) == "a.yaml=2" })
	write(t, o.path("b.yaml"), "c")
	o.until("a change that was heard", is("a.yaml=2 b.yaml=c"))
}

// After a storm of events that overflows the queue of the kernel, everything is scanned.
func TestLostEventsAreMadeUpFor(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "same file")
	var fsw *fsnotify.Watcher
	w := &watch.Watcher{Dir: t.TempDir(), Rescan: time.Hour}
	w.Notify(func() (n *fsnotify.Watcher, err error) {
		fsw, err = fsnotify.NewWatcher()
		return fsw, err
	})
	o := observeWith(t, w)
	write(t, outside, "a")
	must(t, os.Link(outside, o.path("a.yaml")))
	o.until("the file", is("a.yaml=a"))
	write(t, outside, "b") // under a name that is not watched
	fsw.Errors <- fsnotify.ErrEventOverflow
	o.until("its change", is("a.yaml=b"))
}

func TestPollsRemoteDirectories(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "same file")
	w := &watch.Watcher{Dir: t.TempDir(), Rescan: time.Hour, Poll: 20 * time.Millisecond}
	w.Remote()
	o := observeWith(t, w)
	write(t, outside, "a")
	must(t, os.Link(outside, o.path("a.yaml")))
	o.until("the file", is("a.yaml=a"))
	write(t, outside, "b")
	o.until("its change", is("a.yaml=b"))
}

// A file with a time of just now is read again even if nothing else shows a change.
func TestTimesTooCoarseToDiffer(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "same file")
	w := &watch.Watcher{Dir: t.TempDir(), Rescan: 10 * time.Millisecond}
	w.Stamp(time.Now())
	o := observeWith(t, w)
	write(t, outside, "a")
	must(t, os.Link(outside, o.path("a.yaml")))
	o.until("the file", is("a.yaml=a"))
	write(t, outside, "b")
	o.until("its change", is("a.yaml=b"))
}

func TestDirectoryMovedAwayAndBack(t *testing.T) {
	o := observeWith(t, &watch.Watcher{Dir: filepath.Join(t.TempDir(), "pipelines"), Rescan: time.Hour,
		Poll: time.Hour})
	must(t, os.Mkdir(o.dir, 0o700))
	for i := range 3 {
		write(t, o.path("a.yaml"), fmt.Sprint(i))
		o.until("a change", is(fmt.Sprint("a.yaml=", i)))
		must(t, os.Rename(o.dir, o.dir+".away"))
		o.until("that it is missing", func(s watch.Snapshot) bool { return s.Err != nil })
		must(t, os.Rename(o.dir+".away", o.dir))
		o.until("that it is back", is(fmt.Sprint("a.yaml=", i)))
		must(t, os.Rename(o.dir, o.dir+".away")) // now without a scan in between
		must(t, os.Rename(o.dir+".away", o.dir))
		write(t, o.path("a.yaml"), "back")
		o.until("that it was away", is("a.yaml=back"))
	}
}

func TestWritesBehindALink(t *testing.T) {
	o := observe(t, t.TempDir())
	must(t, os.Mkdir(o.path("sub"), 0o700))
	write(t, o.path("sub/content"), "a")
	must(t, os.Symlink("sub/content", o.path("a.yaml")))
	o.until("the file", is("a.yaml=a"))
	write(t, o.path("sub/content"), "b")
	o.until("its change", is("a.yaml=b"))
}

func TestWhichEventsCount(t *testing.T) {
	const dir, target = "/d", "/d/sub/content"
	w := &watch.Watcher{Dir: dir, Debounce: 50 * time.Millisecond}
	for _, c := range []struct {
		name string
		op   fsnotify.Op
		want time.Duration
	}{
		{"a.yaml", fsnotify.Create, 10 * time.Millisecond},
		{"a.yaml", fsnotify.Write, 50 * time.Millisecond},
		{"a.yaml", fsnotify.Remove, 50 * time.Millisecond},
		{"a.yaml", fsnotify.Rename, 50 * time.Millisecond},
		{"a.yaml", fsnotify.Chmod, 0},
		{"a.yaml", fsnotify.Chmod | fsnotify.Write, 50 * time.Millisecond},
		{"sub/content", fsnotify.Write, 50 * time.Millisecond},
		{"sub/content", fsnotify.Create, 10 * time.Millisecond},
		{"notes.txt", fsnotify.Write, 0},
		{"..data", fsnotify.Create, 10 * time.Millisecond},
		{"..data", fsnotify.Write, 10 * time.Millisecond},
		{"", fsnotify.Chmod, 10 * time.Millisecond},
		{"", fsnotify.Remove, 50 * time.Millisecond},
	} {
		if got := w.Quiet(fsnotify.Event{Name: filepath.Join(dir, c.name), Op: c.op}, target, dir); got != c.want {
			t.Errorf("%s %q: %v, want %v", c.op, c.name, got, c.want)
		}
	}
}

func TestReload(t *testing.T) {
	o := observe(t, t.TempDir())
	before := len(o.reports())
	must(t, o.watcher.Reload(t.Context()))
	if n := len(o.reports()); n != before+1 {
		t.Errorf("%d reports after Reload, want %d", n, before+1)
	}
	write(t, o.path("a.yaml"), "a")
	must(t, o.watcher.Reload(t.Context()))
	if all := o.reports(); content(all[len(all)-1]) != "a.yaml=a" {
		t.Errorf("Reload returned before the change was reported: %s", show(all))
	}
}

func TestSingleFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "one.yaml"), "1")
	write(t, filepath.Join(dir, "two.yaml"), "2")
	o := observe(t, filepath.Join(dir, "one.yaml"))
	o.until("the one file", is("one.yaml=1"))
	write(t, filepath.Join(dir, "one.yaml"), "changed")
	o.until("its change", is("one.yaml=changed"))
	must(t, os.Remove(filepath.Join(dir, "one.yaml")))
	o.until("that it is missing", func(s watch.Snapshot) bool { return s.Err != nil })
}
