package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

const nothing = "version: \"2.2\"\npipelines: []\n"

func short(c *config.Config) {
	c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 20*time.Millisecond, time.Hour
}

// retryLater leaves what failed as it is until something changes.
func retryLater(c *config.Config) { c.Pipelines.ErrorRecovery.MinDelay = time.Hour }

func shorter(c *config.Config) {
	c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 20*time.Millisecond, 20*time.Millisecond
}

// A pipeline whose file is deleted stops after the grace. It resumes where it stopped
// when the file is back before the clean-up.
func TestDeletedFilesStopTheirPipelines(t *testing.T) {
	t.Parallel()
	deletions := map[string]func(d *desk){
		"file deleted":       func(d *desk) { d.remove("p.yaml") },
		"pipeline dropped":   func(d *desk) { d.Save("p.yaml", nothing) },
		"all files deleted":  func(d *desk) { d.remove("q.yaml"); d.remove("p.yaml") },
		"deleted while down": nil,
	}
	for name, deletion := range deletions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := withRecords(t, short)
			if deletion != nil {
				deletion(d)
			} else {
				d = d.again(func() { d.remove("p.yaml") }, short)
			}
			d.withdrawn("p")
			d.stopped("p")
			n := len(numbers(t, d.Path("p.jsonl")))
			d = d.again(func() {}, short)
			d.Save("p.yaml", d.made("p", 1000))
			d.runs("p", 1000)
			d.Wait("more records", func() bool { return len(numbers(t, d.Path("p.jsonl"))) > n+5 })
			d.Stop()
			wantConsecutive(t, numbers(t, d.Path("p.jsonl")))
		})
	}
}

// After the clean-up, a pipeline of the same id is a new one, and so is one with
// another id or with another source.
func TestNewIdentitiesStartFromScratch(t *testing.T) {
	t.Parallel()
	changes := map[string]func(d *desk){
		"same id after the clean-up": func(d *desk) {
			d.remove("p.yaml")
			d.Wait("the clean-up", func() bool { return d.declared("p").Generation == 0 && d.State("p").PipelineID == "" })
			d.Save("p.yaml", d.made("p", 1000))
		},
		"another id": func(d *desk) {
			d.Save("p.yaml", strings.Replace(d.made("p", 1000), "id: p\n", "id: r\n", 1))
			d.runs("r", 1000)
			d.Wait("the clean-up", func() bool { return d.declared("p").Generation == 0 })
		},
		"another source": func(d *desk) {
			d.Save("p.yaml", strings.Replace(d.made("p", 1000), "id: src\n", "id: other\n", 1))
			d.runs("p", 1000)
		},
		"another plugin and the first one again": func(d *desk) {
			d.must(os.WriteFile(d.Path("in"), []byte("one\ntwo\n"), 0o644))
			d.Save("p.yaml", strings.NewReplacer(
				"plugin: builtin:generator\n        settings: {rate: 1, format.type: structured, format.options.n: int}", "plugin: file\n        settings: {path: "+d.Path("in")+"}",
				"p.jsonl", "other.jsonl").Replace(d.made("p", 1)))
			d.Wait("all of the file", func() bool {
				out, _ := os.ReadFile(d.Path("other.jsonl"))
				return strings.Count(string(out), "\n") == 2
			})
			d.Save("p.yaml", d.made("p", 1000))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := withRecords(t, shorter)
			change(d)
			d.Wait("the first record again", func() bool {
				all := numbers(t, d.Path("p.jsonl"))
				return slices.Contains(all[1:], 1)
			})
			d.started("q", 1)
		})
	}
}

// Every interface that shows the state of the agent shows that the directory
// is not in order, and when it is again.
func TestTheStateOfTheDirectoryIsShown(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	d := &desk{w.Agent, t}
	d.Save("p.yaml", d.made("p", 1))
	d.runs("p", 1)
	shown := func(state spec.DirectoryState, reason string) {
		t.Helper()
		var message string
		d.Wait(string(state), func() bool {
			r, err := w.api.Ready(t.Context())
			if r.Directory != nil {
				message = r.Directory.Message
			}
			return err == nil && r.Status == "ready" && r.Pipelines.Running == 1 && r.Directory.State == state && (message == "") == (state == spec.DirectoryOK)
		})
		unseen := spec.DirectoryState("")
		if !state.Followed() {
			unseen = state
		}
		files, err := w.api.Files(t.Context())
		if err != nil || len(files) != 1 || files[0].Unseen != unseen {
			t.Errorf("%s: files %+v, error %v", state, files, err)
		}
		for _, s := range spec.DirectoryStates {
			if in := scrape(t, d.Agent, `conduit_pipelines_directory{state="`+string(s)+`"}`) == 1; in != (s == state) {
				t.Errorf("%s: the metric of %s is %v", state, s, in)
			}
		}
		if text := d.Summary(t.Context()); text != strings.TrimSuffix("1 running, "+message, ", ") {
			t.Errorf("%s: systemd gets %q", state, text)
		}
		d.Wait("the event "+reason, func() bool {
			events, err := w.api.Events(t.Context(), -1, 1)
			return err == nil && (reason == "" || events[0].Reason == reason)
		})
	}
	shown(spec.DirectoryOK, "")
	d.must(os.Rename(d.Path("pipelines"), d.Path("away")))
	shown(spec.DirectoryMissing, "SourceMissing")
	d.must(os.Mkdir(d.Path("pipelines"), 0o755))
	shown(spec.DirectoryHeld, "MassDeletionHeld")
	d.must(os.Remove(d.Path("pipelines")))
	d.must(os.WriteFile(d.Path("elsewhere"), nil, 0o600))
	d.must(os.Symlink("elsewhere/pipelines", d.Path("pipelines")))
	shown(spec.DirectoryUnreadable, "SourceUnreadable")
	d.must(os.Remove(d.Path("pipelines")))
	d.must(os.Rename(d.Path("away"), d.Path("pipelines")))
	shown(spec.DirectoryOK, "SourceFollowed")
}

// A store whose files were deleted or replaced while the agent has it open is no reason to
// stop anything either, but the agent says that it is in danger.
func TestTheStoreIsNotInItsPlace(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	w := startWeb(t, "")
	d := &desk{w.Agent, t}
	d.Save("p.yaml", d.made("p", 1000))
	d.runs("p", 1000)
	d.must(os.Rename(d.Path("conduit.db"), d.Path("away")))
	r, err := w.api.Ready(t.Context())
	if err == nil || r.Status != "unavailable" || !strings.Contains(r.Reason, "conduit.db") || r.Directory.State != spec.DirectoryOK {
		t.Errorf("without its file: %+v, error %v", r, err)
	}
	if text := d.Summary(t.Context()); !strings.HasPrefix(text, "1 running, ") || !strings.Contains(text, "conduit.db") {
		t.Errorf("systemd gets %q", text)
	}
	d.Wait("the log", func() bool { return strings.Contains(d.Log(), "the store is in danger") })
	n := len(numbers(t, d.Path("p.jsonl")))
	d.Wait("more records", func() bool { return len(numbers(t, d.Path("p.jsonl"))) > n })
	d.must(os.Rename(d.Path("away"), d.Path("conduit.db")))
	if r, err = w.api.Ready(t.Context()); err != nil || r.Status != "ready" {
		t.Errorf("with its file: %+v, error %v", r, err)
	}
	d.Wait("the all-clear", func() bool { return strings.Contains(d.Log(), "the store is in its place again") })
	if n := strings.Count(d.Log(), "the store is in danger"); n != 1 {
		t.Errorf("it was logged %d times", n)
	}
}

// away moves the directory of the pipeline files away, and back moves it back.
func (d *desk) away() { d.must(os.Rename(d.Path("pipelines"), d.Path("away"))) }

func (d *desk) back() { d.must(os.Rename(d.Path("away"), d.Path("pipelines"))) }

// missing waits until the agent says that the directory is not there.
func (d *desk) missing() {
	d.Wait("its absence to be logged", func() bool { return strings.Contains(d.Log(), "pipeline files are not followed") })
}

// missingWhileItRuns are what can happen to the directory of an agent that runs p and q.
var missingWhileItRuns = map[string]func(d *desk) *desk{
	"for a while": func(d *desk) *desk {
		d.away()
		d.missing()
		d.back()
		d.started("p", 1)
		d.started("q", 1)
		return d
	},
	"removed, and recreated": func(d *desk) *desk {
		d.must(os.RemoveAll(d.Path("pipelines")))
		d.missing()
		d.must(os.Mkdir(d.Path("pipelines"), 0o755))
		d.Save("p.yaml", d.made("p", 1))
		d.Save("q.yaml", d.made("q", 1))
		d.started("p", 1)
		d.started("q", 1)
		return d
	},
	"replaced by an equal one": func(d *desk) *desk {
		d.must(os.CopyFS(d.Path("next"), os.DirFS(d.Path("pipelines"))))
		d.away()
		d.must(os.Rename(d.Path("next"), d.Path("pipelines")))
		d.started("p", 1)
		d.started("q", 1)
		return d
	},
	"replaced by an empty one": func(d *desk) *desk {
		d.away()
		d.must(os.Mkdir(d.Path("pipelines"), 0o755))
		d.Wait("that nothing is withdrawn", func() bool { return strings.Contains(d.Log(), "all pipeline files are gone") })
		d.started("p", 1)
		d.must(os.Remove(d.Path("pipelines")))
		d.back()
		return d
	},
}

// missingAtStart are what an agent can find when it starts again.
var missingAtStart = map[string]func(d *desk) *desk{
	"at start": func(d *desk) *desk {
		d = d.again(func() { d.away() })
		d.missing()
		d.runs("p", 1)
		d.runs("q", 1)
		d.back()
		return d
	},
	"at start, a file in its place": func(d *desk) *desk {
		d = d.again(func() { d.away(); d.must(os.WriteFile(d.Path("pipelines"), nil, 0o600)) })
		d.Wait("that nothing is withdrawn", func() bool { return strings.Contains(d.Log(), "all pipeline files are gone") })
		d.started("p", 1)
		d.started("q", 1)
		d.must(os.Remove(d.Path("pipelines")))
		d.back()
		return d
	},
	"empty at start": func(d *desk) *desk {
		d = d.again(func() { d.away(); d.must(os.Mkdir(d.Path("pipelines"), 0o755)) })
		d.Wait("that nothing is withdrawn", func() bool { return strings.Contains(d.Log(), "all pipeline files are gone") })
		d.started("p", 1)
		d.started("q", 1)
		d.must(os.Remove(d.Path("pipelines")))
		d.back()
		return d
	},
}

// A directory that is not there is no reason to stop anything.
func TestDirectoryIsMissing(t *testing.T) {
	t.Parallel()
	for _, cases := range []map[string]func(d *desk) *desk{missingWhileItRuns, missingAtStart} {
		for name, happens := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := happens(atDesk(t))
				d.Save("p.yaml", d.made("p", 2)) // and then it is followed as before
				d.runs("p", 2)
				d.runs("q", 1)
			})
		}
	}
}

// When all files are gone at start, a file or a person decides.
func TestAllFilesGoneAtStart(t *testing.T) {
	t.Parallel()
	decisions := map[string]func(d *desk){
		"a file appears": func(d *desk) { d.Save("new.yaml", d.made("new", 1)); d.runs("new", 1) },
		"confirmed":      func(d *desk) { d.must(d.Files.Reload(t.Context(), true)) },
	}
	for name, decide := range decisions {
		t.Run(name, func(t *testing.T) {
			d := atDesk(t, short)
			d = d.again(func() { d.remove("p.yaml"); d.remove("q.yaml") }, short)
			d.runs("p", 1)
			d.scanned()
			d.started("q", 1)
			decide(d)
			d.withdrawn("p")
			d.stopped("p")
			d.stopped("q")
		})
	}
}

// A mounted ConfigMap: every file is a link through ..data, which is swapped.
func TestConfigMap(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "")
	version := 0
	swap := func(files map[string]string) {
		version++
		dir := fmt.Sprintf("..v%d", version)
		d.must(os.Mkdir(d.path(dir), 0o755))
		for name, content := range files {
			d.write(filepath.Join(dir, name), content)
		}
		d.must(os.Symlink(dir, d.path("..data_tmp")))
		d.rename("..data_tmp", "..data")
		if version > 1 {
			d.must(os.RemoveAll(d.path(fmt.Sprintf("..v%d", version-1))))
		}
	}
	swap(map[string]string{"p.yaml": d.made("p", 1), "q.yaml": d.made("q", 1)})
	for _, name := range []string{"p.yaml", "q.yaml"} {
		d.must(os.Symlink(filepath.Join("..data", name), d.path(name)))
	}
	d.runs("p", 1)
	d.runs("q", 1)
	for v := 2; v < 5; v++ {
		swap(map[string]string{"p.yaml": d.made("p", v), "q.yaml": d.made("q", 1)})
		d.runs("p", v)
	}
	d.started("p", 4)
	d.started("q", 1)
}

// pipelines.path is a link to a release that is switched.
func TestReleases(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	d := &desk{t: t}
	release := func(name string, files map[string]string) {
		for file, content := range files {
			path := filepath.Join(base, name, "pipelines", file)
			d.must(os.MkdirAll(filepath.Dir(path), 0o755))
			d.must(os.WriteFile(path, []byte(content), 0o600))
		}
		d.must(os.Symlink(name, filepath.Join(base, "next")))
		d.must(os.Rename(filepath.Join(base, "next"), filepath.Join(base, "current")))
	}
	dir := agenttest.NewDir(t)
	p, q := func(v int) string { return made(dir, "p", v, "") }, made(dir, "q", 1, "")
	release("1", map[string]string{"p.yaml": p(1), "q.yaml": q})
	d.Agent = agenttest.Start(t, dir, func(c *config.Config) {
		c.Pipelines.Path = filepath.Join(base, "current", "pipelines")
		c.Pipelines.DeletionGrace = time.Second // a release that is removed while it is read seems empty
	})
	d.runs("p", 1)
	d.runs("q", 1)
	release("2", map[string]string{"p.yaml": p(2), "q.yaml": q})
	d.must(os.RemoveAll(filepath.Join(base, "1")))
	d.runs("p", 2)
	release("3", map[string]string{"p.yaml": p(3), "q.yaml": q, "r.yaml": made(dir, "r", 1, "")})
	d.runs("p", 3)
	d.runs("r", 1)
	d.started("p", 3)
	d.started("q", 1)
	release("4", map[string]string{"q.yaml": q, "r.yaml": made(dir, "r", 1, "")})
	d.stopped("p")
	if s := d.State("q"); s.Phase != spec.PhaseRunning || d.starts("q") != 1 {
		t.Errorf("q: %+v", s)
	}
}
