package plugins_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/config"
)

// The processes of unchanged plugins keep running, and receive no call.
func TestDestinationChangesBetweenExecutables(t *testing.T) {
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "journal", "xfile")
	d := agenttest.DeskIn(t, dir)
	processes := func() (pids []int) {
		d.Wait("two processes", func() bool { pids = agenttest.Children(os.Getpid()); return len(pids) == 2 })
		return pids
	}
	names := []string{"one.jsonl", "two.jsonl"}
	version := func(i int) agenttest.Variant {
		return agenttest.Variant{Source: "journal", Destination: "xfile",
			Settings: fmt.Sprintf("path: %q", d.Path(names[i%2]))}
	}
	d.Become(version(0), 0)
	d.WaitGrowth(names[0])
	before := processes()
	var source int
	for i := 1; i <= *changes; i++ {
		d.Become(version(i), 0)
		d.WaitGrowth(names[i%2])
		now := processes()
		kept := slices.DeleteFunc(slices.Clone(now), func(pid int) bool { return !slices.Contains(before, pid) })
		if len(kept) != 1 || source != 0 && kept[0] != source {
			t.Fatalf("processes %v became %v", before, now)
		}
		before, source = now, kept[0]
	}
	l := &agenttest.Journal{T: t, File: d.Path("journal")}
	l.Want("Configure v=, OnCreated v=, Open")
	d.Stop()
	l.Want("Teardown")
	agenttest.WantAll(t, agenttest.Numbers(t, d.Path("one.jsonl")), agenttest.Numbers(t, d.Path("two.jsonl")))
}

// A destination that never answers is cut off; all its records go to the new one.
func TestAStuckDestinationIsReplaced(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "journal", "chaos")
	d := agenttest.DeskIn(t, dir, func(c *config.Config) { c.Pipelines.DrainTimeout = 200 * time.Millisecond })
	d.Become(agenttest.Variant{Source: "journal", Destination: "chaos", Settings: "mode: never ack"}, 0)
	d.Wait("records that are not answered", func() bool {
		return agenttest.Scrape(t, d.Agent,
			`conduit_source_sequence{component_id="p:src",pipeline_id="p",pipeline_name="p",stage="read"}`) > 20
	})
	d.Become(agenttest.Variant{Source: "journal", Settings: fmt.Sprintf("path: %q", d.Path("p.jsonl"))}, 0)
	d.WaitGrowth("p.jsonl")
	d.WantStarts("p", 2)
	d.Stop()
	agenttest.WantConsecutive(t, agenttest.Numbers(t, d.Path("p.jsonl")))
}

// The dead-letter queue of a pipeline whose destination refuses everything is moved between files: every record is a
// dead letter, once and in order, and both processes stay.
func TestDeadLetterQueueChangesUnderLoad(t *testing.T) {
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "journal", "chaos")
	d := agenttest.DeskIn(t, dir)
	names := []string{"one.jsonl", "two.jsonl"}
	version := func(i, window int) agenttest.Variant {
		return agenttest.Variant{Source: "journal", Destination: "chaos", Settings: "mode: refuse", More: fmt.Sprintf(
			"    dead-letter-queue: {plugin: file, settings: {path: %q}, window-size: %d, window-nack-threshold: "+
				"%[2]d}\n",
			d.Path(names[i%2]), window)}
	}
	d.Become(version(0, 0), 0)
	d.WaitGrowth(names[0])
	before := agenttest.Children(os.Getpid())
	for i := 1; i <= 20; i++ {
		d.Become(version(i, 0), 0)
		d.WaitGrowth(names[i%2])
	}
	now := agenttest.Children(os.Getpid())
	if !slices.Equal(slices.Sorted(slices.Values(now)), slices.Sorted(slices.Values(before))) {
		t.Errorf("processes %v became %v", before, now)
	}
	d.WantStarts("p", 1)
	d.Stop()
	agenttest.WantAll(t, deadLetters(t, d.Path("one.jsonl")), deadLetters(t, d.Path("two.jsonl")))
}

// deadLetters returns the numbers of the records in a file of dead letters.
func deadLetters(t *testing.T, path string) (out []int) {
	t.Helper()
	for _, line := range agenttest.CompleteLines(path) {
		var r struct{ Position []byte }
		var n int
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(string(r.Position), "p:src/%d", &n); err != nil {
			t.Fatalf("%s: dead letter at %q: %v", filepath.Base(path), r.Position, err)
		}
		out = append(out, n)
	}
	return out
}
