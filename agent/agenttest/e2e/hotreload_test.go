package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

// desk is an agent that runs version 1 of the pipelines p and q, from a file each, and
// a user who edits these files. The rate of the generator stands for the version.
type desk struct {
	*agenttest.Agent
	t *testing.T
}

func atDesk(t *testing.T, change ...func(*config.Config)) *desk {
	t.Helper()
	d := deskIn(t, "", change...)
	d.Save("p.yaml", d.made("p", 1))
	d.Save("q.yaml", d.made("q", 1))
	d.runs("p", 1)
	d.runs("q", 1)
	return d
}

// withRecords is the same with a pipeline p that has written records.
func withRecords(t *testing.T, change ...func(*config.Config)) *desk {
	t.Helper()
	d := atDesk(t, change...)
	d.Save("p.yaml", d.made("p", 1000))
	d.Wait("records", func() bool { return len(numbers(t, d.Path("p.jsonl"))) > 5 })
	return d
}

// deskIn starts an agent in dir as it is.
func deskIn(t *testing.T, dir string, change ...func(*config.Config)) *desk {
	t.Helper()
	return &desk{agenttest.Start(t, dir, change...), t}
}

// again restarts the agent after something happened.
func (d *desk) again(meanwhile func(), change ...func(*config.Config)) *desk {
	d.t.Helper()
	d.Stop()
	meanwhile()
	return deskIn(d.t, d.Dir, change...)
}

func (d *desk) made(id string, version int) string { return made(d.Dir, id, version, "") }

// path returns the path of a pipeline file.
func (d *desk) path(name string) string { return d.Path(filepath.Join("pipelines", name)) }

func (d *desk) write(name, content string) {
	d.t.Helper()
	d.must(os.WriteFile(d.path(name), []byte(content), 0o644))
}

func (d *desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) rename(from, to string) {
	d.t.Helper()
	d.must(os.Rename(d.path(from), d.path(to)))
}

func (d *desk) remove(name string) {
	d.t.Helper()
	d.must(os.Remove(d.path(name)))
}

// declared returns the desired state of a pipeline, the zero value if there is none.
func (d *desk) declared(id string) spec.Declaration {
	d.t.Helper()
	all, err := d.Store.Declarations(d.t.Context())
	d.must(err)
	for _, decl := range all {
		if decl.Pipeline.ID == id {
			return decl
		}
	}
	return spec.Declaration{}
}

// problems returns what is wrong with a pipeline file, one line each.
func (d *desk) problems(name string) string {
	d.t.Helper()
	all, err := d.Store.FileStates(d.t.Context())
	d.must(err)
	var b strings.Builder
	for _, f := range all {
		for _, p := range f.Problems {
			if f.Path == name {
				fmt.Fprintf(&b, "%s:%d: %s\n", p.File, p.Line, p.Message)
			}
		}
	}
	return b.String()
}

// runs waits until what runs of a pipeline is what is declared, and that is a version.
func (d *desk) runs(id string, version int) {
	d.t.Helper()
	d.Wait(fmt.Sprintf("version %d of %s to run", version, id), func() bool {
		decl, s := d.declared(id), d.State(id)
		return decl.Generation != 0 && decl.Withdrawn.IsZero() && decl.Pipeline.Connectors[0].Settings["rate"] == strconv.Itoa(version) &&
			s.Phase == spec.PhaseRunning && s.RunningGeneration == decl.Generation
	})
}

// stopped waits until nothing of a pipeline runs.
func (d *desk) stopped(id string) {
	d.t.Helper()
	d.Wait(id+" to stop", func() bool { s := d.State(id); return s.RunningGeneration == 0 && s.Phase == spec.PhaseStopped })
}

// withdrawn waits until it was noticed that no file declares a pipeline.
func (d *desk) withdrawn(id string) {
	d.t.Helper()
	d.Wait(id+" to be withdrawn", func() bool { return !d.declared(id).Withdrawn.IsZero() })
}

// waitProblem waits until the problems of a file contain text.
func (d *desk) waitProblem(name, text string) {
	d.t.Helper()
	d.Wait("a problem with "+name+": "+text, func() bool { return strings.Contains(d.problems(name), text) })
}

// scanned returns after everything that was saved by now has been taken in.
func (d *desk) scanned() {
	d.t.Helper()
	d.must(d.Files.Reload(d.t.Context(), false))
}

// starts returns how often a pipeline was started.
func (d *desk) starts(id string) int {
	times := 0
	for _, message := range []string{"pipeline runs", "pipeline runs again, rolled back to the last known good version"} {
		times += strings.Count(d.Log(), fmt.Sprintf(`"msg":%q,"component":"reconcile","pipeline_id":%q`, message, id))
	}
	return times
}

// started checks how often a pipeline was started, after all that was saved was taken in.
func (d *desk) started(id string, times int) {
	d.t.Helper()
	d.scanned()
	decl := d.declared(id)
	d.Wait(id+" to be as declared", func() bool { return d.State(id).RunningGeneration == decl.Generation })
	if n := d.starts(id); n != times {
		d.t.Errorf("%s was started %d times, want %d", id, n, times)
	}
}

// waysToSaveCases are the cases of TestWaysToSave.
var waysToSaveCases = map[string]func(d *desk){
	"vim, with a backup": func(d *desk) {
		d.write(".p.yaml.swp", "swap")
		d.write("4913", "")
		d.remove("4913")
		d.rename("p.yaml", "p.yaml~")
		d.write("p.yaml", d.made("p", 2))
		d.remove("p.yaml~")
		d.remove(".p.yaml.swp")
	},
	"vim, slowly": func(d *desk) {
		d.rename("p.yaml", "p.yaml~")
		d.withdrawn("p")
		d.write("p.yaml", d.made("p", 2))
	},
	"emacs": func(d *desk) {
		d.must(os.Symlink("me@host.1:2", d.path(".#p.yaml")))
		d.write("#p.yaml#", "autosaved")
		d.rename("p.yaml", "p.yaml~")
		d.write("p.yaml", d.made("p", 2))
		d.remove(".#p.yaml")
		d.remove("#p.yaml#")
	},
	"VS Code, in place": func(d *desk) { d.write("p.yaml", d.made("p", 2)) },
	"truncated for a while": func(d *desk) {
		d.write("p.yaml", "")
		d.waitProblem("p.yaml", "the file is empty")
		d.write("p.yaml", d.made("p", 2))
	},
	"in pieces": func(d *desk) {
		text := d.made("p", 2)
		for i := 40; i < len(text); i += 40 {
			d.write("p.yaml", text[:i])
		}
		d.write("p.yaml", text)
	},
	"half of it, and after a while the rest": func(d *desk) {
		text := d.made("p", 2)
		d.write("p.yaml", text[:strings.Index(text, "settings: {rate")+14])
		d.waitProblem("p.yaml", "YAML")
		d.write("p.yaml", text)
	},
	"ansible": func(d *desk) {
		d.write(".ansible_tmpn4p_xap.yaml", d.made("p", 2))
		d.must(os.Chmod(d.path(".ansible_tmpn4p_xap.yaml"), 0o640))
		d.rename(".ansible_tmpn4p_xap.yaml", "p.yaml")
	},
	"mv from elsewhere": func(d *desk) {
		d.must(os.WriteFile(d.Path("new"), []byte(d.made("p", 2)), 0o600))
		d.must(os.Rename(d.Path("new"), d.path("p.yaml")))
	},
	"rsync": func(d *desk) {
		d.write(".p.yaml.Xq1b2c", d.made("p", 2))
		past := time.Now().Add(-time.Hour)
		d.must(os.Chtimes(d.path(".p.yaml.Xq1b2c"), past, past))
		d.rename(".p.yaml.Xq1b2c", "p.yaml")
	},
	"a backup restored, with its old time": func(d *desk) {
		past := time.Now().Add(-1000 * time.Hour)
		d.write("p.yaml", d.made("p", 2))
		d.must(os.Chtimes(d.path("p.yaml"), past, past))
	},
	"git checkout": func(d *desk) {
		for i := range 20 {
			d.write(fmt.Sprintf("more-%d.yaml", i), "version: \"2.2\"\npipelines: []\n")
		}
		d.remove("p.yaml")
		d.write("p.yaml", d.made("p", 2))
		d.remove("q.yaml")
		d.write("q.yaml", d.made("q", 1))
	},
	"deleted and recreated": func(d *desk) {
		d.remove("p.yaml")
		d.withdrawn("p")
		d.Save("p.yaml", d.made("p", 2))
	},
	"while something else writes all the time": func(d *desk) {
		for i := range 50 {
			d.write("noise.txt", strconv.Itoa(i))
			d.write(".noise.yaml", strconv.Itoa(i))
		}
		d.write("p.yaml", d.made("p", 2))
	},
	"with CRLF and a byte order mark": func(d *desk) {
		d.Save("p.yaml", "\ufeff"+strings.ReplaceAll(d.made("p", 2), "\n", "\r\n"))
	},
	"UTF-16, and then as it should be": func(d *desk) {
		d.Save("p.yaml", "\xff\xfev\x00e\x00r\x00")
		d.waitProblem("p.yaml", "UTF-16")
		d.Save("p.yaml", d.made("p", 2))
	},
	"with NUL bytes where it was not written yet": func(d *desk) {
		text := d.made("p", 2)
		d.Save("p.yaml", text[:100]+strings.Repeat("\x00", len(text)-100))
		d.waitProblem("p.yaml", "NUL")
		d.Save("p.yaml", text)
	},
	"a FIFO in its place for a while": func(d *desk) {
		d.remove("p.yaml")
		d.must(mkfifo(d.path("p.yaml")))
		d.waitProblem("p.yaml", "not a regular file")
		d.remove("p.yaml")
		d.write("p.yaml", d.made("p", 2))
	},
	"too large for a while": func(d *desk) {
		d.write("p.yaml", strings.Repeat("#", 1<<20+1))
		d.waitProblem("p.yaml", "larger than 1 MiB")
		d.write("p.yaml", d.made("p", 2))
	},
}

// Whatever a tool does to save a file: one restart of the pipeline in it, with the
// final content, and nothing else.
func TestWaysToSave(t *testing.T) {
	t.Parallel()
	ways := waysToSaveCases
	for name, save := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := atDesk(t)
			save(d)
			d.runs("p", 2)
			d.started("p", 2)
			d.started("q", 1)
			if g := d.declared("p").Generation; g != 2 {
				t.Errorf("generation %d, want 2", g)
			}
			if text := d.problems("p.yaml"); text != "" {
				t.Errorf("problems: %s", text)
			}
			d.Stop()
			wantConsecutive(t, numbers(t, d.Path("p.jsonl")))
		})
	}
}

// savesThatChangeNothingCases are the cases of TestSavesThatChangeNothing.
var savesThatChangeNothingCases = map[string]func(d *desk){
	"touch":                          func(d *desk) { d.must(os.Chtimes(d.path("p.yaml"), time.Now(), time.Now())) },
	"chmod":                          func(d *desk) { d.must(os.Chmod(d.path("p.yaml"), 0o600)) },
	"the same bytes":                 func(d *desk) { d.write("p.yaml", d.made("p", 1)) },
	"the same bytes in another file": func(d *desk) { d.Save("p.yaml", d.made("p", 1)) },
	"a comment":                      func(d *desk) { d.Save("p.yaml", "# why\n"+d.made("p", 1)) },
	"a name and a description": func(d *desk) {
		d.Save("p.yaml", made(d.Dir, "p", 1, "name: other\n    description: text"))
		d.Wait("the new name", func() bool { return d.declared("p").Pipeline.Name == "other" })
	},
	"the order of keys": func(d *desk) {
		d.Save("p.yaml", strings.Replace(d.made("p", 1), "rate: 1, format.type: structured", "format.type: structured, rate: 1", 1))
	},
	"other files, editors' files and directories": func(d *desk) {
		d.write("notes.txt", d.made("x", 1))
		d.write("p.yaml.bak", d.made("x", 1))
		d.write("p.yaml~", d.made("x", 1))
		d.write(".hidden.yaml", d.made("x", 1))
		d.must(os.Mkdir(d.path("sub"), 0o755))
		d.write("sub/p.yaml", d.made("x", 1))
	},
	"renamed": func(d *desk) {
		d.rename("p.yaml", "other.yml")
		d.Wait("the new owner", func() bool { return d.declared("p").Owner.Path == "other.yml" })
	},
	"moved, the new place first": func(d *desk) {
		d.Save("r.yaml", d.made("p", 1))
		d.waitProblem("r.yaml", "declared in p.yaml already")
		d.Save("p.yaml", "version: \"2.2\"\npipelines: []\n")
		d.Wait("the new owner, without problems", func() bool { return d.declared("p").Owner.Path == "r.yaml" && d.problems("r.yaml") == "" })
	},
	"moved, the old place first": func(d *desk) {
		d.Save("p.yaml", "version: \"2.2\"\npipelines: []\n")
		d.withdrawn("p")
		d.Save("r.yaml", d.made("p", 1))
		d.Wait("the new owner", func() bool { return d.declared("p").Owner.Path == "r.yaml" })
	},
	"a second file with the same id": func(d *desk) {
		d.Save("a.yaml", d.made("p", 2)) // before p.yaml in every order
		d.waitProblem("a.yaml", "declared in p.yaml already")
		d.Save("p.yaml", d.made("p", 1)+"# saved again\n")
	},
	"the same id twice in the file": func(d *desk) {
		d.Save("p.yaml", d.made("p", 2)+"---\n"+d.made("p", 3))
		d.waitProblem("p.yaml", "twice")
	},
	"gone within the grace": func(d *desk) {
		d.rename("p.yaml", "p.off")
		d.withdrawn("p")
		d.rename("p.off", "p.yaml")
		d.Wait("its return", func() bool { return d.declared("p").Withdrawn.IsZero() })
	},
	"unreadable": func(d *desk) {
		d.remove("p.yaml")
		d.must(os.Mkdir(d.path("p.yaml"), 0o755))
		d.waitProblem("p.yaml", "not a regular file")
	},
	"a link in a loop": func(d *desk) {
		d.remove("p.yaml")
		d.must(os.Symlink("p.yaml", d.path("p.yaml")))
		d.waitProblem("p.yaml", "cannot read")
	},
	"a link to outside": func(d *desk) {
		d.must(os.WriteFile(d.Path("outside"), []byte(d.made("p", 2)), 0o600))
		d.remove("p.yaml")
		d.must(os.Symlink(d.Path("outside"), d.path("p.yaml")))
		d.waitProblem("p.yaml", "cannot read")
	},
}

// What changes nothing that matters restarts nothing.
func TestSavesThatChangeNothing(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	saves := savesThatChangeNothingCases
	for name, save := range saves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := atDesk(t)
			save(d)
			d.started("p", 1)
			d.started("q", 1)
			if p := d.declared("p"); p.Generation != 1 || !p.Withdrawn.IsZero() {
				t.Errorf("declared: %+v", p)
			}
		})
	}
}

// TestChangeThatIsTakenBackAtOnce saves a change and what was there before within the time of a
// debounce. A scan for another reason may come in between and see the change, more so on a busy
// machine: then it is tried again with another agent.
func TestChangeThatIsTakenBackAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		d := atDesk(t)
		d.write("p.yaml", d.made("p", 2))
		d.write("p.yaml", d.made("p", 1))
		d.scanned()
		if d.declared("p").Generation > 1 {
			d.Stop()
			continue
		}
		d.started("p", 1)
		d.started("q", 1)
		return
	}
	t.Error("the change was seen each of 20 times")
}
