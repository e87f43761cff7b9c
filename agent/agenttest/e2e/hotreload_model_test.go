package e2e_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/agent/config"
)

// operator does things to the files at random, and knows what has to come of it.
type operator struct {
	*desk
	*rand.Rand
	model
	made int // version made last
	done []string
}

func (o *operator) pick(of ...string) string { return of[o.IntN(len(of))] }

// anyFile is the name of a file, there or not.
func (o *operator) anyFile() string { return o.pick("a.yaml", "b.yaml", "c.yml") }

// present is the name of a file that is there, or "".
func (o *operator) present() string {
	names := slices.Sorted(maps.Keys(o.files))
	names = slices.DeleteFunc(names, func(n string) bool { return n == "keep.yaml" })
	if len(names) == 0 {
		return ""
	}
	return o.pick(names...)
}

// randomContent makes content: each pipeline absent, as declared, or in a new version.
func (o *operator) randomContent() (*content, string) {
	c, docs := &content{says: map[string]version{}}, []string{nothing}
	for _, id := range []string{"p", "q", "r"} {
		d := o.model.declared[id]
		switch o.IntN(3) {
		case 0:
			o.made++
			c.says[id] = version{in: o.made}
		case 1:
			if d != nil {
				c.says[id] = d.version
			}
		}
		if v, ok := c.says[id]; ok {
			docs = append(docs, o.desk.made(id, v.in))
		}
	}
	return c, strings.Join(docs, "---\n")
}

// act does one thing to the files.
func (o *operator) act() {
	name := o.anyFile()
	switch what := o.pick("save", "save", "save", "write", "write", "break", "empty", "delete", "rename", "touch", "chmod"); what {
	case "save", "write":
		c, text := o.randomContent()
		if what == "save" {
			o.Save(name, text)
		} else {
			o.write(name, text)
		}
		o.did(what, name, fmt.Sprint(c))
		o.files[name] = c
	case "break", "empty":
		text := map[string]string{"break": "version: \"2.2\"\npipelines: [", "empty": ""}[what]
		o.write(name, text)
		o.did(what, name)
		o.files[name] = &content{broken: true, empty: text == ""}
	case "delete", "rename", "touch", "chmod":
		if name = o.present(); name != "" {
			o.change(what, name)
		}
	}
}

// change does something to a file that is there.
func (o *operator) change(what, name string) {
	to := o.anyFile()
	o.did(what, name, to)
	switch what {
	case "delete":
		o.remove(name)
		delete(o.files, name)
	case "rename":
		o.rename(name, to)
		c := o.files[name]
		delete(o.files, name)
		o.files[to] = c
	case "touch":
		o.must(os.Chtimes(o.path(name), time.Time{}, time.Now()))
	case "chmod":
		o.must(os.Chmod(o.path(name), 0o600))
	}
}

func (o *operator) did(words ...string) { o.done = append(o.done, strings.Join(words, " ")) }

// moment returns after how many bytes of the pipeline clock something happens: at once, every third
// time, or any number below the bound.
func (o *operator) moment(bound int64) int64 {
	if o.IntN(3) == 0 {
		return 0
	}
	return o.Int64N(bound)
}

// step does one thing while the agent runs, is down, or is about to be killed.
func (o *operator) step(t *testing.T) {
	switch o.IntN(8) {
	case 0:
		o.did("down:")
		o.desk = o.again(o.act, longDeletionGrace)
	case 1:
		o.did("killed:")
		o.Stop()
		p := startProcess(t, o.Dir)
		clock := o.Path("clock.jsonl")
		p.awaitBytes(t, clock, o.moment(8000))
		o.act()
		p.awaitBytes(t, clock, o.moment(5000))
		p.kill()
		o.desk = deskIn(t, o.Dir, longDeletionGrace)
	default:
		before := map[string]intent{}
		for id, d := range o.model.declared {
			before[id] = *d
		}
		starts := map[string]int{"p": o.starts("p"), "q": o.starts("q"), "r": o.starts("r")}
		o.act()
		o.check()
		for id, d := range o.model.declared {
			if b := before[id]; b.version == d.version && b.wants() && d.wants() && o.starts(id) != starts[id] {
				t.Errorf("%s was restarted for nothing", id)
			}
		}
		return
	}
	o.check()
}

// check compares what the agent makes of the files with what it has to.
func (o *operator) check() {
	o.scan(time.Now())
	for _, name := range slices.Sorted(maps.Keys(o.files)) {
		if o.files[name].broken {
			o.Wait(name+" to be refused", func() bool {
				text := o.problems(name)
				return strings.Contains(text, "YAML") || strings.Contains(text, "the file is empty")
			})
		}
	}
	o.scanned()
	for _, id := range []string{"p", "q", "r"} {
		switch d := o.model.declared[id]; {
		case d == nil:
			if have := o.desk.declared(id); have.Generation != 0 {
				o.t.Errorf("%s is declared in %s, and should not be", id, have.Owner.Path)
			}
		case !d.withdrawn.IsZero():
			o.withdrawn(id)
		default:
			o.runs(id, d.in)
			if have := o.desk.declared(id); have.Owner.Path != d.owner {
				o.t.Errorf("%s belongs to %s, want %s", id, have.Owner.Path, d.owner)
			}
		}
	}
}

func longDeletionGrace(c *config.Config) { c.Pipelines.DeletionGrace = time.Hour }

// Whatever happens to the files and to the agent, what runs is what a scan of the
// files shows, and nothing else restarts. CONDUIT_SEQUENCES sets how many sequences of
// events are tried, 6 by default in CI and 3 elsewhere, CONDUIT_SEED the one to repeat.
func TestAnythingMayHappenToTheFiles(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	sequences := 3
	switch {
	case effort.Thorough():
		sequences = 6
	case effort.Brief():
		sequences = 1
	}
	sequences, first := setting(t, "CONDUIT_SEQUENCES", sequences), setting(t, "CONDUIT_SEED", 0)
	if first == 0 {
		first = int(time.Now().UnixNano() % 1e9)
	} else {
		sequences = 1
	}
	for i := range sequences {
		seed := uint64(first + i)
		// Not in parallel: a process that is just being started holds the locks of all.
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			dir := agenttest.NewDir(t)
			if err := os.WriteFile(dir+"/pipelines/keep.yaml", []byte(made(dir, "clock", 500, "")), 0o600); err != nil {
				t.Fatal(err)
			}
			o := &operator{desk: deskIn(t, dir, longDeletionGrace), Rand: rand.New(rand.NewPCG(seed, 0)), made: 100, model: newModel()}
			o.files["keep.yaml"] = &content{}
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

// setting is a number from the environment.
func setting(t *testing.T, variable string, otherwise int) int {
	s := os.Getenv(variable)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
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

// whole returns the numbers of the records in a file, leaving out what a kill tore.
func whole(t *testing.T, path string) (all []int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if e, err := parse([]byte(line)); err == nil {
			all = append(all, e.number)
		}
	}
	return all
}
