package e2e_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
)

// withRecords is the same with a pipeline p that has written records.
func withRecords(t *testing.T, change ...func(*config.Config)) *desk {
	t.Helper()
	d := atDesk(t, change...)
	d.Save("p.yaml", d.Generated("p", 1000))
	d.Wait("records", func() bool { return agenttest.LinesIn(t, d.Path("p.jsonl")) > 5 })
	return d
}

// waysToSaveCases are the cases of TestWaysToSave.
var waysToSaveCases = map[string]func(d *desk){
	"vim, with a backup": func(d *desk) {
		d.Write(".p.yaml.swp", "swap")
		d.Write("4913", "")
		d.Remove("4913")
		d.Rename("p.yaml", "p.yaml~")
		d.Write("p.yaml", d.Generated("p", 2))
		d.Remove("p.yaml~")
		d.Remove(".p.yaml.swp")
	},
	"vim, slowly": func(d *desk) {
		d.Rename("p.yaml", "p.yaml~")
		d.WaitWithdrawn("p")
		d.Write("p.yaml", d.Generated("p", 2))
	},
	"emacs": func(d *desk) {
		d.Must(os.Symlink("me@host.1:2", d.File(".#p.yaml")))
		d.Write("#p.yaml#", "autosaved")
		d.Rename("p.yaml", "p.yaml~")
		d.Write("p.yaml", d.Generated("p", 2))
		d.Remove(".#p.yaml")
		d.Remove("#p.yaml#")
	},
	"VS Code, in place": func(d *desk) { d.Write("p.yaml", d.Generated("p", 2)) },
	"truncated for a while": func(d *desk) {
		d.Write("p.yaml", "")
		d.WaitProblem("p.yaml", "the file is empty")
		d.Write("p.yaml", d.Generated("p", 2))
	},
	"in pieces": func(d *desk) {
		text := d.Generated("p", 2)
		for i := 40; i < len(text); i += 40 {
			d.Write("p.yaml", text[:i])
		}
		d.Write("p.yaml", text)
	},
	"half of it, and after a while the rest": func(d *desk) {
		text := d.Generated("p", 2)
		d.Write("p.yaml", text[:strings.Index(text, "settings: {rate")+14])
		d.WaitProblem("p.yaml", "YAML")
		d.Write("p.yaml", text)
	},
	"ansible": func(d *desk) {
		d.Write(".ansible_tmpn4p_xap.yaml", d.Generated("p", 2))
		d.Must(os.Chmod(d.File(".ansible_tmpn4p_xap.yaml"), 0o640))
		d.Rename(".ansible_tmpn4p_xap.yaml", "p.yaml")
	},
	"mv from elsewhere": func(d *desk) {
		d.Must(os.WriteFile(d.Path("new"), []byte(d.Generated("p", 2)), 0o600))
		d.Must(os.Rename(d.Path("new"), d.File("p.yaml")))
	},
	"rsync": func(d *desk) {
		d.Write(".p.yaml.Xq1b2c", d.Generated("p", 2))
		past := time.Now().Add(-time.Hour)
		d.Must(os.Chtimes(d.File(".p.yaml.Xq1b2c"), past, past))
		d.Rename(".p.yaml.Xq1b2c", "p.yaml")
	},
	"a backup restored, with its old time": func(d *desk) {
		past := time.Now().Add(-1000 * time.Hour)
		d.Write("p.yaml", d.Generated("p", 2))
		d.Must(os.Chtimes(d.File("p.yaml"), past, past))
	},
	"git checkout": func(d *desk) {
		for i := range 20 {
			d.Write(fmt.Sprintf("more-%d.yaml", i), "version: \"2.2\"\npipelines: []\n")
		}
		d.Remove("p.yaml")
		d.Write("p.yaml", d.Generated("p", 2))
		d.Remove("q.yaml")
		d.Write("q.yaml", d.Generated("q", 1))
	},
	"deleted and recreated": func(d *desk) {
		d.Remove("p.yaml")
		d.WaitWithdrawn("p")
		d.Save("p.yaml", d.Generated("p", 2))
	},
	"while something else writes all the time": func(d *desk) {
		for i := range 50 {
			d.Write("noise.txt", strconv.Itoa(i))
			d.Write(".noise.yaml", strconv.Itoa(i))
		}
		d.Write("p.yaml", d.Generated("p", 2))
	},
	"with CRLF and a byte order mark": func(d *desk) {
		d.Save("p.yaml", "\ufeff"+strings.ReplaceAll(d.Generated("p", 2), "\n", "\r\n"))
	},
	"UTF-16, and then as it should be": func(d *desk) {
		d.Save("p.yaml", "\xff\xfev\x00e\x00r\x00")
		d.WaitProblem("p.yaml", "UTF-16")
		d.Save("p.yaml", d.Generated("p", 2))
	},
	"with NUL bytes where it was not written yet": func(d *desk) {
		text := d.Generated("p", 2)
		d.Save("p.yaml", text[:100]+strings.Repeat("\x00", len(text)-100))
		d.WaitProblem("p.yaml", "NUL")
		d.Save("p.yaml", text)
	},
	"a FIFO in its place for a while": func(d *desk) {
		d.Remove("p.yaml")
		d.Must(mkfifo(d.File("p.yaml")))
		d.WaitProblem("p.yaml", "not a regular file")
		d.Remove("p.yaml")
		d.Write("p.yaml", d.Generated("p", 2))
	},
	"too large for a while": func(d *desk) {
		d.Write("p.yaml", strings.Repeat("#", 1<<20+1))
		d.WaitProblem("p.yaml", "larger than 1 MiB")
		d.Write("p.yaml", d.Generated("p", 2))
	},
}

// However a tool saves a file, its pipeline restarts once, with the final content, and nothing else happens.
func TestWaysToSave(t *testing.T) {
	t.Parallel()
	ways := waysToSaveCases
	for name, save := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := atDesk(t)
			save(d)
			d.Runs("p", 2)
			d.WantStarts("p", 2)
			d.WantStarts("q", 1)
			if g := d.Declared("p").Generation; g != 2 {
				t.Errorf("generation %d, want 2", g)
			}
			if text := d.Problems("p.yaml"); text != "" {
				t.Errorf("problems: %s", text)
			}
			d.Stop()
			agenttest.WantConsecutive(t, agenttest.Numbers(t, d.Path("p.jsonl")))
		})
	}
}

// savesThatChangeNothingCases are the cases of TestSavesThatChangeNothing.
var savesThatChangeNothingCases = map[string]func(d *desk){
	"touch":                          func(d *desk) { d.Must(os.Chtimes(d.File("p.yaml"), time.Now(), time.Now())) },
	"chmod":                          func(d *desk) { d.Must(os.Chmod(d.File("p.yaml"), 0o600)) },
	"the same bytes":                 func(d *desk) { d.Write("p.yaml", d.Generated("p", 1)) },
	"the same bytes in another file": func(d *desk) { d.Save("p.yaml", d.Generated("p", 1)) },
	"a comment":                      func(d *desk) { d.Save("p.yaml", "# why\n"+d.Generated("p", 1)) },
	"a name and a description": func(d *desk) {
		d.Save("p.yaml", agenttest.Generated(d.Dir, "p", 1, "name: other\n    description: text"))
		d.Wait("the new name", func() bool { return d.Declared("p").Pipeline.Name == "other" })
	},
	"the order of keys": func(d *desk) {
		d.Save("p.yaml",
			strings.Replace(d.Generated("p", 1), "rate: 1, format.type: structured", "format.type: structured, rate: 1",
				1))
	},
	"other files, editors' files and directories": func(d *desk) {
		d.Write("notes.txt", d.Generated("x", 1))
		d.Write("p.yaml.bak", d.Generated("x", 1))
		d.Write("p.yaml~", d.Generated("x", 1))
		d.Write(".hidden.yaml", d.Generated("x", 1))
		d.Must(os.Mkdir(d.File("sub"), 0o755))
		d.Write("sub/p.yaml", d.Generated("x", 1))
	},
	"renamed": func(d *desk) {
		d.Rename("p.yaml", "other.yml")
		d.Wait("the new owner", func() bool { return d.Declared("p").Owner.Path == "other.yml" })
	},
	"moved, the new place first": func(d *desk) {
		d.Save("r.yaml", d.Generated("p", 1))
		d.WaitProblem("r.yaml", "already declared in p.yaml")
		d.Save("p.yaml", "version: \"2.2\"\npipelines: []\n")
		d.Wait("the new owner, without problems", func() bool {
			return d.Declared("p").Owner.Path == "r.yaml" && d.Problems("r.yaml") == ""
		})
	},
	"moved, the old place first": func(d *desk) {
		d.Save("p.yaml", "version: \"2.2\"\npipelines: []\n")
		d.WaitWithdrawn("p")
		d.Save("r.yaml", d.Generated("p", 1))
		d.Wait("the new owner", func() bool { return d.Declared("p").Owner.Path == "r.yaml" })
	},
	"a second file with the same id": func(d *desk) {
		d.Save("a.yaml", d.Generated("p", 2)) // before p.yaml in every order
		d.WaitProblem("a.yaml", "already declared in p.yaml")
		d.Save("p.yaml", d.Generated("p", 1)+"# saved again\n")
	},
	"the same id twice in the file": func(d *desk) {
		d.Save("p.yaml", d.Generated("p", 2)+"---\n"+d.Generated("p", 3))
		d.WaitProblem("p.yaml", "twice")
	},
	"gone within the grace": func(d *desk) {
		d.Rename("p.yaml", "p.off")
		d.WaitWithdrawn("p")
		d.Rename("p.off", "p.yaml")
		d.Wait("its return", func() bool { return d.Declared("p").Withdrawn.IsZero() })
	},
	"unreadable": func(d *desk) {
		d.Remove("p.yaml")
		d.Must(os.Mkdir(d.File("p.yaml"), 0o755))
		d.WaitProblem("p.yaml", "not a regular file")
	},
	"a link in a loop": func(d *desk) {
		d.Remove("p.yaml")
		d.Must(os.Symlink("p.yaml", d.File("p.yaml")))
		d.WaitProblem("p.yaml", "cannot read")
	},
	"a link to outside": func(d *desk) {
		d.Must(os.WriteFile(d.Path("outside"), []byte(d.Generated("p", 2)), 0o600))
		d.Remove("p.yaml")
		d.Must(os.Symlink(d.Path("outside"), d.File("p.yaml")))
		d.WaitProblem("p.yaml", "cannot read")
	},
}

// Changes without an effect on the pipeline restart nothing.
func TestSavesThatChangeNothing(t *testing.T) {
	t.Parallel()
	saves := savesThatChangeNothingCases
	for name, save := range saves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := atDesk(t)
			save(d)
			d.WantStarts("p", 1)
			d.WantStarts("q", 1)
			if p := d.Declared("p"); p.Generation != 1 || !p.Withdrawn.IsZero() {
				t.Errorf("declared: %+v", p)
			}
		})
	}
}

// TestChangeThatIsTakenBackAtOnce saves a change and reverts it within the debounce. A scan for another reason may see
// the change, more likely on a busy machine: then the test is repeated with another agent.
func TestChangeThatIsTakenBackAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		d := atDesk(t)
		d.Write("p.yaml", d.Generated("p", 2))
		d.Write("p.yaml", d.Generated("p", 1))
		d.Scan()
		if d.Declared("p").Generation > 1 {
			d.Stop()
			continue
		}
		d.WantStarts("p", 1)
		d.WantStarts("q", 1)
		return
	}
	t.Error("the change was seen each of 20 times")
}
