package files_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/reconcile/files"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/yamldoc"
)

// parse reads words: "a:1" is version 1 of pipeline a, "!a" is a with errors, "?" is unreadable. An empty file is
// broken, "-" declares nothing.
func parse(path string, data []byte) spec.File {
	var f spec.File
	words := strings.Fields(string(data))
	f.Broken = len(words) == 0
	for i, w := range words {
		id, version, ok := strings.Cut(w, ":")
		switch {
		case w == "-":
		case w == "?":
			f.Broken = true
		case ok:
			f.Pipelines = append(f.Pipelines, spec.Parsed{Pipeline: pipeline(id, version), Line: i + 1,
				Places: spec.PlacesOf(map[string]yamldoc.Mark{"/id": {Line: i + 1, Column: 7}})})
		default:
			f.Invalid = append(f.Invalid, w[1:])
			f.Problems = append(f.Problems, spec.Problem{File: path, Line: i + 1, Column: 3, Pipeline: w[1:],
				Severity: spec.SeverityError, Message: "bad"})
		}
	}
	return f
}

// dir describes a directory: "x.yaml=a:1 b:2|y.yaml=…"; "x.yaml!" cannot be read, and "!" is a missing directory.
func dir(text string) watch.Snapshot {
	if text == "!" {
		return watch.Snapshot{Err: errors.New("it is missing")}
	}
	s := watch.Snapshot{Dir: "1"}
	for part := range strings.SplitSeq(text, "|") {
		path, data, ok := strings.Cut(part, "=")
		switch {
		case ok:
			s.Files = append(s.Files, watch.File{Path: path, Data: []byte(data), Hash: "#" + data})
		case part != "":
			s.Files = append(s.Files, watch.File{Path: path[:len(path)-1], Err: errors.New("permission denied")})
		}
	}
	return s
}

// show returns the declarations: "a:1@x.yaml", with a dagger when it is withdrawn, and the problems as "x.yaml:1:7".
func (m *memory) show() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for id, d := range m.declared {
		s := fmt.Sprintf("%s:%s@%s", id, d.Pipeline.Connectors[0].Settings["version"], d.Owner.Path)
		if !d.Withdrawn.IsZero() {
			s += "†"
		}
		all = append(all, s)
	}
	for _, f := range m.files {
		for _, p := range f.Problems {
			all = append(all, "!"+strings.TrimSuffix(files.Place(p), ": "))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestFiles(t *testing.T) {
	cases := []struct {
		name  string
		steps []string // the files seen, and then the expected declarations
	}{
		{"new, changed, dropped", []string{"x=a:1 b:1", "a:1@x b:1@x", "x=a:2 b:1", "a:2@x b:1@x", "x=b:1",
			"a:2@x† b:1@x"}},
		{"nothing declared", []string{"x=a:1", "a:1@x", "x=-", "a:1@x†"}},
		{"deleted", []string{"x=a:1|y=b:1", "a:1@x b:1@y", "y=b:1", "a:1@x† b:1@y", "x=a:1|y=b:1", "a:1@x b:1@y"}},
		{"the only one deleted", []string{"x=a:1", "a:1@x", "", "a:1@x†"}},
		{"emptied", []string{"x=a:1", "a:1@x", "x=", "a:1@x", "x=a:2", "a:2@x"}},
		{"broken", []string{"x=a:1 b:1", "a:1@x b:1@x", "x=a:2 ?", "a:2@x b:1@x"}},
		{"one of two broken", []string{"x=a:1 b:1", "a:1@x b:1@x", "x=a:2 !b", "!x:2:3 a:2@x b:1@x", "x=a:2",
			"a:2@x b:1@x†"}},
		{"broken when first seen", []string{"x=!a", "!x:1:3", "x=a:1", "a:1@x"}},
		{"unreadable", []string{"x=a:1", "a:1@x", "x!", "!x:1:1 a:1@x", "x=a:1", "a:1@x"}},
		{"directory missing", []string{"x=a:1", "a:1@x", "!", "a:1@x", "x=a:1", "a:1@x"}},
		{"renamed", []string{"x=a:1", "a:1@x", "z=a:1", "a:1@z"}},
		{"moved, target first", []string{"x=a:1|y=-", "a:1@x", "x=a:1|y=a:1", "!y:1:7 a:1@x", "x=-|y=a:1", "a:1@y"}},
		{"moved, origin first", []string{"x=a:1|y=-", "a:1@x", "x=-|y=-", "a:1@x†", "x=-|y=a:1", "a:1@y"}},
		{"moved at once", []string{"x=a:1 b:1|y=-", "a:1@x b:1@x", "x=b:1|y=a:2", "a:2@y b:1@x"}},
		{"moved with errors", []string{"x=a:1|y=-", "a:1@x", "x=-|y=!a", "!y:1:3 a:1@x", "x=-|y=a:2", "a:2@y"}},
		{"moved from a broken file", []string{"x=a:1|y=-", "a:1@x", "x=?|y=a:2", "!y:1:7 a:1@x", "x=-|y=a:2", "a:2@y"}},
		{"twice, both new", []string{"x=a:1|y=a:2", "!x:1:7 !y:1:7", "x=a:1", "a:1@x"}},
		{"twice, one known", []string{"y=a:1", "a:1@y", "x=a:2|y=a:1", "!x:1:7 a:1@y", "x=a:2|y=a:3", "!x:1:7 a:3@y",
			"x=a:2", "a:2@x"}},
		{"twice, one new and bad", []string{"x=a:1|y=!a", "!x:1:7 !y:1:3"}},
		{"two take over", []string{"x=a:1", "a:1@x", "y=a:2|z=a:3", "!y:1:7 !z:1:7 a:1@x", "y=a:2", "a:2@y"}},
		{"back, but broken", []string{"x=a:1|y=-", "a:1@x", "y=-", "a:1@x†", "x=?|y=-", "a:1@x"}},
		{"back, with errors", []string{"x=a:1|y=-", "a:1@x", "y=-", "a:1@x†", "x=!a|y=-", "!x:1:3 a:1@x"}},
		{"dropped, then broken", []string{"x=a:1 b:1", "a:1@x b:1@x", "x=b:1", "a:1@x† b:1@x", "x=?", "a:1@x† b:1@x"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			store := newMemory()
			r := &files.Reconciler{Store: store, Parse: parse}
			for i := 0; i < len(c.steps); i += 2 {
				_ = r.Take(t.Context(), dir(c.steps[i]))
				if got := store.show(); got != c.steps[i+1] {
					t.Fatalf("after %q: %q, want %q", c.steps[i], got, c.steps[i+1])
				}
				before := store.applied
				_ = r.Take(t.Context(), dir(c.steps[i]))
				if store.applied != before {
					t.Errorf("seeing %q again changes something", c.steps[i])
				}
			}
		})
	}
}

func TestFilesAcrossRestarts(t *testing.T) {
	cases := []struct {
		name, before, after, want string
		retained                  bool
	}{
		{"unchanged", "x=a:1|y=b:1", "x=a:1|y=b:1", "a:1@x b:1@y", false},
		{"broken meanwhile", "x=a:1", "x=?", "a:1@x", false},
		{"one gone", "x=a:1|y=b:1", "y=b:1", "a:1@x† b:1@y", false},
		{"all gone", "x=a:1|y=b:1", "", "a:1@x b:1@y", true},
		{"all replaced", "x=a:1|y=b:1", "z=c:1", "a:1@x† b:1@y† c:1@z", false},
		{"no directory", "x=a:1", "!", "a:1@x", false},
		{"empty as before", "", "", "", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			store := newMemory()
			_ = (&files.Reconciler{Store: store, Parse: parse}).Take(t.Context(), dir(c.before))
			r := &files.Reconciler{Store: store, Parse: parse}
			for range 2 {
				_ = r.Take(t.Context(), dir(c.after))
				if got := store.show(); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
				if retained := len(r.Status().Retained) > 0; retained != c.retained {
					t.Errorf("retained: %v, want %v", retained, c.retained)
				}
			}
		})
	}
}

func TestFilesHoldWhenTheDirectoryIsReplaced(t *testing.T) {
	store := newMemory()
	r := &files.Reconciler{Store: store, Parse: parse}
	_ = r.Take(t.Context(), dir("x=a:1|y=b:1"))
	_ = r.Take(t.Context(), dir("!"))
	_ = r.Take(t.Context(), dir("")) // the same directory, but the files were not seen to vanish
	if got := store.show(); got != "a:1@x b:1@y" {
		t.Errorf("the directory that was missing left %q", got)
	}
	_ = r.Take(t.Context(), watch.Snapshot{Dir: "2"})
	if got := store.show(); got != "a:1@x b:1@y" {
		t.Errorf("the unmounted directory left %q", got)
	}
	s := dir("y=b:1")
	s.Dir = "2"
	_ = r.Take(t.Context(), s)
	if got := store.show(); got != "a:1@x† b:1@y" {
		t.Errorf("the file that appeared left %q", got)
	}
}

func TestFilesAndTheAPI(t *testing.T) {
	store := newMemory()
	r := &files.Reconciler{Store: store, Parse: parse}
	store.declare(pipeline("a", "api"))
	take := func(text, want string) {
		t.Helper()
		_ = r.Take(t.Context(), dir(text))
		if got := store.show(); got != want {
			t.Errorf("after %q: %q, want %q", text, got, want)
		}
	}
	take("x=a:1", "!x:1:7 a:api@")
	take("y=-", "a:api@")
	store.withdraw("a", true)
	take("x=a:1", "!x:1:7 a:api@†") // others do not get the positions of a purged pipeline
	if err := store.DeletePipeline(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	take("x=a:1", "a:1@x")
}

func TestFilesNameBothFiles(t *testing.T) {
	store := newMemory()
	r := &files.Reconciler{Store: store, Parse: parse}
	_ = r.Take(t.Context(), dir("x.yaml=a:1"))
	_ = r.Take(t.Context(), dir("w.yaml=a:2|x.yaml=a:1"))
	p := store.files["w.yaml"].Problems[0]
	if !strings.Contains(p.Message, "x.yaml") || !strings.Contains(p.Message, "w.yaml") || p.Pipeline != "a" {
		t.Errorf("problem: %+v", p)
	}
}

func TestFilesLogAProblemOnce(t *testing.T) {
	var b wait.Buffer
	store := newMemory()
	r := &files.Reconciler{Store: store, Parse: parse, Log: slog.New(slog.NewTextHandler(&b, nil))}
	for range 3 {
		_ = r.Take(t.Context(), dir("x.yaml=!a|y.yaml=b:1"))
		_ = r.Take(t.Context(), dir("x.yaml=!a|y.yaml=b:2"))
	}
	if n := strings.Count(b.String(), "x.yaml:1:3: bad"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, b.String())
	}
}

// The reason why files are not followed is logged when it arises, when it changes, seldom while it lasts, and when it
// is gone.
func TestFilesSaySeldomThatTheyAreNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b wait.Buffer
		store := newMemory()
		r := &files.Reconciler{Store: store, Parse: parse, Log: slog.New(slog.NewTextHandler(&b, nil))}
		take := func(at string, fail error, times int, want string) {
			t.Helper()
			store.set(fail)
			for range times {
				_ = r.Take(t.Context(), dir(at))
				time.Sleep(time.Second)
			}
			var got []string
			for line := range strings.Lines(b.Take()) {
				if _, said, ok := strings.Cut(line, "pipeline files"); ok {
					state := "not"
					if strings.HasPrefix(said, " are watched again") {
						state = "followed"
					}
					got = append(got, state)
				}
			}
			if got := strings.Join(got, " "); got != want {
				t.Errorf("said %q, want %q", got, want)
			}
		}
		take("x.yaml=a:1", nil, 3, "")
		take("x.yaml=a:2", errBroken, 60, "not")
		take("x.yaml=a:2", errBroken, 121, "not not") // after 1 and 3 minutes
		take("!", errBroken, 10, "not")
		take("x.yaml=a:2", nil, 3, "followed")
	})
}

func TestFilesRun(t *testing.T) {
	path := t.TempDir()
	store := newMemory()
	changed := make(chan struct{}, 10)
	r := &files.Reconciler{Store: store, Parse: parse, Watch: &watch.Watcher{Dir: path}, Notify: func() {
		changed <- struct{}{}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	write := func(data string) {
		if err := os.WriteFile(filepath.Join(path, "x.yaml"), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	until := func(want string) {
		t.Helper()
		for deadline := time.After(wait.Limit); store.show() != want; {
			select {
			case <-changed:
			case <-deadline:
				t.Fatalf("%q, want %q", store.show(), want)
			}
		}
	}
	write("a:1")
	until("a:1@x.yaml")
	write("a:2")
	if err := r.Reload(ctx, false); err != nil {
		t.Error(err)
	}
	if got := store.show(); got != "a:2@x.yaml" {
		t.Errorf("after Reload %q", got)
	}
	store.set(errors.New("disk full"))
	write("a:3")
	if err := r.Reload(ctx, false); err == nil {
		t.Error("Reload is content with a store that is not")
	}
	store.set(nil)
	until("a:3@x.yaml")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestFilesPrune(t *testing.T) {
	store := newMemory()
	_ = (&files.Reconciler{Store: store, Parse: parse}).Take(t.Context(), dir("x=a:1"))
	r := &files.Reconciler{Store: store, Parse: parse, Watch: &watch.Watcher{Dir: t.TempDir()}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	for _, step := range []struct {
		prune bool
		want  string
	}{{false, "a:1@x"}, {true, "a:1@x†"}} {
		if err := r.Reload(ctx, step.prune); err != nil {
			t.Error(err)
		}
		if got := store.show(); got != step.want {
			t.Errorf("prune %v: %q, want %q", step.prune, got, step.want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestFilesWithTheRealParser uses the parser and the digests of the agent, on realistic files.
func TestFilesWithTheRealParser(t *testing.T) {
	const file = "version: 2.2\npipelines:\n  - id: %s\n    connectors:\n      - {id: in, type: source, plugin: " +
		"generator, settings: {rate: %d}}\n      - {id: out, type: destination, plugin: log}\n"
	store := newMemory()
	r := &files.Reconciler{Store: store, Parse: spec.ParseFile}
	take := func(path, data string) {
		t.Helper()
		err := r.Take(t.Context(), watch.Snapshot{Dir: "1",
			Files: []watch.File{{Path: path, Data: []byte(data), Hash: data}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	take("x.yaml", fmt.Sprintf(file, "a", 1))
	if d := store.declared["a"]; d.Generation != 1 || d.Owner.Line != 3 || d.Owner.Path != "x.yaml" {
		t.Fatalf("declared: %+v", d)
	}
	d := store.declared["a"]
	first := spec.RunDigest(&d.Pipeline)
	applied := store.applied
	take("x.yaml", fmt.Sprintf(file, "a", 1)) // unchanged
	take("x.yaml", fmt.Sprintf(file, "a", 1)+"    typo: 1\n")
	if d := store.declared["a"]; !d.Withdrawn.IsZero() || spec.RunDigest(&d.Pipeline) != first ||
		store.applied != applied+1 {
		t.Errorf("after a bad edit: %+v, %d changes", d, store.applied-applied)
	}
	if p := store.files["x.yaml"].Problems; len(p) != 1 || files.Place(p[0]) != "x.yaml:7:5: " || p[0].Pipeline != "a" {
		t.Errorf("problems: %+v", p)
	}
	take("x.yaml", "version: 2.2\npipelines: [\n")
	if d := store.declared["a"]; !d.Withdrawn.IsZero() {
		t.Error("a syntax error withdrew the pipeline")
	}
	take("x.yaml", fmt.Sprintf(file, "a", 2))
	if d := store.declared["a"]; d.Generation != 2 || spec.RunDigest(&d.Pipeline) == first {
		t.Errorf("after a good edit: %+v", d)
	}
	take("x.yaml", "version: 2.2\npipelines: []\n")
	if d := store.declared["a"]; d.Withdrawn.IsZero() {
		t.Error("an empty list did not withdraw the pipeline")
	}
}

// Parsing of many files is spread over the processors. The result does not depend on the order of completion.
func TestFilesAreParsedAtTheSameTime(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	store := newMemory()
	var entered atomic.Int32
	both := make(chan struct{})
	r := &files.Reconciler{Store: store, Parse: func(path string, data []byte) spec.File {
		if entered.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
		case <-time.After(wait.Limit):
			t.Error("one file is parsed after the other")
		}
		return parse(path, data)
	}}
	if err := r.Take(t.Context(), dir("x=a:1|y=b:1|z=!d|zz=c:1")); err != nil {
		t.Fatal(err)
	}
	if got, want := store.show(), "!z:1:3 a:1@x b:1@y c:1@zz"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFilesIgnoreTheirOwnChanges changes desired state by a file and by another client, with a store that reports every
// change: only changes of the other client are read again. A recheck finds a change that nothing reports.
func TestFilesIgnoreTheirOwnChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r := &files.Reconciler{Store: store, Parse: parse,
			Watch: &watch.Watcher{Dir: filepath.Join(t.TempDir(), "none"), PollOnly: true, Poll: time.Hour}}
		store.onApply = func(c *spec.Changes) {
			if len(c.Declare)+len(c.Withdraw) > 0 { // as the store does
				r.Changed(c)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		if err := r.Take(ctx, dir("x.yaml=a:1")); err != nil {
			t.Fatal(err)
		}
		reads := store.reads
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if store.reads != reads {
			t.Errorf("desired state is read %d times after a change of our own", store.reads-reads)
		}
		store.update("a", func(d *spec.Declaration) { d.Withdrawn = time.Now() })
		r.Changed(&spec.Changes{})
		time.Sleep(time.Second)
		synctest.Wait()
		if got := store.show(); store.reads == reads || got != "a:1@x.yaml" {
			t.Errorf("after another client withdrew it: %d reads more, %s", store.reads-reads, got)
		}
		r.Wake()
		time.Sleep(time.Second)
		synctest.Wait() // its own change was read
		store.mu.Lock()
		unnoticed := store.declared["a"]
		unnoticed.Withdrawn = time.Now()
		store.declared["a"] = unnoticed
		store.mu.Unlock()
		r.Wake()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := store.show(); got == "a:1@x.yaml" {
			t.Error("a change without a revision was noticed")
		}
		r.Recheck()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := store.show(); got != "a:1@x.yaml" {
			t.Errorf("after a recheck: %s", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestDeletedFilesAreReportedInTime deletes all files while the files do not change any more, and reports that soon, but
// not at once.
func TestDeletedFilesAreReportedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r := &files.Reconciler{Store: store, Parse: parse,
			Watch: &watch.Watcher{Dir: filepath.Join(t.TempDir(), "none"), PollOnly: true, Poll: time.Hour}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		for _, content := range []string{"x.yaml=a:1", ""} {
			if err := r.Take(ctx, dir(content)); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range []struct {
			after time.Duration
			want  spec.DirectoryState
		}{{9 * time.Second, spec.DirectoryOK}, {2 * time.Second, spec.DirectoryEmptied}} {
			time.Sleep(step.after)
			synctest.Wait()
			if got := r.Status().Directory; got.State != step.want {
				t.Errorf("after %v more it is %+v, want %s", step.after, got, step.want)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestFilesKnowWhereDeclarationsStand saves a file with another place for the same pipeline, and then a file that no
// longer contains the declared version.
func TestFilesKnowWhereDeclarationsStand(t *testing.T) {
	store := newMemory()
	r := &files.Reconciler{Store: store, Parse: spec.ParseFile}
	text := "version: \"2.2\"\npipelines:\n  - id: a\n    connectors:\n      - {id: s, type: source, plugin: " +
		"generator, settings: {rate: \"1\"}}\n      - {id: d, type: destination, plugin: log}\n"
	take := func(text string) *spec.Declaration {
		t.Helper()
		if err := r.Take(t.Context(), watch.Snapshot{Dir: "1",
			Files: []watch.File{{Path: "x.yaml", Data: []byte(text), Hash: text}}}); err != nil {
			t.Fatal(err)
		}
		d := store.declared["a"]
		return &d
	}
	at := func(d *spec.Declaration) string {
		p := d.Locate(spec.Problem{Path: "/connectors/0/settings/rate"})
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
	d := take(text)
	if got, want := at(d), "x.yaml:5:67"; got != want {
		t.Errorf("the rate is at %s, want %s", got, want)
	}
	d = take("# moved\n\n" + text)
	if got, want := at(d), "x.yaml:7:67"; got != want || d.Generation != 1 || d.Owner.Line != 5 {
		t.Errorf("after a move the rate is at %s, want %s: %+v", got, want, d)
	}
	for name, bad := range map[string]string{"with an error": strings.Replace(text, "source", "sauce", 1),
		"not YAML": "{" + text} {
		if d = take(bad); d.Owner.Places != "" || d.Generation != 1 || !d.Withdrawn.IsZero() {
			t.Errorf("%s: the places are still %q: %+v", name, d.Owner.Places, d)
		}
		if d = take(text); at(d) != "x.yaml:5:67" {
			t.Errorf("mended after %s: the rate is at %s", name, at(d))
		}
	}
}

// TestFilesWithConnectorsOfOneFullID declares pipelines whose connectors would have the same full id: at the same time,
// one after the other, and as a change.
func TestFilesWithConnectorsOfOneFullID(t *testing.T) {
	file := func(id, connector string) string {
		return id + "|" + connector
	}
	parse := func(_ string, data []byte) spec.File {
		id, connector, _ := strings.Cut(string(data), "|")
		p := pipeline(id, "1")
		p.Connectors[0].ID = connector
		return spec.File{Pipelines: []spec.Parsed{{Pipeline: p, Line: 1,
			Places: spec.PlacesOf(map[string]yamldoc.Mark{"/connectors/0/id": {Line: 3, Column: 5}})}}}
	}
	x, y := file("a", "b:c"), file("a:b", "c")
	const both = `connector "b:c" of pipeline "a" and connector "c" of pipeline "a:b" have the same full id "a:b:c"`
	take := func(r *files.Reconciler, content map[string]string) {
		t.Helper()
		s := watch.Snapshot{Dir: "1"}
		for _, path := range slices.Sorted(maps.Keys(content)) {
			s.Files = append(s.Files, watch.File{Path: path, Data: []byte(content[path]), Hash: content[path]})
		}
		if err := r.Take(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(store *memory, what string, declared string, problems ...string) {
		t.Helper()
		var got []string
		for _, id := range slices.Sorted(maps.Keys(store.declared)) {
			if d := store.declared[id]; d.Withdrawn.IsZero() {
				got = append(got, id+"|"+d.Pipeline.Connectors[0].ID)
			}
		}
		if s := strings.Join(got, " "); s != declared {
			t.Errorf("%s: declared are %q, want %q", what, s, declared)
		}
		var bad []string
		for _, path := range slices.Sorted(maps.Keys(store.files)) {
			for _, p := range store.files[path].Problems {
				if p.Code != spec.CodeSameID || p.Line != 3 || p.Column != 5 ||
					!strings.Contains(p.Message, `have the same full id "a:b:c"`) {
					t.Errorf("%s: %+v", what, p)
				}
				bad = append(bad, path)
			}
		}
		if !slices.Equal(bad, problems) {
			t.Errorf("%s: problems with %v, want %v", what, bad, problems)
		}
	}
	store := newMemory()
	r := &files.Reconciler{Store: store, Parse: parse}
	take(r, map[string]string{"x": x, "y": y})
	expect(store, "both new", "", "x", "y")
	if p := store.files["x"].Problems; len(p) != 1 || !strings.Contains(p[0].Message, both) {
		t.Errorf("the problem does not name both: %+v", p)
	}
	take(r, map[string]string{"x": x, "y": file("a:b", "other")})
	expect(store, "one mended", "a|b:c a:b|other")
	take(r, map[string]string{"x": x, "y": y})
	expect(store, "mended one changed back", "a|b:c a:b|other", "y")
	take(r, map[string]string{"x": file("a", "s"), "y": y})
	expect(store, "the other one goes", "a|s a:b|c")
}
