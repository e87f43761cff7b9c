package plugins_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec"
)

func TestExecutablesMoveRecords(t *testing.T) {
	a := agenttest.Start(t, "", func(c *config.Config) { c.Pipelines.ErrorRecovery.MinDelay = time.Hour })
	for id, ends := range map[string][2]string{
		"in": {"xgenerator", "builtin:file"}, "out": {"builtin:generator", "standalone:xfile"},
		"both": {"./xgenerator", "xfile@v1.0.0"},
	} {
		a.Save(id+".yaml", agenttest.Moving(a.Dir, id, ends[0], ends[1], 2000))
		a.WaitPhase(id, spec.PhaseDegraded, 0) // the executables do not exist yet
	}
	before := len(agenttest.Children(os.Getpid()))
	agenttest.InstallExecutables(t, a.Dir, "xgenerator", "xfile")
	for _, id := range []string{"in", "out", "both"} {
		a.Wait("records of "+id, func() bool { return agenttest.LinesIn(t, a.Path(id+".jsonl")) > 100 })
	}
	if n := len(agenttest.Children(os.Getpid())) - before; n != 4 {
		t.Errorf("%d processes for 4 connectors", n)
	}
	if v := agenttest.Scrape(t, a, `conduit_plugin_resident_bytes{component_id="both:src"}`); v < 1<<20 {
		t.Errorf("a process with %v bytes of memory", v)
	}
	if v := agenttest.Scrape(t, a, `conduit_plugin_open_fds{component_id="both:dst"}`); v < 3 {
		t.Errorf("a process with %v file descriptors", v)
	}
	a.Save("both.yaml", agenttest.Moving(a.Dir, "both", "./xgenerator", "xfile", 4000))
	a.WaitPhase("both", spec.PhaseRunning, 2)
	a.Save("both.yaml", agenttest.Moving(a.Dir, "both", "standalone:xgenerator", "./xfile", 4000)) // the same plugins
	a.WaitPhase("both", spec.PhaseRunning, 3)
	n := agenttest.LinesIn(t, a.Path("both.jsonl"))
	a.Wait("more records of both", func() bool { return agenttest.LinesIn(t, a.Path("both.jsonl")) > n+100 })
	if v := agenttest.Scrape(t, a, `conduit_plugin_starts_total{plugin="standalone:xgenerator"}`); v < 4 {
		t.Errorf("standalone:xgenerator was started %v times by name and by path, want 4 at least", v)
	}
	a.Stop()
	if left := agenttest.Children(os.Getpid()); len(left) != before {
		t.Errorf("processes %v are left", left)
	}
	for _, id := range []string{"in", "out", "both"} {
		agenttest.WantConsecutive(t, agenttest.Numbers(t, a.Path(id+".jsonl")))
	}
}

func TestAKilledPluginIsStartedAgain(t *testing.T) {
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "xgenerator", "xfile")
	before := agenttest.Children(os.Getpid())
	a := agenttest.Start(t, dir)
	a.Save("p.yaml", agenttest.Moving(a.Dir, "p", "xgenerator", "xfile", 2000))
	const kills = 4
	written := func() int {
		all, _ := agenttest.NumbersOf(t, a.Path("p.jsonl"))
		return len(all)
	}
	for range kills {
		n := written()
		a.Wait("more records", func() bool { return written() > n+100 })
		var pids []int
		a.Wait("both plugins run", func() bool {
			pids = slices.DeleteFunc(agenttest.Children(os.Getpid()), func(pid int) bool {
				return slices.Contains(before, pid)
			})
			return len(pids) == 2
		})
		_ = syscall.Kill(pids[n%2], syscall.SIGKILL)
		a.Wait("the plugins are others", func() bool { return !agenttest.Alive(pids[0]) && !agenttest.Alive(pids[1]) })
	}
	a.WaitPhase("p", spec.PhaseRunning, 1)
	a.Stop()
	all, torn := agenttest.NumbersOf(t, a.Path("p.jsonl"))
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

// resources are the resources of a process.
type resources struct{ processes, files, sockets, goroutines, temporary int }

func resourcesOf(t *testing.T) resources {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	r := resources{processes: len(agenttest.Children(os.Getpid())), goroutines: runtime.NumGoroutine()}
	for _, fd := range fds {
		switch target, _ := os.Readlink("/proc/self/fd/" + fd.Name()); {
		case strings.HasPrefix(target, "socket:"):
			r.sockets++
		case strings.HasPrefix(target, "/proc/"), strings.Contains(target, "/conduit.db"): // the store may open more
		default:
			r.files++
		}
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "conduit-*"))
	r.temporary = len(left)
	return r
}

// Pipelines of executables start, change and stop without leaking resources.
func TestManyExecutablesLeaveNothing(t *testing.T) {
	count := *pipelines
	t.Setenv("TMPDIR", t.TempDir())
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "xgenerator", "xfile")
	a := agenttest.Start(t, dir, func(c *config.Config) { c.Pipelines.DeletionGrace = 0 })
	all := func(phase spec.Phase, generation int64) {
		t.Helper()
		for i := range count {
			a.WaitPhase(fmt.Sprint("p", i), phase, generation)
		}
	}
	save := func(status string, rate int) {
		var b strings.Builder
		b.WriteString("version: \"2.2\"\npipelines:\n")
		for i := range count {
			one := agenttest.Moving(dir, fmt.Sprint("p", i), "xgenerator", "xfile", rate)
			b.WriteString(strings.Replace(strings.SplitAfterN(one, "pipelines:\n", 2)[1], "connectors:",
				"status: "+status+"\n    connectors:", 1))
		}
		a.Save("all.yaml", b.String())
	}
	a.Wait("the plugins are known", func() bool {
		builtIn := func(p plugins.Installed) bool { return p.Kind == pluginname.Builtin }
		return len(slices.DeleteFunc(a.Catalog.Host.Installed(), builtIn)) == 2
	})
	a.Wait("their processes are gone", func() bool { return len(agenttest.Children(os.Getpid())) == 0 })
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
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "xgenerator")
	a := agenttest.Start(t, dir)
	a.Save("p.yaml", agenttest.Moving(a.Dir, "p", "xgenerator", "builtin:file", 100))
	a.Wait("a record with a schema", func() bool {
		b, _ := os.ReadFile(a.Path("p.jsonl"))
		return strings.Contains(string(b), `"opencdc.payload.schema.subject":"p:src:payload"`)
	})
	if b, _ := os.ReadFile(a.Path("p.jsonl")); !strings.Contains(string(b), `"after":{"n":`) {
		line, _, _ := strings.Cut(string(b), "\n")
		t.Errorf("the record is not structured any more: %s", line)
	}
}

// A destination may wait for more records than a window holds, because this is the plugin's default.
func TestExecutablesThatGatherByDefault(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "gathering-file")
	a := agenttest.Start(t, dir)
	a.Save("p.yaml", agenttest.Moving(a.Dir, "p", "builtin:generator", "gathering-file", 50000))
	a.Wait("records", func() bool {
		info, err := os.Stat(a.Path("p.jsonl"))
		return err == nil && info.Size() > 0
	})
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

// A plugin that ends during a call has refused nothing: it is restarted.
func TestAPluginThatEndsInACall(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "journal")
	a := agenttest.Start(t, dir)
	for i, call := range []string{"Configure", "OnCreated", "Open"} {
		agenttest.While(t, a.Path("die-"+call), func() {
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
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "journal")
	l := &lifecycle{&agenttest.Journal{T: t, File: filepath.Join(dir, "journal")},
		agenttest.Start(t, dir, agenttest.AtOnce)}
	l.createdWhenItStarts()

	// Restarted with equal settings: no event, even if they were different in the meantime.
	l.save("3", "stopped", spec.PhaseStopped)
	l.save("2", "stopped", spec.PhaseStopped)
	l.save("2", "running", spec.PhaseRunning)
	l.save("2", "stopped", spec.PhaseStopped)
	l.Want("Configure v=2, Open, Teardown")

	l.updated()
	l.deletedInTheEnd()

	// Never started: no event.
	l.save("8", "stopped", spec.PhaseStopped)
	if err := os.Remove(l.Path("pipelines/p.yaml")); err != nil {
		t.Fatal(err)
	}
	l.Wait("the pipeline is forgotten", l.forgotten)
	l.Want("")
}

// lifecycle is the pipeline of an agent, with the plugin's journal.
type lifecycle struct {
	*agenttest.Journal
	*agenttest.Agent
}

// save declares version v of the pipeline and waits for its phase.
func (l *lifecycle) save(v, status string, phase spec.Phase) {
	l.Helper()
	l.Save("p.yaml", journaled(l.Dir, v, status))
	l.Wait("the declaration counts", func() bool {
		d, err := l.Store.Declarations(l.Context())
		return err == nil && len(d) == 1 && d[0].Pipeline.Connectors[0].Settings["v"] == v &&
			string(d[0].Pipeline.Status) == status
	})
	l.WaitPhase("p", phase, 0)
}

// calls returns how often a call is in the journal.
func (l *lifecycle) calls(call string) int {
	b, _ := os.ReadFile(l.File)
	return strings.Count(string(b), call)
}

func (l *lifecycle) forgotten() bool {
	d, err := l.Store.Declarations(l.Context())
	return err == nil && len(d) == 0 && l.State("p").PipelineID == ""
}

// onlyAttempts checks that there were only complete attempts since the last check.
func (l *lifecycle) onlyAttempts(attempt string) {
	l.Helper()
	for _, one := range strings.SplitAfter(l.Next(), "Teardown") {
		if one = strings.TrimPrefix(one, ", "); one != attempt && one != "" {
			l.Errorf("failed attempt: %s, want %s", one, attempt)
		}
	}
}

// createdWhenItStarts: an error of OnCreated prevents the start, and the event is repeated.
func (l *lifecycle) createdWhenItStarts() {
	agenttest.While(l.T, l.Path("fail-OnCreated"), func() {
		l.save("1", "running", spec.PhaseRecovering)
		l.Wait("another attempt", func() bool { return l.calls("Teardown") >= 2 })
		l.save("1", "stopped", spec.PhaseStopped)
	})
	l.onlyAttempts("Configure v=1, OnCreated v=1, Teardown")
	l.save("2", "running", spec.PhaseRunning) // changed before the first start: created, not updated
	l.Wait("records", func() bool { return agenttest.LinesIn(l.T, l.Path("p.jsonl")) > 5 })
	l.save("2", "stopped", spec.PhaseStopped)
	l.Want("Configure v=2, OnCreated v=2, Open, Teardown")
}

// updated: one event, from the last version that started to the newest.
func (l *lifecycle) updated() {
	l.save("4", "stopped", spec.PhaseStopped)
	l.save("5", "stopped", spec.PhaseStopped)
	agenttest.While(l.T, l.Path("fail-OnUpdated"), func() {
		l.save("5", "running", spec.PhaseRunning) // the previous version
		l.save("5", "stopped", spec.PhaseStopped)
	})
	l.Want("Configure v=5, OnUpdated v=2 v=5, Teardown, Configure v=2, Open, Teardown")
	l.save("5", "running", spec.PhaseRunning)
	l.Want("Configure v=5, OnUpdated v=2 v=5, Open")

	// Changed while it runs: the new one is configured before the old one ends.
	l.save("6", "running", spec.PhaseRunning)
	l.WaitPhase("p", spec.PhaseRunning, l.State("p").LastAttempt.Generation)
	l.Wait("the update", func() bool { return l.calls("OnUpdated v=5 v=6") == 1 })
	l.save("6", "stopped", spec.PhaseStopped)
	l.Want("Configure v=6, Teardown, OnUpdated v=5 v=6, Open, Teardown")
}

// deletedInTheEnd: with the settings that were active last, repeatedly until it succeeds, across restarts of the agent
// and while the executable is missing.
func (l *lifecycle) deletedInTheEnd() {
	missing := func() bool { return strings.Contains(l.Log(), `cannot find plugin \"journal\"`) }
	move := func(from, to string) {
		if err := os.Rename(l.Path(from), l.Path(to)); err != nil {
			l.Fatal(err)
		}
	}
	l.save("7", "stopped", spec.PhaseStopped)
	agenttest.While(l.T, l.Path("fail-OnDeleted"), func() {
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
	l.Agent = agenttest.Start(l.T, l.Dir, agenttest.AtOnce)
	l.Wait("the plugin is missing", missing)
	move("away", "connectors/journal")
	l.Wait("the pipeline is forgotten", l.forgotten)
	l.Want("OnDeleted v=6, Teardown")
}

// References in the previous settings may no longer resolve. This prevents neither the start of the next version nor
// the clean-up of a removed connector.
func TestLifecycleWithLostReferences(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "journal")
	a := agenttest.Start(t, dir, func(c *config.Config) { c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 0, 0 })
	l := &agenttest.Journal{T: t, File: a.Path("journal")}
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
	l.Want("Configure v=value of first, OnCreated v=value of first, Open, Teardown")
	remove(first)
	second, reference := secret("second")
	a.Save("p.yaml", journaled(dir, reference, "running"))
	a.WaitPhase("p", spec.PhaseRunning, 0)
	l.Want("Configure v=value of second, OnUpdated v= v=value of second, Open")
	a.Save("p.yaml", journaled(dir, reference, "stopped"))
	a.WaitPhase("p", spec.PhaseStopped, 0)
	remove(second)
	remove(a.Path("pipelines/p.yaml"))
	a.Save("other.yaml", "version: \"2.2\"\npipelines: []\n")
	waitCleaned(t, a)
	l.Want("Teardown, OnDeleted v=, Teardown")
	if n := strings.Count(a.Log(), `"settings":["v"]`); n != 2 || strings.Contains(a.Log(), "value of") {
		t.Errorf("%d warnings of settings that were lost, or their values, in the log", n)
	}
}

// waitCleaned waits until the agent has no state of the connector p:src.
func waitCleaned(t *testing.T, a *agenttest.Agent) {
	t.Helper()
	a.Wait("the connector is cleaned up", func() bool {
		all, err := a.Store.ConnectorStates(t.Context())
		return err == nil && !slices.ContainsFunc(all, func(c spec.ConnectorState) bool { return c.ID == "p:src" })
	})
}

// A connector is cleaned up by its last plugin, also if a reference named that plugin and no longer resolves.
func TestCleanUpOfAReferencedPlugin(t *testing.T) {
	const which = "CONDUIT_TEST_WHICH"
	t.Setenv(which, "journal")
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "journal")
	a := agenttest.Start(t, dir, func(c *config.Config) { c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 0, 0 })
	l := &agenttest.Journal{T: t, File: a.Path("journal")}
	referring := func(status string) string {
		return strings.Replace(journaled(dir, "1", status), "plugin: journal", "plugin: ${"+which+"}", 1)
	}
	for _, calls := range []string{"Configure v=1, OnCreated v=1, Open, Teardown", "Configure v=1, Open, Teardown"} {
		a.Save("p.yaml", referring("running"))
		a.WaitPhase("p", spec.PhaseRunning, 0)
		a.Save("p.yaml", referring("stopped"))
		a.WaitPhase("p", spec.PhaseStopped, 0)
		l.Want(calls)
	}
	t.Setenv(which, "")
	if err := os.Remove(a.Path("pipelines/p.yaml")); err != nil {
		t.Fatal(err)
	}
	a.Save("other.yaml", "version: \"2.2\"\npipelines: []\n")
	waitCleaned(t, a)
	l.Want("OnDeleted v=1, Teardown")
}

// A plugin that is replaced under the same connector is cleaned up with its own settings, and the connector continues
// with the new plugin.
func TestCleanUpOfAReplacedPlugin(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "journal")
	a := agenttest.Start(t, dir, func(c *config.Config) { c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 0, 0 })
	l := &agenttest.Journal{T: t, File: a.Path("journal")}
	a.Save("p.yaml", journaled(dir, "1", "running"))
	a.WaitPhase("p", spec.PhaseRunning, 1)
	other := strings.Replace(journaled(dir, "1", "running"), "plugin: journal", "plugin: builtin:generator", 1)
	a.Save("p.yaml", strings.Replace(other, `settings: {v: "1"}`,
		`settings: {format.type: raw, format.options.n: int, rate: "100"}`, 1))
	a.WaitPhase("p", spec.PhaseRunning, 2)
	a.Wait("the plugin is cleaned up", func() bool {
		all, err := a.Store.ConnectorStates(t.Context())
		return err == nil && len(all) == 2 && !slices.ContainsFunc(all, func(c spec.ConnectorState) bool {
			return c.ID != "p:src" && c.ID != "p:dst"
		})
	})
	l.Want("Configure v=1, OnCreated v=1, Open, Teardown, OnDeleted v=1, Teardown")
	if s, err := a.Store.ConnectorState(t.Context(), "p:src"); err != nil || s.Plugin != "builtin:generator" {
		t.Errorf("the connector in use is %+v, %v", s, err)
	}
}
