package standalone_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sandbox"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/plugins/wire"
)

// versionVariable makes this test binary the executable "counter" in the given version.
const versionVariable = "PLUGINS_TEST_VERSION"

func serveCounter() {
	wire.Serve(sdk.Connector{Name: "counter", Version: os.Getenv(versionVariable), Summary: "counts",
		NewSource: func() sdk.Source { return &counter{} }})
}

type counter struct {
	sdk.SourceBase
	n byte
}

func (*counter) Parameters() sdk.Parameters {
	return sdk.Parameters{"from": {Type: sdk.TypeInt}}
}
func (*counter) Configure(context.Context, map[string]string) error { return nil }
func (*counter) Open(context.Context, record.Position) error        { return nil }
func (c *counter) Read(context.Context) ([]record.Record, error) {
	c.n++
	return []record.Record{{Position: record.Position{c.n}, Operation: record.OperationCreate,
		After: record.Raw([]byte(os.Getenv("STRAY")))}}, nil
}

// directory is a directory of executables.
type directory struct {
	*testing.T
	dir string
	log wait.Buffer
	*standalone.Executables
}

func newDirectory(t *testing.T) *directory {
	d := &directory{T: t, dir: filepath.Join(t.TempDir(), "connectors")}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d.Executables = &standalone.Executables{Dir: d.dir, Interval: 5 * time.Millisecond, SpecifyTimeout: wait.Limit,
		Log: slog.New(slog.NewTextHandler(&d.log, nil))}
	return d
}

// old is the modification time of completely written files.
var old = time.Now().Add(-time.Hour)

// script atomically puts an executable shell script into the directory.
func (d *directory) script(name, body string) string {
	d.Helper()
	path := filepath.Join(d.dir, name)
	tmp := filepath.Join(filepath.Dir(d.dir), name+".tmp")
	for _, err := range []error{
		os.WriteFile(tmp, []byte("#!/bin/sh\n"+body+"\n"), 0o755), os.Chtimes(tmp, old, old), os.Rename(tmp, path),
	} {
		if err != nil {
			d.Fatal(err)
		}
	}
	return path
}

// plugin puts the counter into the directory. Each run adds a line to the file NAME.runs next to the directory.
func (d *directory) plugin(name, version, before string) string {
	d.Helper()
	exe, err := os.Executable()
	if err != nil {
		d.Fatal(err)
	}
	return d.script(name, fmt.Sprintf("echo run >> %s.runs\n%s\nGORACE=atexit_sleep_ms=0 %s=%s exec %s",
		filepath.Join(filepath.Dir(d.dir), name), before, versionVariable, version, exe))
}

func (d *directory) runs(name string) int {
	b, _ := os.ReadFile(filepath.Join(filepath.Dir(d.dir), name+".runs"))
	return bytes.Count(b, []byte("\n"))
}

// names returns the names of the plugins.
func (d *directory) names() string {
	var names []string
	for _, s := range d.Installed() {
		names = append(names, s.FullName().String())
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (d *directory) rescan() {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), wait.Limit)
	defer cancel()
	d.Rescan(ctx)
	if ctx.Err() != nil {
		d.Fatal("a scan of the directory took too long")
	}
}

// run watches the directory until the test ends.
func (d *directory) run() {
	ctx, cancel := context.WithCancel(d.Context())
	done := make(chan error)
	go func() { done <- d.Executables.Run(ctx) }()
	d.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			d.Error(err)
		}
	})
}

func (d *directory) wait(what string, ok func() bool) {
	d.Helper()
	wait.For(d.T, what, ok, func() string { return fmt.Sprintf("plugins %s, problems %v", d.names(), d.Problems()) })
}

func TestFilesThatAreNoPlugins(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	good := d.plugin("conduit-counter", "v1.0.0", "")
	d.script("chatter", "echo hello; exec sleep 60")
	d.script("fails", "echo no disk >&2; exit 3")
	d.script(".hidden", "echo hidden; exit 1")
	d.script("notes.txt", "not to be run")
	d.script("foreign", "")
	if err := os.WriteFile(filepath.Join(d.dir, "foreign"),
		append([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xf7\x00"), make([]byte, 200)...),
		0o755); err != nil {
		t.Fatal(err)
	}
	outside, module := filepath.Join(filepath.Dir(d.dir), "outside"), filepath.Join(d.dir, "module")
	for _, err := range []error{
		os.WriteFile(module, []byte("\x00asm\x01\x00\x00\x00"), 0o755),
		os.Chtimes(module, old, old),
		os.Chmod(filepath.Join(d.dir, "notes.txt"), 0o644),
		os.Chtimes(filepath.Join(d.dir, "foreign"), old, old),
		os.Mkdir(filepath.Join(d.dir, "directory"), 0o755),
		os.Symlink("conduit-counter", filepath.Join(d.dir, "same")),
		os.Symlink("nothing", filepath.Join(d.dir, "dangling")),
		os.WriteFile(outside, nil, 0o755),
		os.Symlink(outside, filepath.Join(d.dir, "elsewhere")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d.rescan()
	d.SpecifyTimeout = 100 * time.Millisecond // applies to "hangs" only: the others are known
	d.script("hangs", "exec sleep 60")
	d.rescan()
	specs := d.Installed()
	if len(specs) != 1 || specs[0].FullName().String() != "standalone:counter@v1.0.0" || specs[0].Summary != "counts" ||
		specs[0].Path != good || specs[0].Source["from"].Type != sdk.TypeInt || specs[0].Destination != nil {
		t.Errorf("found %+v", specs)
	}
	want := []struct{ name, reason string }{
		{"chatter", `the program is not a connector: it printed "hello"`},
		{"dangling", "no such file"},
		{"elsewhere", "outside " + d.dir},
		{"fails", "no disk"},
		{"foreign", "another platform"},
		{"hangs", "the plugin did not become ready"},
		{"module", "belongs into processors.path"},
		{"notes.txt", "it is not executable"},
	}
	problems := d.Problems()
	if len(problems) != len(want) {
		t.Fatalf("problems %q", problems)
	}
	for i, p := range problems {
		if p.Path != filepath.Join(d.dir, want[i].name) || !strings.Contains(p.Reason, want[i].reason) {
			t.Errorf("%s: %s\nwant %s: %s", p.Path, p.Reason, want[i].name, want[i].reason)
		}
	}
	d.rescan()
	if n := strings.Count(d.log.String(), "level=WARN"); n != len(want) {
		t.Errorf("%d warnings:\n%s", n, d.log.String())
	}
}

// A file whose run failed is examined again on request, once per request. Plugins and other programs are not.
func TestFailedFilesAreExaminedAgain(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	library := filepath.Join(filepath.Dir(d.dir), "library")
	path := d.plugin("p", "v1.0.0", "[ -e "+library+" ] || { echo no library >&2; exit 1; }")
	d.plugin("good", "v2.0.0", "")
	d.script("tool", "echo run >> "+filepath.Dir(d.dir)+"/tool.runs; echo hello")
	d.run()
	d.wait("the good one", func() bool { return d.names() == "standalone:counter@v2.0.0" && len(d.Problems()) == 2 })
	for _, part := range []string{"no library", "(examined at 20", "'touch " + path + "')"} {
		if reason := d.Problems()[0].Reason; !strings.Contains(reason, part) {
			t.Errorf("the reason is %q, without %q", reason, part)
		}
	}
	if !d.Retry() {
		t.Error("there is nothing to retry")
	}
	d.rescan()
	if d.runs("p") != 2 || d.runs("good") != 1 || d.runs("tool") != 1 || len(d.Problems()) != 2 {
		t.Errorf("runs %d, %d and %d, problems %v", d.runs("p"), d.runs("good"), d.runs("tool"), d.Problems())
	}
	if err := os.WriteFile(library, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Retry()
	s, err := (&plugins.Host{Standalone: d}).Source(testContext(t), "standalone:counter@v1.0.0", "p:src")
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Teardown(t.Context())
	if d.Retry() || d.runs("tool") != 1 || len(d.Problems()) != 1 {
		t.Errorf("problems %v", d.Problems())
	}
}

func TestExecutablesAreRunWhenTheirContentChanges(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	path := d.plugin("p", "v1.0.0", "")
	for range 2 {
		d.rescan()
	}
	later := old.Add(time.Minute)
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	d.rescan()
	if d.runs("p") != 1 {
		t.Errorf("the same content was run %d times", d.runs("p"))
	}
	d.plugin("p", "v2.0.0", "")
	d.rescan()
	if d.runs("p") != 2 || d.names() != "standalone:counter@v2.0.0" {
		t.Errorf("after %d runs there is %s", d.runs("p"), d.names())
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	d.rescan()
	if d.names() != "" || len(d.Problems()) != 1 {
		t.Errorf("not executable any more: plugins %s, problems %v", d.names(), d.Problems())
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	d.rescan()
	if d.names() != "standalone:counter@v2.0.0" || len(d.Problems()) != 0 {
		t.Errorf("executable again: plugins %s, problems %v", d.names(), d.Problems())
	}
}

// A plugin that was killed before it returned its specification is tried again; a program that is no plugin is not.
func TestWhatIsCutShortIsAskedAgain(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	standalone.SetFirstAgain(d.Executables, time.Millisecond)
	d.script("none", "echo run >> "+filepath.Join(filepath.Dir(d.dir), "none.runs")+"; echo hello; exec sleep 60")
	d.plugin("p", "v1.0.0", "[ $(wc -l < "+filepath.Join(filepath.Dir(d.dir), "p.runs")+") -gt 1 ] || kill -9 $$")
	d.run()
	d.wait("what it is", func() bool { return d.names() == "standalone:counter@v1.0.0" && len(d.Problems()) == 1 })
	if d.runs("p") != 2 || d.runs("none") != 1 {
		t.Errorf("the plugin ran %d times, the other program %d times", d.runs("p"), d.runs("none"))
	}
}

// A file that was just written is waited for while somebody has it open for writing.
func TestAFileInTheMakingIsWaitedFor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "p")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	written := info.ModTime()
	if wait := standalone.Due(t, path, written.Add(time.Millisecond)); wait != 300*time.Millisecond {
		t.Errorf("while it is written to: in %v", wait)
	}
	if wait := standalone.Due(t, path, written.Add(300*time.Millisecond)); wait != 0 {
		t.Errorf("a while after the last write: in %v", wait)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if wait := standalone.Due(t, path, written.Add(time.Millisecond)); wait != 0 {
		t.Errorf("once it is complete: in %v", wait)
	}
}

// goProgram copies this test binary, which is a plugin in the version of the environment, into the directory.
func (d *directory) goProgram(name string, more ...byte) {
	d.Helper()
	exe, err := os.Executable()
	if err != nil {
		d.Fatal(err)
	}
	content, err := os.ReadFile(exe)
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir, name), append(content, more...), 0o755)
	}
	if err != nil {
		d.Fatal(err)
	}
}

// again returns the directory as another agent with the same store finds it. What runs says that it is version.
func (d *directory) again(version string) *directory {
	d.Helper()
	return &directory{T: d.T, dir: d.dir, Executables: &standalone.Executables{Dir: d.dir,
		Specifications: filepath.Join(filepath.Dir(d.dir), "specifications"), SpecifyTimeout: wait.Limit,
		Env: append(os.Environ(), versionVariable+"="+version, "GORACE=atexit_sleep_ms=0")}}
}

func TestGoProgramsRunOnceForAllStarts(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	d.goProgram("p")
	for _, step := range []struct {
		what, version, want string
		do                  func()
	}{
		{"it is new", "v1.0.0", "v1.0.0", func() {}},
		{"the agent starts again", "v2.0.0", "v1.0.0", func() {}},
		{"it is copied again", "v3.0.0", "v1.0.0", func() { d.goProgram("p") }},
		{"its content changes", "v4.0.0", "v4.0.0", func() { d.goProgram("p", 0) }},
		{"the file of specifications is damaged", "v5.0.0", "v5.0.0", func() {
			_ = os.Truncate(filepath.Join(filepath.Dir(d.dir), "specifications"), 100)
		}},
		{"it has another name", "v6.0.0", "v6.0.0", func() {
			_ = os.Rename(filepath.Join(d.dir, "p"), filepath.Join(d.dir, "q"))
		}},
	} {
		step.do()
		d := d.again(step.version)
		d.rescan()
		if want := "standalone:counter@" + step.want; d.names() != want {
			t.Errorf("%s: there is %s, want %s; problems %v", step.what, d.names(), want, d.Problems())
		}
	}
}

// A script may have its answer from elsewhere, so each agent runs it.
func TestScriptsRunAtEachStart(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	d.plugin("p", "v1.0.0", "")
	for range 2 {
		d.again("").rescan()
	}
	if d.runs("p") != 2 {
		t.Errorf("it ran %d times", d.runs("p"))
	}
}

func TestTwoFilesWithOneName(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	a, b := d.plugin("a", "v1.0.0", ""), d.plugin("b", "v1.0.0", "")
	d.plugin("c", "v2.0.0", "")
	d.rescan()
	if d.names() != "standalone:counter@v2.0.0" {
		t.Errorf("found %s", d.names())
	}
	problems := d.Problems()
	if len(problems) != 2 || !strings.Contains(problems[0].Reason, a) || !strings.Contains(problems[1].Reason, b) ||
		problems[0].Reason != problems[1].Reason {
		t.Errorf("problems %v", problems)
	}
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	d.rescan()
	if d.names() != "standalone:counter@v1.0.0 standalone:counter@v2.0.0" || len(d.Problems()) != 0 {
		t.Errorf("after one was removed: plugins %s, problems %v", d.names(), d.Problems())
	}
}

func TestTheDirectoryIsWatched(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	if err := os.Remove(d.dir); err != nil {
		t.Fatal(err)
	}
	var changed atomic.Int32
	d.Changed = func() { changed.Add(1) }
	d.run()
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := d.plugin("p", "v1.0.0", "")
	d.wait("the plugin is found", func() bool {
		return d.names() == "standalone:counter@v1.0.0" && changed.Load() == 1
	})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	d.wait("the plugin was removed", func() bool { return d.names() == "" && changed.Load() == 2 })
	for _, text := range []string{"plugin found", "plugin gone"} {
		if !strings.Contains(d.log.String(), text) {
			t.Errorf("log lacks %q:\n%s", text, d.log.String())
		}
	}
}

// start starts the source, reads a record, and returns its payload.
func start(t *testing.T, h *plugins.Host, ref string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	s, err := h.Source(ctx, ref, "p:src")
	if err != nil {
		return "", err
	}
	defer func() {
		if err := s.Teardown(ctx); err != nil {
			t.Error(err)
		}
	}()
	for _, err := range []error{s.Configure(ctx, nil), s.Open(ctx, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := s.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	records, err := b.Records()
	if err != nil || records[0].Metadata.Get(record.KeySourceConnectorID) != "p:src" {
		t.Errorf("got %+v, error %v", records, err)
	}
	payload, _ := records[0].After.Raw()
	for err == nil && s.Stop(ctx) == nil {
		if _, err = s.Read(ctx); err == io.EOF {
			break
		}
	}
	return string(payload), nil
}

func TestSourcesOfExecutables(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	d.Env = []string{"PATH=" + os.Getenv("PATH"), "STRAY=inherited"}
	d.run()
	d.plugin("p", "v1.0.0", "sleep 0.1")
	h := &plugins.Host{Standalone: d}
	if got, err := start(t, h, "counter"); err != nil || got != "inherited" {
		t.Errorf("got %q, error %v", got, err)
	}
	if n := d.runs("p"); n != 2 {
		t.Errorf("the executable ran %d times, want 2", n)
	}
	d.plugin("p", "v2.0.0", "")
	if _, err := start(t, h, "counter@v2.0.0"); err != nil {
		t.Errorf("after it was replaced: %v", err)
	}
	if _, err := h.Destination(t.Context(), "counter", "p:dst"); err == nil ||
		!strings.Contains(err.Error(), "is a source only") {
		t.Errorf("as a destination it gave error %v", err)
	}
}

func TestPluginsGivenByPath(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	path := d.plugin("p", "v1.0.0", "")
	outside := filepath.Join(filepath.Dir(d.dir), "outside")
	link := filepath.Join(filepath.Dir(d.dir), "link")
	for _, err := range []error{
		os.WriteFile(outside, []byte("#!/bin/sh\n"), 0o755), os.Symlink(path, link),
		os.Symlink(outside, filepath.Join(d.dir, "away")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d.script("bad", "exit 1")
	d.rescan()
	h := &plugins.Host{Standalone: d}
	for ref, want := range map[string]string{
		path: "", link: "", "./p": "", "standalone:" + path: "",
		"builtin:" + path:                       "cannot find plugin",
		outside:                                 "plugins must be in " + d.dir,
		"./away":                                "plugins must be in " + d.dir,
		"../outside":                            "plugins must be in " + d.dir,
		"./missing":                             "there is no such file in " + d.dir,
		filepath.Join(d.dir, "bad"):             "the program exited before it was ready",
		"/proc/self/exe":                        "plugins must be in",
		filepath.Join(d.dir, "p/../../outside"): "plugins must be in",
	} {
		_, err := start(t, h, ref)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", ref, err, want)
		}
	}
}

func TestSlowPluginDoesNotBlockOtherCalls(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	d.script("hangs", "exec sleep 1000")
	d.SpecifyTimeout = time.Hour
	standalone.SetSubstituteWait(d.Executables, 10*time.Millisecond)
	d.plugin("p", "v1.0.0", "")
	d.run()
	d.wait("the other is known", func() bool { return d.names() != "" })
	h := &plugins.Host{Builtin: []sdk.Connector{{Name: "generator", Version: "v1.0.0", NewSource: func() sdk.Source {
		return &counter{}
	}}}, Standalone: d}
	for _, ref := range []string{"builtin:generator", "counter@v1.0.0", "generator"} {
		ctx := testContext(t)
		s, err := h.Source(ctx, ref, "p:src")
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		if ctx.Err() != nil {
			t.Errorf("%s waits for the slow one", ref)
		}
		_ = s.Teardown(t.Context())
	}
	if n := len(d.Problems()); n != 0 {
		t.Errorf("the slow one was given up: %v", d.Problems())
	}
}

func TestFewAreSpecifiedAtATime(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	all, done := filepath.Join(filepath.Dir(d.dir), "all.runs"), filepath.Join(filepath.Dir(d.dir), "go")
	for i := range 6 {
		d.script(fmt.Sprint("slow", i), fmt.Sprintf(
			"echo + >> %[1]s; until [ -e %[2]s ]; do sleep 0.05; done; sleep 0.2; echo - >> %[1]s; exit 1", all, done))
	}
	d.run()
	d.wait("some run", func() bool { return d.runs("all") >= 4 })
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.wait("all have run", func() bool { return len(d.Problems()) == 6 })
	running, most := 0, 0
	for line := range strings.FieldsSeq(lines(t, all)) {
		if line == "+" {
			running++
		} else {
			running--
		}
		most = max(most, running)
	}
	if most != 4 {
		t.Errorf("%d run at the same time, want 4", most)
	}
}

// useOf returns the use of a plugin by source p:src.
func useOf(plugin pluginname.Name) plugins.Use {
	return plugins.Use{Plugin: plugin, Reference: plugin.String(), ConnectorID: "p:src"}
}

// The executable of a running connector is compared with the current file until the connector ends.
func TestChangesOfRunningPlugins(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	path := d.plugin("p", "v1.0.0", "")
	d.rescan()
	h := &plugins.Host{Standalone: d}
	s, err := h.Source(t.Context(), "counter", "p:src")
	if err != nil {
		t.Fatal(err)
	}
	check := func(what, reason string, words ...string) {
		t.Helper()
		d.rescan()
		changes := h.Changes()
		if reason == "" && len(changes) == 0 {
			return
		}
		if len(changes) != 1 || changes[0].Reason != reason || changes[0].ConnectorID != "p:src" ||
			changes[0].Plugin.String() != "standalone:counter@v1.0.0" {
			t.Fatalf("%s: changes %+v", what, changes)
		}
		for _, w := range append(words, "connector p:src runs standalone:counter@v1.0.0", path) {
			if !strings.Contains(changes[0].Message, w) {
				t.Errorf("%s: %q does not say %q", what, changes[0].Message, w)
			}
		}
	}
	processes := d.Processes()
	if len(processes) != 1 || processes[0].ConnectorID != "p:src" || syscall.Kill(-processes[0].PID, 0) != nil {
		t.Errorf("processes %+v, want the one of p:src", processes)
	}
	check("as it was", "")
	d.plugin("p", "v1.0.0", "")
	check("written again", "")
	d.plugin("p", "v1.0.0", "echo other >&2")
	check("another one", "PluginReplaced", "was replaced")
	d.plugin("p", "v2.0.0", "")
	check("another version", "PluginReplaced", "but counter now refers to standalone:counter@v2.0.0")
	d.script("p", "exit 3")
	check("no plugin", "PluginBroken", "the program exited before it was ready")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("gone", "PluginGone", "was removed")
	d.plugin("p", "v1.0.0", "")
	check("back", "")
	if err := os.Rename(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	check("renamed", "")
	if err := os.Remove(path + "2"); err != nil {
		t.Fatal(err)
	}
	check("gone again", "PluginGone")
	if err := s.Teardown(t.Context()); err != nil {
		t.Error(err)
	}
	check("ended", "")
	if processes := d.Processes(); len(processes) != 0 {
		t.Errorf("processes %+v are left", processes)
	}
}

// A reference to a running connector is resolved again when files appear and disappear.
func TestChangesInOtherFiles(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	first := d.plugin("p1", "v1.0.0", "")
	d.rescan()
	h := &plugins.Host{Standalone: d, Builtin: []sdk.Connector{{Name: "counter", Version: "v0.5.0",
		NewSource: func() sdk.Source { return &counter{} }}}}
	for id, reference := range map[string]string{"a": "counter", "b": "standalone:counter", "c": "counter@v1.0.0",
		"d": first, "e": "builtin:counter", "f": "counter@latest"} {
		s, err := h.Source(t.Context(), reference, id)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Teardown(context.WithoutCancel(t.Context())) }()
	}
	check := func(what string, want ...string) {
		t.Helper()
		d.rescan()
		got := h.Changes()
		if len(got) != len(want) {
			t.Fatalf("%s: changes %+v, want %q", what, got, want)
		}
		for i, c := range got {
			if said := c.Reason + " " + c.Message; !strings.Contains(said, want[i]) {
				t.Errorf("%s: %q does not say %q", what, said, want[i])
			}
		}
	}
	check("one file")
	newer := d.plugin("p2", "v1.1.0", "")
	says := func(id, reference, to string) string {
		return "PluginReplaced connector " + id + " runs standalone:counter@v1.0.0, but " + reference +
			" now refers to " + to + "; a restart of the pipeline uses that one"
	}
	name := "standalone:counter@v1.1.0 in " + newer
	check("a newer version in another file", says("a", "counter", name), says("b", "standalone:counter", name),
		says("f", "counter@latest", name))
	gone := "was removed, and the connector cannot be restarted without it"
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	check("the running one is removed", says("a", "counter", name), says("b", "standalone:counter", name),
		"PluginGone connector c runs standalone:counter@v1.0.0 from an earlier file: "+first+" "+gone,
		"PluginGone connector d runs ", says("f", "counter@latest", name))
	if err := os.Rename(newer, filepath.Join(d.dir, "unused")); err != nil {
		t.Fatal(err)
	}
	d.plugin("p1", "v1.0.0", "")
	d.script("unused", "exit 3")
	check("it is back alone")
	d.plugin("p1", "v0.9.0", "")
	name = "standalone:counter@v0.9.0 in " + first
	check("an older version in its file", says("a", "counter", name), says("b", "standalone:counter", name),
		"PluginGone connector c runs standalone:counter@v1.0.0 from an earlier file: "+first+" is now counter@v0.9.0, and "+
			"the connector cannot be restarted: no file provides standalone:counter@v1.0.0", says("d", first, name),
		says("f", "counter@latest", name))
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	name = "builtin:counter@v0.5.0"
	check("only the built-in one is left", says("a", "counter", name), "PluginGone connector b", "PluginGone connector c",
		"PluginGone connector d", says("f", "counter@latest", name))
}

// A link that is replaced by a link to another version is one change, and the plugin is never reported as gone.
func TestALinkToAnotherVersion(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	before, link := d.plugin("old", "v1.0.0", ""), filepath.Join(d.dir, "current")
	if err := errors.Join(os.Rename(before, filepath.Join(d.dir, ".old")), os.Symlink(".old", link)); err != nil {
		t.Fatal(err)
	}
	d.rescan()
	h := &plugins.Host{Standalone: d}
	s, err := h.Source(t.Context(), "counter", "p:src")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Teardown(context.WithoutCancel(t.Context())) }()
	newer := d.plugin("new", "v2.0.0", "")
	next := filepath.Join(d.dir, ".next")
	if err := errors.Join(os.Rename(newer, filepath.Join(d.dir, ".new")), os.Symlink(".new", next),
		os.Rename(next, link)); err != nil {
		t.Fatal(err)
	}
	standalone.Scan(d.Executables)
	if changes := h.Changes(); len(changes) != 0 {
		t.Errorf("before the new one is known: %+v", changes)
	}
	d.rescan()
	if changes := h.Changes(); len(changes) != 1 || changes[0].Reason != "PluginReplaced" {
		t.Errorf("afterwards: %+v", changes)
	}
}

// Settings confine executables from their first run on.
func TestConfinedPlugins(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	aside := filepath.Join(filepath.Dir(d.dir), "aside")
	d.plugin("p", "v1.0.0", fmt.Sprintf("echo x > %s 2>/dev/null", aside))
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d.Sandbox = &sandbox.Policy{Read: []string{d.dir, exe}}
	d.rescan()
	if sandbox.Version() == 0 {
		if d.names() != "" || d.runs("p") != 0 || !strings.Contains(fmt.Sprint(d.Problems()), "does not support Landlock") {
			t.Errorf("without Landlock: plugins %q, %d runs, problems %v", d.names(), d.runs("p"), d.Problems())
		}
		return
	}
	if d.names() != "standalone:counter@v1.0.0" {
		t.Fatalf("plugins %s, problems %v", d.names(), d.Problems())
	}
	if _, err := os.Stat(aside); err == nil || d.runs("p") != 0 {
		t.Errorf("it wrote next to the directory: %v", err)
	}
	s, err := d.Source(t.Context(), useOf(d.Installed()[0].FullName()))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Teardown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A file that is replaced between selection and start does not run instead of the specified one.
func TestOnlyWhatWasSpecifiedIsStarted(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	d.plugin("p", "v1.0.0", "")
	d.rescan()
	name := d.Installed()[0].FullName()
	d.plugin("p", "v1.0.0", "echo other")
	if _, err := d.Source(t.Context(), useOf(name)); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("replaced: error %v", err)
	}
	if err := os.Remove(filepath.Join(d.dir, "p")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Source(t.Context(), useOf(name)); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("removed: error %v", err)
	}
}

// Executables that others can change cause one warning, or are refused, until their mode is corrected.
func TestPluginsThatOthersCanChange(t *testing.T) {
	t.Parallel()
	for _, refuse := range []bool{false, true} {
		d := newDirectory(t)
		d.RejectWritable = refuse
		path := d.plugin("p", "v1.0.0", "")
		check := func(what, reason string) {
			t.Helper()
			d.rescan()
			problems := d.Problems()
			switch used := len(d.Installed()) == 1; {
			case used != (reason == "" || !refuse):
				t.Errorf("%s, refuse=%v: used %v", what, refuse, used)
			case refuse && reason != "" && (len(problems) != 1 || !strings.Contains(problems[0].Reason, reason)):
				t.Errorf("%s: problems %v, want %q", what, problems, reason)
			case !refuse && strings.Count(d.log.String(), reason) != 1 && reason != "":
				t.Errorf("%s: the log does not say %q once: %s", what, reason, d.log.String())
			}
		}
		chmod := func(path string, mode os.FileMode) {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		check("as it was made", "")
		chmod(path, 0o757)
		check("file that all may write", "p has mode 0757: run chmod o-w")
		chmod(path, 0o755)
		check("mended", "")
		chmod(d.dir, 0o777)
		check("directory that all may write", filepath.Base(d.dir)+" has mode 0777")
		if refuse {
			if _, err := d.Source(t.Context(), useOf(pluginname.Name{Kind: pluginname.Standalone,
				Name: "counter", Version: "v1.0.0"})); err == nil {
				t.Error("a refused plugin is started")
			}
		}
		chmod(d.dir, 0o755)
		check("mended", "")
		if os.Geteuid() == 0 {
			if err := os.Chown(path, 4242, 0); err != nil {
				t.Fatal(err)
			}
			check("file of another user", "belongs to user 4242")
		}
	}
}
