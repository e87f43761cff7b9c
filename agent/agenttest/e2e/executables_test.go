package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/spec"
)

// pluginName, when set, makes the test binary the connector of that name: one of those
// built in with an x before its name, or with gathering- when it is to write 10,000
// records at a time unless set otherwise, journal, or one of serveDataPlugin.
const pluginName = "CONDUIT_TEST_PLUGIN"

func servePlugin(name string) {
	for _, c := range builtin.All() {
		if "x"+c.Name == name || "gathering-"+c.Name == name {
			c.Name = name
			if strings.HasPrefix(name, "gathering-") {
				c.DestinationDefaults = map[string]string{"sdk.batch.size": "10000"}
			}
			wire.Serve(c)
		}
	}
	if name == "journal" {
		wire.Serve(sdk.Connector{Name: name, Version: "v1.0.0", NewSource: func() sdk.Source { return &journal{} }})
	}
	if name == "tattler" {
		wire.Serve(serveTattler(name))
	}
	serveBrittle(name)
	serveStuck(name)
	serveDataPlugin(name)
}

// install puts executables into the connectors directory of an agent's directory.
func install(t *testing.T, dir string, names ...string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "connectors"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path, tmp := filepath.Join(dir, "connectors", name), filepath.Join(dir, name+".tmp")
		script := fmt.Sprintf("#!/bin/sh\nGORACE=atexit_sleep_ms=0 JOURNAL=%s/journal %s=%s exec %s\n", dir, pluginName, name, exe)
		old := time.Now().Add(-time.Hour)
		for _, err := range []error{os.WriteFile(tmp, []byte(script), 0o755), os.Chtimes(tmp, old, old), os.Rename(tmp, path)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// moved is a pipeline that moves generated records into a file with these plugins.
func moved(dir, id, source, destination string, rate int) string {
	s := strings.Replace(made(dir, id, rate, ""), "builtin:generator", source, 1)
	return strings.Replace(s, "builtin:file", destination, 1)
}

// children returns the processes that process pid started and that have not ended.
func children(pid int) (all []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for _, f := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(f); err == nil && alive(child) {
				all = append(all, child)
			}
		}
	}
	return all
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func TestExecutablesMoveRecords(t *testing.T) {
	effort.Long(t)
	a := agenttest.Start(t, "", func(c *config.Config) { c.Pipelines.ErrorRecovery.MinDelay = time.Hour })
	for id, ends := range map[string][2]string{
		"in": {"xgenerator", "builtin:file"}, "out": {"builtin:generator", "standalone:xfile"}, "both": {"./xgenerator", "xfile@v1.0.0"},
	} {
		a.Save(id+".yaml", moved(a.Dir, id, ends[0], ends[1], 2000))
		a.WaitPhase(id, spec.PhaseDegraded, 0) // there are no executables yet
	}
	before := len(children(os.Getpid()))
	install(t, a.Dir, "xgenerator", "xfile")
	for _, id := range []string{"in", "out", "both"} {
		a.Wait("records of "+id, func() bool { return len(numbers(t, a.Path(id+".jsonl"))) > 100 })
	}
	if n := len(children(os.Getpid())) - before; n != 4 {
		t.Errorf("%d processes for 4 connectors", n)
	}
	if v := scrape(t, a, `conduit_plugin_resident_bytes{component_id="both:src"}`); v < 1<<20 {
		t.Errorf("a process with %v bytes of memory", v)
	}
	if v := scrape(t, a, `conduit_plugin_open_fds{component_id="both:dst"}`); v < 3 {
		t.Errorf("a process with %v file descriptors", v)
	}
	a.Save("both.yaml", moved(a.Dir, "both", "./xgenerator", "xfile", 4000))
	a.WaitPhase("both", spec.PhaseRunning, 2)
	a.Save("both.yaml", moved(a.Dir, "both", "standalone:xgenerator", "./xfile", 4000)) // the same plugins
	a.WaitPhase("both", spec.PhaseRunning, 3)
	n := len(numbers(t, a.Path("both.jsonl")))
	a.Wait("more records of both", func() bool { return len(numbers(t, a.Path("both.jsonl"))) > n+100 })
	if v := scrape(t, a, `conduit_plugin_starts_total{plugin="standalone:xgenerator"}`); v < 4 {
		t.Errorf("standalone:xgenerator was started %v times by name and by path, want 4 at least", v)
	}
	a.Stop()
	if left := children(os.Getpid()); len(left) != before {
		t.Errorf("processes %v are left", left)
	}
	for _, id := range []string{"in", "out", "both"} {
		wantConsecutive(t, numbers(t, a.Path(id+".jsonl")))
	}
}

func TestAKilledPluginIsStartedAgain(t *testing.T) {
	effort.Long(t)
	dir := agenttest.NewDir(t)
	install(t, dir, "xgenerator", "xfile")
	before := children(os.Getpid())
	a := agenttest.Start(t, dir)
	a.Save("p.yaml", moved(a.Dir, "p", "xgenerator", "xfile", 2000))
	const kills = 4
	written := func() int {
		all, _ := numbersOf(t, a.Path("p.jsonl"))
		return len(all)
	}
	for range kills {
		n := written()
		a.Wait("more records", func() bool { return written() > n+100 })
		var pids []int
		a.Wait("both plugins run", func() bool {
			pids = slices.DeleteFunc(children(os.Getpid()), func(pid int) bool { return slices.Contains(before, pid) })
			return len(pids) == 2
		})
		_ = syscall.Kill(pids[n%2], syscall.SIGKILL)
		a.Wait("the plugins are others", func() bool { return !alive(pids[0]) && !alive(pids[1]) })
	}
	a.WaitPhase("p", spec.PhaseRunning, 1)
	a.Stop()
	all, torn := numbersOf(t, a.Path("p.jsonl"))
	if len(torn) > kills {
		t.Errorf("%d torn lines with %d kills: %q", len(torn), kills, torn)
	}
	last := 0
	for i, n := range all {
		if n > last+1 {
			t.Fatalf("record %d is number %d, after %d", i+1, n, last)
		}
		last = n
	}
}

func TestKillOfTheAgentEndsItsPlugins(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	install(t, dir, "xgenerator", "xfile")
	content := moved(dir, "p", "xgenerator", "xfile", 2000)
	if err := os.WriteFile(filepath.Join(dir, "pipelines", "p.yaml"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, dir)
	defer p.kill()
	p.grows(t, filepath.Join(dir, "p.jsonl"))
	plugins := children(p.cmd.Process.Pid)
	if len(plugins) != 2 {
		t.Fatalf("the agent has processes %v, want two", plugins)
	}
	p.kill()
	began := time.Now()
	wait.For(t, fmt.Sprintf("the end of the plugins %v", plugins), func() bool { return !slices.ContainsFunc(plugins, alive) })
	t.Logf("the plugins were gone after %v", time.Since(began))
}

// resources are what a process holds.
type resources struct{ processes, files, sockets, goroutines, temporary int }

func resourcesOf(t *testing.T) resources {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	r := resources{processes: len(children(os.Getpid())), goroutines: runtime.NumGoroutine()}
	for _, fd := range fds {
		switch target, _ := os.Readlink("/proc/self/fd/" + fd.Name()); {
		case strings.HasPrefix(target, "socket:"):
			r.sockets++
		case strings.HasPrefix(target, "/proc/"), strings.Contains(target, "/conduit.db"): // the store keeps as many as it likes
		default:
			r.files++
		}
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "conduit-*"))
	r.temporary = len(left)
	return r
}

// Pipelines of executables start, change and stop without leaving anything.
func TestManyExecutablesLeaveNothing(t *testing.T) {
	effort.Long(t)
	count := 4
	if s := os.Getenv("CONDUIT_PLUGIN_PIPELINES"); s != "" {
		var err error
		if count, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", t.TempDir())
	dir := agenttest.NewDir(t)
	install(t, dir, "xgenerator", "xfile")
	a := agenttest.Start(t, dir, func(c *config.Config) { c.Pipelines.DeletionGrace = 0 })
	all := func(phase spec.Phase, generation int64) {
		t.Helper()
		began := time.Now()
		for i := range count {
			a.WaitPhase(fmt.Sprint("p", i), phase, generation)
		}
		t.Logf("%d pipelines are %s after %v", count, phase, time.Since(began))
	}
	save := func(status string, rate int) {
		var b strings.Builder
		b.WriteString("version: \"2.2\"\npipelines:\n")
		for i := range count {
			one := moved(dir, fmt.Sprint("p", i), "xgenerator", "xfile", rate)
			b.WriteString(strings.Replace(strings.SplitAfterN(one, "pipelines:\n", 2)[1], "connectors:", "status: "+status+"\n    connectors:", 1))
		}
		a.Save("all.yaml", b.String())
	}
	a.Wait("the plugins are known", func() bool {
		builtIn := func(p plugins.Installed) bool { return p.Kind == pluginname.Builtin }
		return len(slices.DeleteFunc(a.Catalog.Host.Installed(), builtIn)) == 2
	})
	a.Wait("their processes are gone", func() bool { return len(children(os.Getpid())) == 0 })
	save("stopped", 10)
	all(spec.PhaseStopped, 0)
	before := resourcesOf(t)
	save("running", 10)
	all(spec.PhaseRunning, 0)
	if n := resourcesOf(t).processes; n != 2*count {
		t.Errorf("%d processes run for %d pipelines", n, count)
	}
	save("running", 20)
	all(spec.PhaseRunning, 3)
	save("stopped", 20)
	all(spec.PhaseStopped, 0)
	var after resources
	defer func() { t.Logf("before %+v, after %+v", before, after) }()
	a.Wait(fmt.Sprintf("only %+v is held", before), func() bool {
		after = resourcesOf(t)
		return after.processes == 0 && after.temporary == 0 && after.sockets <= before.sockets &&
			after.files <= before.files && after.goroutines <= before.goroutines
	})
}

func TestSchemasReachExecutables(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	install(t, dir, "xgenerator")
	a := agenttest.Start(t, dir)
	a.Save("p.yaml", moved(a.Dir, "p", "xgenerator", "builtin:file", 100))
	a.Wait("a record with a schema", func() bool {
		b, _ := os.ReadFile(a.Path("p.jsonl"))
		return strings.Contains(string(b), `"opencdc.payload.schema.subject":"p:src:payload"`)
	})
	if b, _ := os.ReadFile(a.Path("p.jsonl")); !strings.Contains(string(b), `"after":{"n":`) {
		line, _, _ := strings.Cut(string(b), "\n")
		t.Errorf("the record is not structured any more: %s", line)
	}
}

// A destination may wait for more records than a window holds because its plugin does so
// unless set otherwise.
func TestExecutablesThatGatherByDefault(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	dir := agenttest.NewDir(t)
	install(t, dir, "gathering-file")
	a := agenttest.Start(t, dir)
	a.Save("p.yaml", moved(a.Dir, "p", "builtin:generator", "gathering-file", 50000))
	a.Wait("records", func() bool {
		info, err := os.Stat(a.Path("p.jsonl"))
		return err == nil && info.Size() > 0
	})
}

// journal is a source that writes down how it is called, into the file that JOURNAL
// names. Files next to it named fail-CALL make calls fail, die-CALL ends the process.
type journal struct {
	sdk.SourceBase
	n int
}

func (j *journal) note(call string, settings ...map[string]string) error {
	line := os.Getenv("CONDUIT_CONNECTOR_ID") + " " + call
	for _, s := range settings {
		line += " v=" + s["v"]
	}
	f, err := os.OpenFile(os.Getenv("JOURNAL"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, line); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(f.Name()), "die-"+call)); err == nil {
		os.Exit(3)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(f.Name()), "fail-"+call)); err == nil {
		return fmt.Errorf("%s was made to fail", call)
	}
	return nil
}

func (j *journal) Parameters() sdk.Parameters {
	return sdk.Parameters{"v": {Type: sdk.TypeString}}
}
func (j *journal) Configure(_ context.Context, s map[string]string) error {
	return j.note("Configure", s)
}
func (j *journal) LifecycleOnCreated(_ context.Context, s map[string]string) error {
	return j.note("OnCreated", s)
}
func (j *journal) LifecycleOnUpdated(_ context.Context, before, after map[string]string) error {
	return j.note("OnUpdated", before, after)
}
func (j *journal) LifecycleOnDeleted(_ context.Context, s map[string]string) error {
	return j.note("OnDeleted", s)
}
func (j *journal) Open(_ context.Context, pos record.Position) error {
	j.n, _ = strconv.Atoi(string(pos))
	return j.note("Open")
}
func (j *journal) Teardown(context.Context) error { return j.note("Teardown") }
func (j *journal) Read(ctx context.Context) ([]record.Record, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Millisecond):
	}
	j.n++
	return []record.Record{{Position: record.Position(strconv.Itoa(j.n)), Operation: record.OperationCreate, After: record.Raw([]byte("x"))}}, nil
}

// journaled is a pipeline that reads from the journal.
func journaled(dir, v, status string) string {
	return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    status: %[3]s
    connectors:
      - id: src
        type: source
        plugin: journal
        settings: {v: "%[2]s"}
      - id: dst
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/p.jsonl}
`, dir, v, status)
}

// life reads the journal of an agent's directory.
type life struct {
	*testing.T
	path string
	read int
}

// next returns the calls since the last time, without the id before each.
func (l *life) next() string {
	l.Helper()
	b, err := os.ReadFile(l.path)
	if err != nil && !os.IsNotExist(err) {
		l.Fatal(err)
	}
	var calls []string
	for line := range strings.Lines(string(b[l.read:])) {
		call, ok := strings.CutPrefix(strings.TrimSpace(line), "p:src ")
		if !ok {
			l.Errorf("unexpected call %q", line)
		}
		calls = append(calls, call)
	}
	l.read = len(b)
	return strings.Join(calls, ", ")
}

func (l *life) want(calls string) {
	l.Helper()
	if got := l.next(); got != calls {
		l.Errorf("calls  %s\nwanted %s", got, calls)
	}
}

// while runs f with a file there.
func while(t *testing.T, path string, f func()) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// A plugin that ends in the middle of a call has refused nothing: it is started again.
func TestAPluginThatEndsInACall(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	dir := agenttest.NewDir(t)
	install(t, dir, "journal")
	a := agenttest.Start(t, dir)
	for i, call := range []string{"Configure", "OnCreated", "Open"} {
		while(t, a.Path("die-"+call), func() {
			a.Save("p.yaml", strings.ReplaceAll(journaled(dir, "1", "running"), "id: p", fmt.Sprint("id: p", i)))
			a.WaitPhase(fmt.Sprint("p", i), spec.PhaseRecovering, 0)
			if s := a.State(fmt.Sprint("p", i)); !strings.Contains(s.Error, "exit status 3") {
				t.Errorf("ended in %s: %s", call, s.Error)
			}
		})
		a.WaitPhase(fmt.Sprint("p", i), spec.PhaseRunning, 0)
	}
	a.Save("p.yaml", strings.ReplaceAll(journaled(dir, "1", "running"), "v:", "w:"))
	a.WaitPhase("p", spec.PhaseDegraded, 0) // it refuses the setting
}

func TestLifecycleOfAnExecutable(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	dir := agenttest.NewDir(t)
	install(t, dir, "journal")
	l := &lifecycle{&life{T: t, path: filepath.Join(dir, "journal")}, agenttest.Start(t, dir, atOnce)}
	l.createdWhenItStarts()

	// Started again with equal settings: no event, also when they were others meanwhile.
	l.save("3", "stopped", spec.PhaseStopped)
	l.save("2", "stopped", spec.PhaseStopped)
	l.save("2", "running", spec.PhaseRunning)
	l.save("2", "stopped", spec.PhaseStopped)
	l.want("Configure v=2, Open, Teardown")

	l.updated()
	l.deletedInTheEnd()

	// Never started: nothing to report.
	l.save("8", "stopped", spec.PhaseStopped)
	if err := os.Remove(l.Path("pipelines/p.yaml")); err != nil {
		t.Fatal(err)
	}
	l.Wait("the pipeline is forgotten", l.forgotten)
	l.want("")
}

// lifecycle is the pipeline of an agent, with the journal of its plugin.
type lifecycle struct {
	*life
	*agenttest.Agent
}

// atOnce has pipelines that are declared no longer stop and be forgotten at once.
func atOnce(c *config.Config) { c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 0, 0 }

// save declares version v of the pipeline and waits for its phase.
func (l *lifecycle) save(v, status string, phase spec.Phase) {
	l.Helper()
	l.Save("p.yaml", journaled(l.Dir, v, status))
	l.Wait("the declaration counts", func() bool {
		d, err := l.Store.Declarations(l.Context())
		return err == nil && len(d) == 1 && d[0].Pipeline.Connectors[0].Settings["v"] == v && string(d[0].Pipeline.Status) == status
	})
	l.WaitPhase("p", phase, 0)
}

// calls returns how often a call is in the journal.
func (l *lifecycle) calls(call string) int {
	b, _ := os.ReadFile(l.path)
	return strings.Count(string(b), call)
}

func (l *lifecycle) forgotten() bool {
	d, err := l.Store.Declarations(l.Context())
	return err == nil && len(d) == 0 && l.State("p").PipelineID == ""
}

// onlyAttempts checks that since the last time there were only whole attempts.
func (l *lifecycle) onlyAttempts(attempt string) {
	l.Helper()
	for _, one := range strings.SplitAfter(l.next(), "Teardown") {
		if one = strings.TrimPrefix(one, ", "); one != attempt && one != "" {
			l.Errorf("failed attempt: %s, want %s", one, attempt)
		}
	}
}

// createdWhenItStarts: an error of OnCreated keeps it from starting, and the event comes again.
func (l *lifecycle) createdWhenItStarts() {
	while(l.T, l.Path("fail-OnCreated"), func() {
		l.save("1", "running", spec.PhaseRecovering)
		l.Wait("another attempt", func() bool { return l.calls("Teardown") >= 2 })
		l.save("1", "stopped", spec.PhaseStopped)
	})
	l.onlyAttempts("Configure v=1, OnCreated v=1, Teardown")
	l.save("2", "running", spec.PhaseRunning) // changed before it ever started: created, not updated
	l.Wait("records", func() bool { return len(numbers(l.T, l.Path("p.jsonl"))) > 5 })
	l.save("2", "stopped", spec.PhaseStopped)
	l.want("Configure v=2, OnCreated v=2, Open, Teardown")
}

// updated: one event, from the last version that started to the newest.
func (l *lifecycle) updated() {
	l.save("4", "stopped", spec.PhaseStopped)
	l.save("5", "stopped", spec.PhaseStopped)
	while(l.T, l.Path("fail-OnUpdated"), func() {
		l.save("5", "running", spec.PhaseRunning) // the version before it
		l.save("5", "stopped", spec.PhaseStopped)
	})
	l.want("Configure v=5, OnUpdated v=2 v=5, Teardown, Configure v=2, Open, Teardown")
	l.save("5", "running", spec.PhaseRunning)
	l.want("Configure v=5, OnUpdated v=2 v=5, Open")

	// Changed while it runs: the new one is configured before the old one ends.
	l.save("6", "running", spec.PhaseRunning)
	l.WaitPhase("p", spec.PhaseRunning, l.State("p").LastAttempt.Generation)
	l.Wait("the update", func() bool { return l.calls("OnUpdated v=5 v=6") == 1 })
	l.save("6", "stopped", spec.PhaseStopped)
	l.want("Configure v=6, Teardown, OnUpdated v=5 v=6, Open, Teardown")
}

// deletedInTheEnd: with what was active last, again and again until it succeeds, across
// restarts of the agent and while the executable is missing.
func (l *lifecycle) deletedInTheEnd() {
	missing := func() bool { return strings.Contains(l.Log(), `cannot find plugin \"journal\"`) }
	move := func(from, to string) {
		if err := os.Rename(l.Path(from), l.Path(to)); err != nil {
			l.Fatal(err)
		}
	}
	l.save("7", "stopped", spec.PhaseStopped)
	while(l.T, l.Path("fail-OnDeleted"), func() {
		if err := os.Remove(l.Path("pipelines/p.yaml")); err != nil {
			l.Fatal(err)
		}
		l.Save("other.yaml", "version: \"2.2\"\npipelines: []\n")
		l.Wait("attempts to delete", func() bool { return l.calls("OnDeleted") >= 2 })
		move("connectors/journal", "away")
		l.Wait("the plugin is missing", missing)
		l.Stop()
	})
	l.onlyAttempts("OnDeleted v=6, Teardown")
	l.Agent = agenttest.Start(l.T, l.Dir, atOnce)
	l.Wait("the plugin is missing", missing)
	move("away", "connectors/journal")
	l.Wait("the pipeline is forgotten", l.forgotten)
	l.want("OnDeleted v=6, Teardown")
}

// What the settings of before refer to may be gone. That keeps neither the next version
// from starting nor a connector that is gone from being cleaned up.
func TestLifecycleWithLostReferences(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	dir := agenttest.NewDir(t)
	install(t, dir, "journal")
	a := agenttest.Start(t, dir, func(c *config.Config) { c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 0, 0 })
	l := &life{T: t, path: a.Path("journal")}
	secret := func(name string) (path, reference string) {
		path = a.Path(name)
		if err := os.WriteFile(path, []byte("value of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		return path, "${file:" + path + "}"
	}
	remove := func(path string) {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	first, reference := secret("first")
	a.Save("p.yaml", journaled(dir, reference, "running"))
	a.WaitPhase("p", spec.PhaseRunning, 1)
	a.Save("p.yaml", journaled(dir, reference, "stopped"))
	a.WaitPhase("p", spec.PhaseStopped, 0)
	l.want("Configure v=value of first, OnCreated v=value of first, Open, Teardown")
	remove(first)
	second, reference := secret("second")
	a.Save("p.yaml", journaled(dir, reference, "running"))
	a.WaitPhase("p", spec.PhaseRunning, 0)
	l.want("Configure v=value of second, OnUpdated v= v=value of second, Open")
	a.Save("p.yaml", journaled(dir, reference, "stopped"))
	a.WaitPhase("p", spec.PhaseStopped, 0)
	remove(second)
	remove(a.Path("pipelines/p.yaml"))
	a.Save("other.yaml", "version: \"2.2\"\npipelines: []\n")
	waitCleaned(t, a)
	l.want("Teardown, OnDeleted v=, Teardown")
	if n := strings.Count(a.Log(), `"settings":["v"]`); n != 2 || strings.Contains(a.Log(), "value of") {
		t.Errorf("%d warnings of settings that were lost, or their values, in the log", n)
	}
}

// waitCleaned waits until nothing is known of the connector p:src.
func waitCleaned(t *testing.T, a *agenttest.Agent) {
	t.Helper()
	a.Wait("the connector is cleaned up", func() bool {
		all, err := a.Store.ConnectorStates(t.Context())
		return err == nil && !slices.ContainsFunc(all, func(c spec.ConnectorState) bool { return c.ID == "p:src" })
	})
}

// A connector is cleaned up by the plugin that it had, also when a reference named that
// and names none any more.
func TestCleanUpOfAReferencedPlugin(t *testing.T) {
	effort.Long(t)
	const which = "CONDUIT_TEST_WHICH"
	t.Setenv(which, "journal")
	dir := agenttest.NewDir(t)
	install(t, dir, "journal")
	a := agenttest.Start(t, dir, func(c *config.Config) { c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 0, 0 })
	l := &life{T: t, path: a.Path("journal")}
	referring := func(status string) string {
		return strings.Replace(journaled(dir, "1", status), "plugin: journal", "plugin: ${"+which+"}", 1)
	}
	for _, calls := range []string{"Configure v=1, OnCreated v=1, Open, Teardown", "Configure v=1, Open, Teardown"} {
		a.Save("p.yaml", referring("running"))
		a.WaitPhase("p", spec.PhaseRunning, 0)
		a.Save("p.yaml", referring("stopped"))
		a.WaitPhase("p", spec.PhaseStopped, 0)
		l.want(calls)
	}
	t.Setenv(which, "")
	if err := os.Remove(a.Path("pipelines/p.yaml")); err != nil {
		t.Fatal(err)
	}
	a.Save("other.yaml", "version: \"2.2\"\npipelines: []\n")
	waitCleaned(t, a)
	l.want("OnDeleted v=1, Teardown")
}

// A plugin that another one replaces under the same connector is cleaned up, with the
// settings that it had, and the connector goes on with the other one.
func TestCleanUpOfAReplacedPlugin(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	dir := agenttest.NewDir(t)
	install(t, dir, "journal")
	a := agenttest.Start(t, dir, func(c *config.Config) { c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 0, 0 })
	l := &life{T: t, path: a.Path("journal")}
	a.Save("p.yaml", journaled(dir, "1", "running"))
	a.WaitPhase("p", spec.PhaseRunning, 1)
	other := strings.Replace(journaled(dir, "1", "running"), "plugin: journal", "plugin: builtin:generator", 1)
	a.Save("p.yaml", strings.Replace(other, `settings: {v: "1"}`, `settings: {format.type: raw, format.options.n: int, rate: "100"}`, 1))
	a.WaitPhase("p", spec.PhaseRunning, 2)
	a.Wait("the plugin is cleaned up", func() bool {
		all, err := a.Store.ConnectorStates(t.Context())
		return err == nil && len(all) == 2 && !slices.ContainsFunc(all, func(c spec.ConnectorState) bool {
			return c.ID != "p:src" && c.ID != "p:dst"
		})
	})
	l.want("Configure v=1, OnCreated v=1, Open, Teardown, OnDeleted v=1, Teardown")
	if s, err := a.Store.ConnectorState(t.Context(), "p:src"); err != nil || s.Plugin != "builtin:generator" {
		t.Errorf("the connector in use is %+v, %v", s, err)
	}
}
