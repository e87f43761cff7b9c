package e2e_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/spec"
)

// When saves come faster than pipelines can restart, versions are skipped and the last one runs.
func TestFlappingEndsWithTheLastVersion(t *testing.T) {
	t.Parallel()
	savers := map[string]func(d *desk, v int){
		"renamed into place": func(d *desk, v int) { d.Save("p.yaml", d.Generated("p", v)) },
		"written in place":   func(d *desk, v int) { d.Write("p.yaml", d.Generated("p", v)) },
		"good and bad in turn": func(d *desk, v int) {
			if v%2 == 1 {
				d.Save("p.yaml", "version: [")
				return
			}
			d.Save("p.yaml", d.Generated("p", v))
		},
		"there and gone": func(d *desk, v int) {
			_ = os.Remove(d.File("p.yaml"))
			if v%2 == 0 {
				d.Save("p.yaml", d.Generated("p", v))
			}
		},
		"stopped and running": func(d *desk, v int) {
			d.Save("p.yaml", agenttest.Generated(d.Dir, "p", v, "status: "+[]string{"running", "stopped"}[v%2]))
		},
	}
	const last = 200
	for name, save := range savers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := atDesk(t)
			for v := 2; v <= last; v++ {
				save(d, v)
			}
			d.Runs("p", last)
			d.Scan()
			d.Runs("p", last)
			d.WantStarts("q", 1)
			d.Stop()
			agenttest.WantConsecutive(t, agenttest.Numbers(t, d.Path("p.jsonl")))
		})
	}
}

// A change that arrives during the shutdown of the agent takes effect at the next start.
func TestChangedWhileTheAgentStops(t *testing.T) {
	t.Parallel()
	d := atDesk(t)
	for v := 2; v < 6; v++ {
		saved := make(chan struct{})
		go func() {
			defer close(saved)
			d.Save("p.yaml", d.Generated("p", v))
		}()
		d = d.again(func() { <-saved })
		d.Runs("p", v)
		d.Runs("q", 1)
	}
	d.Stop()
	agenttest.WantConsecutive(t, agenttest.Numbers(t, d.Path("p.jsonl")))
}

// The agent dies between recording a change and applying it: the next start applies it.
func TestCrashBetweenSavedAndApplied(t *testing.T) {
	t.Parallel()
	d := atDesk(t)
	d = d.again(func() {
		db, err := store.Open(context.Background(), d.Path("conduit.db"))
		d.Must(err)
		all, err := db.Declarations(context.Background())
		d.Must(err)
		p := *all[0].Pipeline.Clone()
		p.Connectors[0].Settings["rate"] = "2"
		d.Must(db.Apply(context.Background(),
			&spec.Changes{Declare: []spec.Declare{{Pipeline: p, Owner: all[0].Owner}}}))
		d.Must(db.Close())
		d.Write("p.yaml", d.Generated("p", 2))
	})
	d.Runs("p", 2)
	d.WantStarts("p", 1)
	if g := d.Declared("p").Generation; g != 2 {
		t.Errorf("generation %d, want 2", g)
	}
}

// A version that fails to start is not retried until the file is edited.
func TestRefusedVersionsWaitForAnEdit(t *testing.T) {
	t.Parallel()
	d := atDesk(t)
	attempts := func() int { return strings.Count(d.Log(), "cannot update the pipeline") }
	d.Save("p.yaml", agenttest.Generated(d.Dir+"/missing", "p", 2, ""))
	d.Wait("the rollback", func() bool { return d.State("p").RunningGeneration == 1 && attempts() == 1 })
	d.Save("p.yaml", "# a comment\n"+agenttest.Generated(d.Dir+"/missing", "p", 2, ""))
	d.Save("q.yaml", d.Generated("q", 2))
	d.Runs("q", 2)
	d.Scan()
	if n := attempts(); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
	d.Must(os.Mkdir(d.Path("missing"), 0o755))
	d.Save("p.yaml", agenttest.Generated(d.Dir+"/missing", "p", 3, ""))
	d.Runs("p", 3)
}

// Neither the new version nor the last known good one can start: the pipeline keeps retrying, no other pipeline is
// affected, and it recovers as soon as either version can start.
func TestTheRollbackFailsToo(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "")
	old, new := d.Path("old"), d.Path("new")
	d.Must(os.Mkdir(old, 0o755))
	d.Save("p.yaml", agenttest.Generated(old, "p", 1, ""))
	d.Save("q.yaml", d.Generated("q", 1))
	d.Runs("p", 1)
	d.Runs("q", 1)
	d.Must(os.Rename(old, old+".away"))
	d.Save("p.yaml", agenttest.Generated(new, "p", 2, ""))
	d.Wait("both to fail", func() bool {
		return d.State("p").Phase == spec.PhaseRecovering && d.State("p").Failures > 1
	})
	d.Must(os.Rename(old+".away", old))
	d.Wait("the old one to run", func() bool {
		s := d.State("p")
		return s.Phase == spec.PhaseRunning && s.RunningGeneration == 1
	})
	d.Must(os.Mkdir(new, 0o755))
	d.Save("p.yaml", agenttest.Generated(new, "p", 3, ""))
	d.Runs("p", 3)
	d.WantStarts("q", 1)
}

// With hold, a failed version stays the desired one, and runs as soon as its missing dependency exists.
func TestHeldVersionsAreRetried(t *testing.T) {
	t.Parallel()
	d := atDesk(t, func(c *config.Config) { c.Pipelines.OnFailedUpdate = "hold" })
	d.Save("p.yaml", agenttest.Generated(d.Path("later"), "p", 2, ""))
	d.Wait("its failure", func() bool { return d.State("p").Phase == spec.PhaseRecovering })
	d.Must(os.Mkdir(d.Path("later"), 0o755))
	d.Runs("p", 2)
}

// A pipeline that waits for its next attempt can be stopped, edited and deleted.
func TestRecoveringPipelinesObey(t *testing.T) {
	wishes := map[string]func(d *desk, bad string){
		"stopped": func(d *desk, bad string) {
			d.Save("p.yaml", agenttest.Generated(bad, "p", 1, "status: stopped"))
			d.Stopped("p")
		},
		"edited":  func(d *desk, _ string) { d.Save("p.yaml", d.Generated("p", 2)); d.Runs("p", 2) },
		"deleted": func(d *desk, _ string) { d.Remove("p.yaml"); d.WaitWithdrawn("p"); d.Stopped("p") },
	}
	for name, wish := range wishes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deskIn(t, "", agenttest.ShortGrace, func(c *config.Config) {
				c.Pipelines.ErrorRecovery.MinDelay = time.Hour
			})
			bad := d.Path("missing")
			d.Save("p.yaml", agenttest.Generated(bad, "p", 1, ""))
			d.Save("q.yaml", d.Generated("q", 1))
			d.Wait("its failure", func() bool { return d.State("p").Phase == spec.PhaseRecovering })
			wish(d, bad)
			d.WantStarts("q", 1)
		})
	}
}

// A change that restarts sources from the beginning causes a warning; no other change does.
func TestLostPositionsAreReported(t *testing.T) {
	t.Parallel()
	changes := map[string]struct {
		save func(d *desk)
		want map[string]int // warnings by reason
	}{
		"the id": {func(d *desk) {
			d.Save("p.yaml", strings.Replace(d.Generated("p", 1), "id: p\n", "id: r\n", 1))
		}, map[string]int{"LooksRenamed": 1}},
		"the id and the file": {func(d *desk) {
			d.Remove("p.yaml")
			d.WaitWithdrawn("p")
			d.Save("r.yaml", strings.Replace(d.Generated("p", 1), "id: p\n", "id: r\n    name: other\n", 1))
		}, map[string]int{"LooksRenamed": 1}},
		"the file": {func(d *desk) { d.Rename("p.yaml", "r.yaml") }, nil},
		"another pipeline, added": {func(d *desk) {
			d.Save("r.yaml", strings.Replace(d.Generated("p", 1), "id: p\n", "id: r\n", 1))
		}, nil},
		"another pipeline, instead": {func(d *desk) { d.Save("p.yaml", d.Generated("r", 2)) }, nil},
		"the id of a source": {func(d *desk) {
			d.Save("p.yaml", strings.Replace(d.Generated("p", 2), "id: src", "id: other", 1))
		}, map[string]int{"PositionLost": 1}},
		"a source that is a destination now": {func(d *desk) {
			d.Save("p.yaml", strings.NewReplacer("id: src", "id: was-dst", "id: dst",
				"id: src").Replace(d.Generated("p", 2)))
		}, map[string]int{"PositionLost": 1}},
		"the plugin of a source": {func(d *desk) {
			d.Save("p.yaml", strings.Replace(d.Generated("p", 1),
				"plugin: builtin:generator\n        settings: {rate: 1, format.type: structured, format.options.n: "+
					"int}",
				"plugin: builtin:file\n        settings: {path: "+d.Path("in")+"}", 1))
		}, map[string]int{"PositionLost": 1}},
		"how the plugin is called": {func(d *desk) {
			d.Save("p.yaml", strings.Replace(d.Generated("p", 2), "builtin:generator", "generator", 1))
		}, nil},
		"the plugin of a destination": {func(d *desk) {
			d.Save("p.yaml", strings.Replace(d.Generated("p", 2),
				"builtin:file\n        settings: {path: \""+d.Path("p.jsonl")+"\"}", "builtin:log", 1))
		}, nil},
	}
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := atDesk(t)
			c.save(d)
			d.Scan()
			d.Wait("p to be as declared", func() bool {
				decl := d.Declared("p")
				return !decl.Withdrawn.IsZero() || d.State("p").RunningGeneration == decl.Generation
			})
			d.Stop() // the log is complete
			for _, reason := range []string{"LooksRenamed", "PositionLost"} {
				warned := regexp.MustCompile(`"level":"WARN".*"reason":"` + reason + `"`)
				if n := len(warned.FindAllString(d.Log(), -1)); n != c.want[reason] {
					t.Errorf("%s was reported %d times, want %d", reason, n, c.want[reason])
				}
			}
		})
	}
}
