package e2e_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

// receipt is a status file, as tools read it.
type receipt struct {
	File, Hash, Result string
	Settled            bool
	Problems           []struct {
		Line, Column int
		Message      string
	}
	Pipelines []struct {
		ID, Result, Phase             string
		Generation, RunningGeneration int64
		Withdrawn                     time.Time
		LastAttempt                   struct {
			Generation int64
			Error      string
		}
	}
}

// receipt returns the status file of a pipeline file, the zero value if there is none.
func (d *desk) receipt(name string) (r receipt) {
	d.T.Helper()
	text, err := os.ReadFile(d.Path("conduit.db.status/" + name + ".json"))
	if os.IsNotExist(err) {
		return r
	}
	d.Must(err)
	d.Must(json.Unmarshal(text, &r))
	return r
}

// deploy saves a file and waits for its result, as a deployment tool does.
func (d *desk) deploy(name, content string) receipt {
	d.T.Helper()
	d.Save(name, content)
	return d.outcome(name, content)
}

// outcome waits for the result of a file with this content.
func (d *desk) outcome(name, content string) (r receipt) {
	d.T.Helper()
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	d.Wait("the outcome of "+name, func() bool {
		r = d.receipt(name)
		return r.Hash == hash && r.Settled
	})
	if r.File != name {
		d.T.Errorf("the status of %s is that of %s", name, r.File)
	}
	return r
}

// A tool that deploys files reads their results from the status files.
func TestStatusFiles(t *testing.T) {
	t.Parallel()
	t.Run("changed", func(t *testing.T) {
		d := receiptDesk(t)
		wantReceipt(t, d.deploy("p.yaml", d.Generated("p", 2)), "ok", "p ok running 2/2")
		if g := d.State("p").LastGood.Generation; g != 2 {
			t.Errorf("it counts as settled before it has proved itself: last good generation %d", g)
		}
	})
	t.Run("changed in place", func(t *testing.T) {
		d := receiptDesk(t)
		wantReceipt(t, d.deploy("p.yaml", strings.Replace(d.Generated("p", 1), "p.jsonl", "other.jsonl", 1)), "ok",
			"p ok running 2/2")
	})
	t.Run("a comment", func(t *testing.T) {
		d := receiptDesk(t)
		wantReceipt(t, d.deploy("p.yaml", "# why\n"+d.Generated("p", 1)), "ok", "p ok running 1/1")
	})
	t.Run("stopped", func(t *testing.T) {
		d := receiptDesk(t)
		wantReceipt(t, d.deploy("p.yaml", agenttest.Generated(d.Dir, "p", 1, "status: stopped")), "ok",
			"p ok stopped 0/2")
	})
}

func TestStatusFilesOfWhatFails(t *testing.T) {
	t.Parallel()
	t.Run("broken", func(t *testing.T) {
		d := receiptDesk(t)
		r := d.deploy("p.yaml", strings.Replace(d.Generated("p", 2), "    connectors:", "    conectors:", 1))
		wantReceipt(t, r, "failed", "p ok running 1/1")
		if p := r.Problems; len(p) == 0 || p[0].Line != 5 || p[0].Column != 5 ||
			!strings.Contains(p[0].Message, "conectors") {
			t.Errorf("problems: %+v", p)
		}
		wantReceipt(t, d.deploy("p.yaml", d.Generated("p", 2)), "ok", "p ok running 2/2")
	})
	t.Run("broken from the beginning", func(t *testing.T) {
		d := receiptDesk(t)
		wantReceipt(t, d.deploy("new.yaml", "pipelines: ["), "failed")
	})
	t.Run("rolled back", func(t *testing.T) {
		d := receiptDesk(t)
		r := d.deploy("p.yaml", agenttest.Generated(d.Path("missing"), "p", 2, ""))
		wantReceipt(t, r, "failed", "p failed running 1/2")
		if a := r.Pipelines[0].LastAttempt; a.Generation != 2 || !strings.Contains(a.Error, "missing") {
			t.Errorf("last attempt: %+v", a)
		}
	})
	t.Run("declared elsewhere", func(t *testing.T) {
		d := receiptDesk(t)
		wantReceipt(t, d.deploy("r.yaml", d.Generated("p", 2)), "failed")
		wantReceipt(t, d.receipt("p.yaml"), "ok", "p ok running 1/1")
	})
}

func TestStatusFilesOfFilesThatChangePlaces(t *testing.T) {
	t.Parallel()
	t.Run("two pipelines", func(t *testing.T) {
		d := receiptDesk(t)
		wantReceipt(t, d.deploy("both.yaml", d.Generated("a", 1)+"---\n"+agenttest.Generated(d.Path("missing"), "b", 1,
			"")),
			"failed", "a ok running 1/1", "b failed recovering 0/1")
	})
	t.Run("one of two dropped", func(t *testing.T) {
		d := receiptDesk(t)
		both := d.Generated("a", 1) + "---\n" + d.Generated("b", 1)
		wantReceipt(t, d.deploy("both.yaml", both), "ok", "a ok running 1/1", "b ok running 1/1")
		wantReceipt(t, d.deploy("both.yaml", d.Generated("a", 1)), "ok", "a ok running 1/1")
		d.Stopped("b")
	})
	t.Run("renamed", func(t *testing.T) {
		d := receiptDesk(t)
		d.Rename("p.yaml", "r.yaml")
		wantReceipt(t, d.outcome("r.yaml", d.Generated("p", 1)), "ok", "p ok running 1/1")
		d.Wait("the old status file to go", func() bool { return d.receipt("p.yaml").File == "" })
	})
	t.Run("deleted", func(t *testing.T) {
		d := receiptDesk(t)
		d.Remove("p.yaml")
		d.Wait("the status file to go", func() bool { return d.receipt("p.yaml").File == "" })
		if s := d.State("p"); s.Phase != spec.PhaseStopped {
			t.Errorf("the status file went before the pipeline: %+v", s)
		}
	})
}

// receiptDesk returns an agent that runs version 1 of p.yaml.
func receiptDesk(t *testing.T) *desk {
	t.Parallel()
	d := deskIn(t, "", agenttest.ConfirmSoon, agenttest.ShortGrace)
	wantReceipt(t, d.deploy("p.yaml", d.Generated("p", 1)), "ok", "p ok running 1/1")
	return d
}

// wantReceipt checks the result of a status file and the results of its pipelines.
func wantReceipt(t *testing.T, r receipt, result string, pipelines ...string) {
	t.Helper()
	var got []string
	for _, p := range r.Pipelines {
		got = append(got, fmt.Sprintf("%s %s %s %d/%d", p.ID, p.Result, p.Phase, p.RunningGeneration, p.Generation))
	}
	if r.Result != result || !slices.Equal(got, pipelines) {
		t.Errorf("result %s of %q, want %s of %q", r.Result, got, result, pipelines)
	}
}

// The status file of a deleted pipeline file remains until its pipelines have stopped.
func TestStatusFilesOfDeletedFiles(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "", func(c *config.Config) { c.Pipelines.DeletionGrace = time.Hour })
	d.deploy("p.yaml", d.Generated("p", 1))
	d.Remove("p.yaml")
	d.Wait("the deletion to be reported", func() bool {
		r := d.receipt("p.yaml")
		return r.Hash == "" && !r.Settled && r.Result == "pending" && len(r.Pipelines) == 1 &&
			!r.Pipelines[0].Withdrawn.IsZero() && r.Pipelines[0].Phase == "running"
	})
}

// A new version is settled only after the configured probation.
func TestStatusFilesAwaitTheProof(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "", func(c *config.Config) { c.Pipelines.Confirm = time.Hour })
	d.deploy("p.yaml", d.Generated("p", 1))
	d.Save("p.yaml", d.Generated("p", 2))
	d.Wait("the new version to be reported", func() bool {
		r := d.receipt("p.yaml")
		return len(r.Pipelines) == 1 && r.Pipelines[0].RunningGeneration == 2
	})
	if r := d.receipt("p.yaml"); r.Settled || r.Result != "pending" {
		t.Errorf("it has not proved itself, but: %+v", r)
	}
}

// Status files do not outlive the agent or their pipeline files.
func TestStatusFilesAcrossRestarts(t *testing.T) {
	t.Parallel()
	d := atDesk(t, agenttest.ShortGrace)
	d.outcome("p.yaml", d.Generated("p", 1))
	d.outcome("q.yaml", d.Generated("q", 1))
	d = d.again(func() {
		if r := d.receipt("p.yaml"); r.Settled || r.Pipelines[0].Phase != "stopped" {
			t.Errorf("the agent is down, and the status file says %+v", r)
		}
		d.Remove("p.yaml")
		d.Must(os.WriteFile(d.Path("conduit.db.status/older.yaml.json"), []byte("{}"), 0o600))
	}, agenttest.ShortGrace)
	d.outcome("q.yaml", d.Generated("q", 1))
	d.Wait("stale files to go", func() bool {
		left, err := filepath.Glob(d.Path("conduit.db.status/*"))
		return err == nil && len(left) == 1
	})
	d.again(func() { d.Must(os.RemoveAll(d.Path("conduit.db.status"))) }, func(c *config.Config) {
		c.Pipelines.StatusFiles = false
	}).Runs("q", 1)
	d.Stop()
	if _, err := os.Stat(d.Path("conduit.db.status")); !os.IsNotExist(err) {
		t.Errorf("there are status files although the settings do not want them: %v", err)
	}
}

// Status files that cannot be written delay nothing, and cause one line in the log.
func TestStatusFilesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	if err := os.WriteFile(dir+"/conduit.db.status", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := deskIn(t, dir, agenttest.ConfirmSoon)
	failures := func() int { return strings.Count(d.Log(), "cannot write status files") }
	for v := 1; v <= 3; v++ {
		d.Save("p.yaml", d.Generated("p", v))
		d.Runs("p", v)
	}
	d.Wait("a failure", func() bool { return failures() > 0 })
	d.Must(os.Remove(d.Path("conduit.db.status")))
	d.deploy("p.yaml", d.Generated("p", 10_000))
	if n := failures(); n != 1 {
		t.Errorf("it was logged %d times", n)
	}
	d.Wait("the all-clear", func() bool { return strings.Contains(d.Log(), "status files can be written again") })
}

// However many changes there are, the status files of other pipeline files are not written again.
func TestStatusFilesAreNotWrittenAllTheTime(t *testing.T) {
	t.Parallel()
	const pipelines = 30
	dir := crowd(t, pipelines)
	status := filepath.Join(dir, "conduit.db.status")
	if err := os.Mkdir(status, 0o700); err != nil {
		t.Fatal(err)
	}
	events, err := fsnotify.NewBufferedWatcher(100_000)
	if err == nil {
		err = events.Add(status)
	}
	if err != nil {
		t.Fatal(err)
	}
	d := deskIn(t, dir, agenttest.ConfirmSoon)
	d.Wait("all to run", allRun(d.Agent.Agent, pipelines))
	for v := 2; v < 50; v++ {
		d.Save("p0000.yaml", d.Generated("p0000", v))
	}
	d.outcome("p0000.yaml", d.Generated("p0000", 49))
	for i := 1; i < pipelines; i++ {
		id := fmt.Sprintf("p%04d", i)
		d.outcome(id+".yaml", d.Generated(id, 1))
	}
	last := filepath.Join(status, "last")
	if err := os.WriteFile(last, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	writes := map[string]int{}
	for ev := range events.Events {
		if ev.Name == last {
			break
		}
		if ev.Op == fsnotify.Create && strings.HasSuffix(ev.Name, ".json") {
			writes[filepath.Base(ev.Name)]++
		}
	}
	_ = events.Close()
	if len(writes) != pipelines {
		t.Errorf("%d status files, want %d", len(writes), pipelines)
	}
	for name, n := range writes {
		if name != "p0000.yaml.json" && n > 5 {
			t.Errorf("%s was written %d times", name, n)
		}
	}
}
