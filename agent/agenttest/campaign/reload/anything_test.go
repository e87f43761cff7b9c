package reload_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
	"github.com/conduit-agent/conduit/agent/config"
)

// operator makes random changes to the files, and knows the expected state.
type operator struct {
	*agenttest.Desk
	*rand.Rand
	agenttest.Model
	made int // newest version
	done []string
}

func (o *operator) pick(choices ...string) string { return choices[o.IntN(len(choices))] }

// anyFile is the name of a file, which may not exist.
func (o *operator) anyFile() string { return o.pick("a.yaml", "b.yaml", "c.yml") }

// present is the name of an existing file, or "".
func (o *operator) present() string {
	names := slices.Sorted(maps.Keys(o.Files))
	names = slices.DeleteFunc(names, func(n string) bool { return n == "keep.yaml" })
	if len(names) == 0 {
		return ""
	}
	return o.pick(names...)
}

// randomContent makes content in which each pipeline is absent, as declared, or in a new version.
func (o *operator) randomContent() (*agenttest.ModelContent, string) {
	c, docs := &agenttest.ModelContent{Says: map[string]agenttest.ModelVersion{}}, []string{agenttest.Nothing}
	for _, id := range []string{"p", "q", "r"} {
		d := o.Model.Declared[id]
		switch o.IntN(3) {
		case 0:
			o.made++
			c.Says[id] = agenttest.ModelVersion{In: o.made}
		case 1:
			if d != nil {
				c.Says[id] = d.ModelVersion
			}
		}
		if v, ok := c.Says[id]; ok {
			docs = append(docs, o.Desk.Generated(id, v.In))
		}
	}
	return c, strings.Join(docs, "---\n")
}

// act makes one change to the files.
func (o *operator) act() {
	name := o.anyFile()
	switch what := o.pick("save", "save", "save", "write", "write", "break", "empty", "delete", "rename", "touch",
		"chmod"); what {
	case "save", "write":
		c, text := o.randomContent()
		if what == "save" {
			o.Save(name, text)
		} else {
			o.Write(name, text)
		}
		o.did(what, name, fmt.Sprint(c))
		o.Files[name] = c
	case "break", "empty":
		text := map[string]string{"break": "version: \"2.2\"\npipelines: [", "empty": ""}[what]
		o.Write(name, text)
		o.did(what, name)
		o.Files[name] = &agenttest.ModelContent{Broken: true, Empty: text == ""}
	case "delete", "rename", "touch", "chmod":
		if name = o.present(); name != "" {
			o.change(what, name)
		}
	}
}

// change changes an existing file.
func (o *operator) change(what, name string) {
	to := o.anyFile()
	o.did(what, name, to)
	switch what {
	case "delete":
		o.Remove(name)
		delete(o.Files, name)
	case "rename":
		o.Rename(name, to)
		c := o.Files[name]
		delete(o.Files, name)
		o.Files[to] = c
	case "touch":
		o.Must(os.Chtimes(o.File(name), time.Time{}, time.Now()))
	case "chmod":
		o.Must(os.Chmod(o.File(name), 0o600))
	}
}

func (o *operator) did(words ...string) { o.done = append(o.done, strings.Join(words, " ")) }

// moment returns the size of the output of pipeline clock, in bytes, after which an event happens: 0 in one of three
// cases, otherwise a random number below the bound.
func (o *operator) moment(bound int64) int64 {
	if o.IntN(3) == 0 {
		return 0
	}
	return o.Int64N(bound)
}

// step performs one action while the agent runs, is down, or is about to be killed.
func (o *operator) step(t *testing.T) {
	switch o.IntN(8) {
	case 0:
		o.did("down:")
		o.Desk = o.Again(o.act, longDeletionGrace)
	case 1:
		o.did("killed:")
		o.Stop()
		p := process.Start(t, o.Desk.Dir)
		clock := o.Path("clock.jsonl")
		p.AwaitBytes(t, clock, o.moment(8000))
		o.act()
		p.AwaitBytes(t, clock, o.moment(5000))
		p.Kill()
		o.Desk = agenttest.DeskIn(t, o.Desk.Dir, longDeletionGrace)
	default:
		before := map[string]agenttest.ModelIntent{}
		for id, d := range o.Model.Declared {
			before[id] = *d
		}
		starts := map[string]int{"p": o.Starts("p"), "q": o.Starts("q"), "r": o.Starts("r")}
		o.act()
		o.check()
		for id, d := range o.Model.Declared {
			if b := before[id]; b.ModelVersion == d.ModelVersion && b.Wants() && d.Wants() &&
				o.Starts(id) != starts[id] {
				t.Errorf("%s was restarted for nothing", id)
			}
		}
		return
	}
	o.check()
}

// check compares the state of the agent with the expected state.
func (o *operator) check() {
	o.Model.Scan(time.Now())
	for _, name := range slices.Sorted(maps.Keys(o.Files)) {
		if o.Files[name].Broken {
			o.Wait(name+" to be refused", func() bool {
				text := o.Problems(name)
				return strings.Contains(text, "YAML") || strings.Contains(text, "the file is empty")
			})
		}
	}
	o.Desk.Scan()
	for _, id := range []string{"p", "q", "r"} {
		switch d := o.Model.Declared[id]; {
		case d == nil:
			if have := o.Desk.Declared(id); have.Generation != 0 {
				o.T.Errorf("%s is declared in %s, and should not be", id, have.Owner.Path)
			}
		case !d.Withdrawn.IsZero():
			o.WaitWithdrawn(id)
		default:
			o.Runs(id, d.In)
			if have := o.Desk.Declared(id); have.Owner.Path != d.Owner {
				o.T.Errorf("%s belongs to %s, want %s", id, have.Owner.Path, d.Owner)
			}
		}
	}
}

func longDeletionGrace(c *config.Config) { c.Pipelines.DeletionGrace = time.Hour }

// Whatever happens to the files and to the agent, the running pipelines match a scan of the files, and nothing else
// restarts.
func TestAnythingMayHappenToTheFiles(t *testing.T) {
	load.Parallel(t, load.Agent)
	n, first := *sequences, *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano() % 1e9)
	} else {
		n = 1
	}
	for i := range n {
		seed := first + uint64(i)
		// Not in parallel: a process that is being started holds the locks of all.
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			dir := agenttest.NewDir(t)
			keep := []byte(agenttest.Generated(dir, "clock", 500, ""))
			if err := os.WriteFile(dir+"/pipelines/keep.yaml", keep, 0o600); err != nil {
				t.Fatal(err)
			}
			o := &operator{Desk: agenttest.DeskIn(t, dir, longDeletionGrace), Rand: rand.New(rand.NewPCG(seed, 0)),
				made:  100,
				Model: agenttest.NewModel()}
			o.Files["keep.yaml"] = &agenttest.ModelContent{}
			defer func() {
				if t.Failed() {
					t.Logf("seed %d: %s", seed, strings.Join(o.done, "; "))
				}
			}()
			for range 15 {
				if o.step(t); t.Failed() {
					return
				}
			}
			o.Stop()
			for _, id := range []string{"clock", "p", "q", "r"} {
				wantNoGap(t, o.Path(id+".jsonl"))
			}
		})
	}
}

// wantNoGap checks that every record is there, though some may be repeated after a kill.
func wantNoGap(t *testing.T, path string) {
	t.Helper()
	last := 0
	for _, n := range whole(t, path) {
		if n > last+1 {
			t.Fatalf("%s: record %d follows %d", path, n, last)
		}
		last = max(last, n)
	}
}

// whole returns the numbers of the complete records in a file, without records that a kill tore.
func whole(t *testing.T, path string) (all []int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if e, err := process.Parse([]byte(line)); err == nil {
			all = append(all, e.Number)
		}
	}
	return all
}
