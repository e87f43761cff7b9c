package plugins_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

// TestAReplacedPluginIsUsedAfterARestart replaces an executable while a pipeline uses it. The agent reports that, the
// running pipeline keeps the old one, and a restart of the pipeline starts the new one.
func TestAReplacedPluginIsUsedAfterARestart(t *testing.T) {
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "xgenerator")
	w := agenttest.StartWeb(t, dir)
	d := &agenttest.Desk{Agent: w.Agent, T: t}
	d.Save("p.yaml", agenttest.Moving(dir, "p", "xgenerator", "builtin:file", 1000))
	d.Runs("p", 1000)
	plugins := func() (release string, pid int) {
		for _, child := range agenttest.Children(os.Getpid()) {
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
	d.Must(err)
	d.Must(os.WriteFile(path+".new", []byte(strings.Replace(string(script), "GORACE", "RELEASE=new GORACE", 1)), 0o755))
	d.Must(os.Rename(path+".new", path))
	d.Wait("the new one to be noticed", func() bool { return strings.Contains(d.Log(), "plugin replaced") })
	shown := func() spec.Condition {
		s, err := w.API.Status(t.Context(), "p")
		d.Must(err)
		at := slices.IndexFunc(s.Conditions, func(c spec.Condition) bool { return c.Type == spec.ConditionPlugin })
		return s.Conditions[at]
	}
	if c := shown(); c.Status != spec.ConditionTrue || c.Reason != "PluginReplaced" ||
		!strings.HasSuffix(c.Message, "a restart would use the new file "+path+": conduit pipelines restart p") {
		t.Errorf("it is shown as %+v", c)
	}
	d.Wait("the event", func() bool {
		events, err := w.API.Events(t.Context(), -1, 1)
		return err == nil && events[0].Pipeline == "p" && events[0].Reason == "PluginReplaced"
	})
	n := agenttest.LinesIn(t, d.Path("p.jsonl"))
	d.Wait("more records", func() bool { return agenttest.LinesIn(t, d.Path("p.jsonl")) > n+100 })
	if !agenttest.Alive(before) || d.Starts("p") != 1 {
		t.Error("replacing the plugin disturbed what runs")
	}
	w.Must("POST", "/v1/pipelines/p/restart", "", nil)
	d.Wait("the new one to run", func() bool {
		release, _ := plugins()
		return release == "new" && d.State("p").RunningGeneration == 1
	})
	if c := shown(); c.Status != spec.ConditionFalse || c.Reason != "NotChanged" {
		t.Errorf("after the restart: %+v", c)
	}
	d.Stop()
	agenttest.WantConsecutive(t, agenttest.Numbers(t, d.Path("p.jsonl")))
}

// TestANewerPluginIsUsedAfterARestart installs a newer version of an executable in another file. The agent reports
// that, and again when the newer one is removed after a restart of the pipeline.
func TestANewerPluginIsUsedAfterARestart(t *testing.T) {
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "xgenerator")
	w := agenttest.StartWeb(t, dir)
	d := &agenttest.Desk{Agent: w.Agent, T: t}
	d.Save("p.yaml", agenttest.Moving(dir, "p", "xgenerator", "builtin:file", 1000))
	d.Runs("p", 1000)
	reports := func(next string, words ...string) bool {
		s, err := w.API.Status(t.Context(), "p")
		d.Must(err)
		at := slices.IndexFunc(s.Conditions, func(c spec.Condition) bool { return c.Type == spec.ConditionPlugin })
		c := s.Conditions[at]
		if next == "" {
			return c.Status == spec.ConditionFalse
		}
		events, err := w.API.Events(t.Context(), -1, 1)
		if !strings.Contains(c.Message, "a restart would use "+next) {
			return false
		}
		for _, word := range words {
			if err != nil || !strings.Contains(events[0].Message, word) {
				return false
			}
		}
		return c.Reason == "PluginReplaced" && events[0].Reason == "PluginReplaced" && events[0].Pipeline == "p"
	}
	if !reports("") {
		t.Error("it is reported as changed")
	}
	path := filepath.Join(dir, "connectors", "xgenerator")
	newer := path + "-9"
	script, err := os.ReadFile(path)
	d.Must(err)
	d.Must(os.WriteFile(newer+".tmp", []byte(strings.Replace(string(script), "GORACE",
		agenttest.ReleaseVariable+"=v9.0.0 GORACE", 1)), 0o755))
	d.Must(os.Rename(newer+".tmp", newer))
	d.Wait("the newer one to be reported", func() bool {
		return reports("standalone:xgenerator@v9.0.0: ", "connector p:src runs standalone:xgenerator@v1",
			"refers to standalone:xgenerator@v9.0.0", newer)
	})
	w.Must("POST", "/v1/pipelines/p/restart", "", nil)
	d.Wait("the newer one to run", func() bool { return d.State("p").Phase == spec.PhaseRunning && reports("") })
	d.Must(os.Remove(newer))
	d.Wait("its removal to be reported", func() bool {
		return reports("standalone:xgenerator@v1", "connector p:src runs standalone:xgenerator@v9.0.0",
			"refers to standalone:xgenerator@v1", path)
	})
	d.Stop()
	agenttest.WantConsecutive(t, agenttest.Numbers(t, d.Path("p.jsonl")))
}

// A pipeline that does not drain is cut off after the configured time, and its new version takes over.
func TestDrainsEndInTime(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "chaos")
	d := agenttest.DeskIn(t, dir, func(c *config.Config) { c.Pipelines.DrainTimeout = 200 * time.Millisecond })
	d.Save("p.yaml", strings.Replace(agenttest.Moving(dir, "p", "chaos", "builtin:file", 1),
		"rate: 1, format.type: structured, format.options.n: int", "mode: hang", 1))
	d.Wait("records", func() bool {
		text, err := os.ReadFile(d.Path("p.jsonl"))
		return err == nil && strings.Count(string(text), "\n") == 5
	})
	d.Save("p.yaml", d.Generated("p", 2))
	d.Runs("p", 2)
}
