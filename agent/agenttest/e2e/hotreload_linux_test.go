package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/plugintest/server"
	"github.com/conduit-agent/conduit/spec"
)

// Agents with stores of their own may follow one directory. Neither minds the other.
func TestTwoAgentsOnOneDirectory(t *testing.T) {
	t.Parallel()
	logged := func(version int) string {
		return strings.Replace(made("", "p", version, ""), "plugin: builtin:file\n        settings: {path: \"/p.jsonl\"}", "plugin: builtin:log", 1)
	}
	one := deskIn(t, "")
	one.Save("p.yaml", logged(1))
	two := deskIn(t, "", func(c *config.Config) { c.Pipelines.Path = one.Path("pipelines") })
	one.runs("p", 1)
	two.runs("p", 1)
	one.outcome("p.yaml", logged(1))
	two.outcome("p.yaml", logged(1))
	one.Save("p.yaml", logged(2))
	one.runs("p", 2)
	two.runs("p", 2)
	one.Stop()
	one.Save("p.yaml", logged(3))
	two.runs("p", 3)
	one.again(func() {}).runs("p", 3)
	two.started("p", 3)
}

// A disk with the pipeline files that is unmounted, and mounted again, stops nothing.
func TestDirectoryIsUnmounted(t *testing.T) {
	dir := agenttest.NewDir(t)
	mount := func() {
		t.Helper()
		err := syscall.Mount("none", dir+"/pipelines", "tmpfs", 0, "")
		if errors.Is(err, os.ErrPermission) {
			server.Missing(t, "mounting is not permitted here: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	mount()
	t.Cleanup(func() { _ = syscall.Unmount(dir+"/pipelines", syscall.MNT_DETACH) })
	d := deskIn(t, dir, short)
	d.Save("p.yaml", d.made("p", 1))
	d.runs("p", 1)
	d.must(syscall.Unmount(d.Path("pipelines"), 0))
	d.scanned() // there is no event of it
	d.Wait("that nothing is withdrawn", func() bool { return strings.Contains(d.Log(), "all pipeline files are gone") })
	mount()
	d.Save("p.yaml", d.made("p", 1))
	d.started("p", 1)
	d.Save("p.yaml", d.made("p", 2))
	d.runs("p", 2)
}

// An agent that is allowed no inotify instance polls the files instead,
// and says how to mend that.
func TestNoInotifyInstancesLeft(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	save := func(version int) {
		if err := os.WriteFile(dir+"/pipelines/p.yaml", []byte(made(dir, "p", version, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	save(1)
	p, err := tryProcess(dir, &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}, noEvents+"=1")
	if err != nil {
		server.Missing(t, "user name spaces are not permitted here: %v", err)
	}
	status := func() string {
		text, _ := os.ReadFile(dir + "/conduit.db.status/p.yaml.json")
		return string(text)
	}
	for version := 1; version <= 2; version++ {
		save(version)
		running := fmt.Sprintf("\"runningGeneration\": %d,", version)
		p.waitFor(t, fmt.Sprintf("version %d", version), func() bool { return strings.Contains(status(), running) })
	}
	p.terminate(t)
	if log := p.log.String(); !strings.Contains(log, "polling it instead") || !strings.Contains(log, "sysctl fs.inotify.max_user_instances") {
		t.Errorf("it was not logged that there are no events:\n%s", log)
	}
}

// An executable that is replaced is noticed, disturbs nothing, and is what runs after a
// restart of the pipeline.
func TestAReplacedPluginIsUsedAfterARestart(t *testing.T) {
	effort.Long(t)
	dir := agenttest.NewDir(t)
	install(t, dir, "xgenerator")
	w := startWeb(t, dir)
	d := &desk{w.Agent, t}
	d.Save("p.yaml", moved(dir, "p", "xgenerator", "builtin:file", 1000))
	d.runs("p", 1000)
	plugins := func() (release string, pid int) {
		for _, child := range children(os.Getpid()) {
			environ, _ := os.ReadFile("/proc/" + strconv.Itoa(child) + "/environ")
			all := strings.Split(string(environ), "\x00")
			if slices.Contains(all, "JOURNAL="+dir+"/journal") {
				release, pid = "old", child
				if slices.Contains(all, "RELEASE=new") {
					release = "new"
				}
			}
		}
		return release, pid
	}
	d.Wait("the source to be alone", func() bool { release, _ := plugins(); return release == "old" })
	_, before := plugins()
	if strings.Contains(d.Log(), "plugin replaced") {
		t.Error("it is taken for a replacement")
	}
	path := filepath.Join(dir, "connectors", "xgenerator")
	script, err := os.ReadFile(path)
	d.must(err)
	d.must(os.WriteFile(path+".new", []byte(strings.Replace(string(script), "GORACE", "RELEASE=new GORACE", 1)), 0o755))
	d.must(os.Rename(path+".new", path))
	d.Wait("the new one to be noticed", func() bool { return strings.Contains(d.Log(), "plugin replaced") })
	shown := func() spec.Condition {
		s, err := w.api.Status(t.Context(), "p")
		d.must(err)
		return s.Conditions[slices.IndexFunc(s.Conditions, func(c spec.Condition) bool { return c.Type == spec.ConditionPlugin })]
	}
	if c := shown(); c.Status != spec.ConditionTrue || c.Reason != "PluginReplaced" || !strings.Contains(c.Message, "connector p:src ") || !strings.Contains(c.Message, path) {
		t.Errorf("it is shown as %+v", c)
	}
	d.Wait("the event", func() bool {
		events, err := w.api.Events(t.Context(), -1, 1)
		return err == nil && events[0].Pipeline == "p" && events[0].Reason == "PluginReplaced"
	})
	n := len(numbers(t, d.Path("p.jsonl")))
	d.Wait("more records", func() bool { return len(numbers(t, d.Path("p.jsonl"))) > n+100 })
	if !alive(before) || d.starts("p") != 1 {
		t.Error("replacing the plugin disturbed what runs")
	}
	w.must("POST", "/v1/pipelines/p/restart", "", nil)
	d.Wait("the new one to run", func() bool { release, _ := plugins(); return release == "new" && d.State("p").RunningGeneration == 1 })
	if c := shown(); c.Status != spec.ConditionFalse || c.Reason != "NotChanged" {
		t.Errorf("after the restart: %+v", c)
	}
	d.Stop()
	wantConsecutive(t, numbers(t, d.Path("p.jsonl")))
}

// A pipeline that does not come to rest is cut off after the time that the settings
// give it, and its new version takes over.
func TestDrainsEndInTime(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	install(t, dir, "chaos")
	d := deskIn(t, dir, func(c *config.Config) { c.Pipelines.DrainTimeout = 200 * time.Millisecond })
	d.Save("p.yaml", strings.Replace(moved(dir, "p", "chaos", "builtin:file", 1), "rate: 1, format.type: structured, format.options.n: int", "mode: hang", 1))
	d.Wait("records", func() bool {
		text, err := os.ReadFile(d.Path("p.jsonl"))
		return err == nil && strings.Count(string(text), "\n") == 5
	})
	d.Save("p.yaml", d.made("p", 2))
	d.runs("p", 2)
}
