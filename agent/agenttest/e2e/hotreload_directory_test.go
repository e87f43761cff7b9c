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
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

func shorter(c *config.Config) {
	c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 20*time.Millisecond, 20*time.Millisecond
}

// A pipeline whose file is deleted stops after the grace period. It resumes from its checkpoint when the file is back
// before the clean-up.
func TestDeletedFilesStopTheirPipelines(t *testing.T) {
	t.Parallel()
	deletions := map[string]func(d *desk){
		"file deleted":       func(d *desk) { d.Remove("p.yaml") },
		"pipeline dropped":   func(d *desk) { d.Save("p.yaml", agenttest.Nothing) },
		"all files deleted":  func(d *desk) { d.Remove("q.yaml"); d.Remove("p.yaml") },
		"deleted while down": nil,
	}
	for name, deletion := range deletions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := withRecords(t, agenttest.ShortGrace)
			if deletion != nil {
				deletion(d)
			} else {
				d = d.again(func() { d.Remove("p.yaml") }, agenttest.ShortGrace)
			}
			d.WaitWithdrawn("p")
			d.Stopped("p")
			n := agenttest.LinesIn(t, d.Path("p.jsonl"))
			d = d.again(func() {}, agenttest.ShortGrace)
			d.Save("p.yaml", d.Generated("p", 1000))
			d.Runs("p", 1000)
			d.Wait("more records", func() bool { return agenttest.LinesIn(t, d.Path("p.jsonl")) > n+5 })
			d.Stop()
			agenttest.WantConsecutive(t, agenttest.Numbers(t, d.Path("p.jsonl")))
		})
	}
}

// After the clean-up, a pipeline with the same id is a new pipeline, and so is one with another id or another source.
func TestNewIdentitiesStartFromScratch(t *testing.T) {
	t.Parallel()
	changes := map[string]func(d *desk){
		"same id after the clean-up": func(d *desk) {
			d.Remove("p.yaml")
			d.Wait("the clean-up", func() bool {
				return d.Declared("p").Generation == 0 && d.State("p").PipelineID == ""
			})
			d.Save("p.yaml", d.Generated("p", 1000))
		},
		"another id": func(d *desk) {
			d.Save("p.yaml", strings.Replace(d.Generated("p", 1000), "id: p\n", "id: r\n", 1))
			d.Runs("r", 1000)
			d.Wait("the clean-up", func() bool { return d.Declared("p").Generation == 0 })
		},
		"another source": func(d *desk) {
			d.Save("p.yaml", strings.Replace(d.Generated("p", 1000), "id: src\n", "id: other\n", 1))
			d.Runs("p", 1000)
		},
		"another plugin and the first one again": func(d *desk) {
			d.Must(os.WriteFile(d.Path("in"), []byte("one\ntwo\n"), 0o644))
			d.Save("p.yaml", strings.NewReplacer(
				"plugin: builtin:generator\n        settings: {rate: 1, format.type: structured, format.options.n: "+
					"int}", "plugin: file\n        settings: {path: "+d.Path("in")+"}",
				"p.jsonl", "other.jsonl").Replace(d.Generated("p", 1)))
			d.Wait("all of the file", func() bool {
				out, _ := os.ReadFile(d.Path("other.jsonl"))
				return strings.Count(string(out), "\n") == 2
			})
			d.Save("p.yaml", d.Generated("p", 1000))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := withRecords(t, shorter)
			change(d)
			d.Wait("the first record again", func() bool {
				all := agenttest.Numbers(t, d.Path("p.jsonl"))
				return slices.Contains(all[1:], 1)
			})
			d.WantStarts("q", 1)
		})
	}
}

// Every interface that shows the state of the agent reports a problem with the directory, and its end.
func TestTheStateOfTheDirectoryIsShown(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	d := &desk{&agenttest.Desk{Agent: w.Agent, T: t}}
	d.Save("p.yaml", d.Generated("p", 1))
	d.Runs("p", 1)
	shown := func(state spec.DirectoryState, reason string) {
		t.Helper()
		var message string
		d.Wait(string(state), func() bool {
			r, err := w.API.Ready(t.Context())
			if r.Directory != nil {
				message = r.Directory.Message
			}
			return err == nil && r.Status == "ready" && r.Pipelines.Running == 1 && r.Directory.State == state &&
				(message == "") == (state == spec.DirectoryOK)
		})
		unseen := spec.DirectoryState("")
		if !state.Followed() {
			unseen = state
		}
		files, err := w.API.Files(t.Context())
		if err != nil || len(files) != 1 || files[0].Unseen != unseen {
			t.Errorf("%s: files %+v, error %v", state, files, err)
		}
		for _, s := range spec.DirectoryStates {
			in := agenttest.Scrape(t, d.Agent, `conduit_pipelines_directory{state="`+string(s)+`"}`) == 1
			if in != (s == state) {
				t.Errorf("%s: the metric of %s is %v", state, s, in)
			}
		}
		if text := d.Summary(t.Context()); text != strings.TrimSuffix("1 running, "+message, ", ") {
			t.Errorf("%s: systemd gets %q", state, text)
		}
		d.Wait("the event "+reason, func() bool {
			events, err := w.API.Events(t.Context(), -1, 1)
			return err == nil && (reason == "" || events[0].Reason == reason)
		})
	}
	shown(spec.DirectoryOK, "")
	d.Must(os.Rename(d.Path("pipelines"), d.Path("away")))
	shown(spec.DirectoryMissing, "SourceMissing")
	d.Must(os.Mkdir(d.Path("pipelines"), 0o755))
	shown(spec.DirectoryHeld, "MassDeletionHeld")
	d.Must(os.Remove(d.Path("pipelines")))
	d.Must(os.WriteFile(d.Path("elsewhere"), nil, 0o600))
	d.Must(os.Symlink("elsewhere/pipelines", d.Path("pipelines")))
	shown(spec.DirectoryUnreadable, "SourceUnreadable")
	d.Must(os.Remove(d.Path("pipelines")))
	d.Must(os.Rename(d.Path("away"), d.Path("pipelines")))
	shown(spec.DirectoryOK, "SourceFollowed")
}

// If the files of the store are deleted or replaced while the agent has it open, nothing stops either, but the agent
// reports the danger.
func TestTheStoreIsNotInItsPlace(t *testing.T) {
	t.Parallel()
	w := startAttentive(t)
	d := &desk{&agenttest.Desk{Agent: w.Agent, T: t}}
	d.Save("p.yaml", d.Generated("p", 1000))
	d.Runs("p", 1000)
	d.Must(os.Rename(d.Path("conduit.db"), d.Path("away")))
	r, err := w.API.Ready(t.Context())
	if err == nil || r.Status != "unavailable" || !strings.Contains(r.Reason, "conduit.db") ||
		r.Directory.State != spec.DirectoryOK {
		t.Errorf("without its file: %+v, error %v", r, err)
	}
	if text := d.Summary(t.Context()); !strings.HasPrefix(text, "1 running, ") ||
		!strings.Contains(text, "conduit.db") {
		t.Errorf("systemd gets %q", text)
	}
	d.Wait("the log", func() bool { return strings.Contains(d.Log(), "the store is in danger") })
	n := agenttest.LinesIn(t, d.Path("p.jsonl"))
	d.Wait("more records", func() bool { return agenttest.LinesIn(t, d.Path("p.jsonl")) > n })
	d.Must(os.Rename(d.Path("away"), d.Path("conduit.db")))
	if r, err = w.API.Ready(t.Context()); err != nil || r.Status != "ready" {
		t.Errorf("with its file: %+v, error %v", r, err)
	}
	d.Wait("the all-clear", func() bool { return strings.Contains(d.Log(), "the store is in its place again") })
	if n := strings.Count(d.Log(), "the store is in danger"); n != 1 {
		t.Errorf("it was logged %d times", n)
	}
}

// away moves the directory of the pipeline files away, and back moves it back.
func (d *desk) away() { d.Must(os.Rename(d.Path("pipelines"), d.Path("away"))) }

func (d *desk) back() { d.Must(os.Rename(d.Path("away"), d.Path("pipelines"))) }

// missing waits until the agent reports that the directory is missing.
func (d *desk) missing() {
	d.Wait("its absence to be logged", func() bool {
		return strings.Contains(d.Log(), "cannot follow the pipeline files")
	})
}

// missingWhileItRuns are the faults of the directory while the agent runs p and q.
var missingWhileItRuns = map[string]func(d *desk) *desk{
	"for a while": func(d *desk) *desk {
		d.away()
		d.missing()
		d.back()
		d.WantStarts("p", 1)
		d.WantStarts("q", 1)
		return d
	},
	"removed, and recreated": func(d *desk) *desk {
		d.Must(os.RemoveAll(d.Path("pipelines")))
		d.missing()
		d.Must(os.Mkdir(d.Path("pipelines"), 0o755))
		d.Save("p.yaml", d.Generated("p", 1))
		d.Save("q.yaml", d.Generated("q", 1))
		d.WantStarts("p", 1)
		d.WantStarts("q", 1)
		return d
	},
	"replaced by an equal one": func(d *desk) *desk {
		d.Must(os.CopyFS(d.Path("next"), os.DirFS(d.Path("pipelines"))))
		d.away()
		d.Must(os.Rename(d.Path("next"), d.Path("pipelines")))
		d.WantStarts("p", 1)
		d.WantStarts("q", 1)
		return d
	},
	"replaced by an empty one": func(d *desk) *desk {
		d.away()
		d.Must(os.Mkdir(d.Path("pipelines"), 0o755))
		d.Wait("that nothing is withdrawn", func() bool {
			return strings.Contains(d.Log(), "all pipeline files are missing")
		})
		d.WantStarts("p", 1)
		d.Must(os.Remove(d.Path("pipelines")))
		d.back()
		return d
	},
}

// missingAtStart are the faults of the directory at the next start of an agent.
var missingAtStart = map[string]func(d *desk) *desk{
	"at start": func(d *desk) *desk {
		d = d.again(func() { d.away() })
		d.missing()
		d.Runs("p", 1)
		d.Runs("q", 1)
		d.back()
		return d
	},
	"at start, a file in its place": func(d *desk) *desk {
		d = d.again(func() { d.away(); d.Must(os.WriteFile(d.Path("pipelines"), nil, 0o600)) })
		d.Wait("that nothing is withdrawn", func() bool {
			return strings.Contains(d.Log(), "all pipeline files are missing")
		})
		d.WantStarts("p", 1)
		d.WantStarts("q", 1)
		d.Must(os.Remove(d.Path("pipelines")))
		d.back()
		return d
	},
	"empty at start": func(d *desk) *desk {
		d = d.again(func() { d.away(); d.Must(os.Mkdir(d.Path("pipelines"), 0o755)) })
		d.Wait("that nothing is withdrawn", func() bool {
			return strings.Contains(d.Log(), "all pipeline files are missing")
		})
		d.WantStarts("p", 1)
		d.WantStarts("q", 1)
		d.Must(os.Remove(d.Path("pipelines")))
		d.back()
		return d
	},
}

// A missing directory does not stop anything.
func TestDirectoryIsMissing(t *testing.T) {
	t.Parallel()
	for _, cases := range []map[string]func(d *desk) *desk{missingWhileItRuns, missingAtStart} {
		for name, happens := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := happens(atDesk(t))
				d.Save("p.yaml", d.Generated("p", 2)) // the directory is watched as before
				d.Runs("p", 2)
				d.Runs("q", 1)
			})
		}
	}
}

// When all files are gone at start, the agent waits for a file or for a person's confirmation.
func TestAllFilesGoneAtStart(t *testing.T) {
	t.Parallel()
	decisions := map[string]func(d *desk){
		"a file appears": func(d *desk) { d.Save("new.yaml", d.Generated("new", 1)); d.Runs("new", 1) },
		"confirmed":      func(d *desk) { d.Must(d.Files.Reload(t.Context(), true)) },
	}
	for name, decide := range decisions {
		t.Run(name, func(t *testing.T) {
			d := atDesk(t, agenttest.ShortGrace)
			d = d.again(func() { d.Remove("p.yaml"); d.Remove("q.yaml") }, agenttest.ShortGrace)
			d.Runs("p", 1)
			d.Scan()
			d.WantStarts("q", 1)
			decide(d)
			d.WaitWithdrawn("p")
			d.Stopped("p")
			d.Stopped("q")
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
		d.Must(os.Mkdir(d.File(dir), 0o755))
		for name, content := range files {
			d.Write(filepath.Join(dir, name), content)
		}
		d.Must(os.Symlink(dir, d.File("..data_tmp")))
		d.Rename("..data_tmp", "..data")
		if version > 1 {
			d.Must(os.RemoveAll(d.File(fmt.Sprintf("..v%d", version-1))))
		}
	}
	swap(map[string]string{"p.yaml": d.Generated("p", 1), "q.yaml": d.Generated("q", 1)})
	for _, name := range []string{"p.yaml", "q.yaml"} {
		d.Must(os.Symlink(filepath.Join("..data", name), d.File(name)))
	}
	d.Runs("p", 1)
	d.Runs("q", 1)
	for v := 2; v < 5; v++ {
		swap(map[string]string{"p.yaml": d.Generated("p", v), "q.yaml": d.Generated("q", 1)})
		d.Runs("p", v)
	}
	d.WantStarts("p", 4)
	d.WantStarts("q", 1)
}

// pipelines.path is a link to a release that is switched.
func TestReleases(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	d := &desk{&agenttest.Desk{T: t}}
	release := func(name string, files map[string]string) {
		for file, content := range files {
			path := filepath.Join(base, name, "pipelines", file)
			d.Must(os.MkdirAll(filepath.Dir(path), 0o755))
			d.Must(os.WriteFile(path, []byte(content), 0o600))
		}
		d.Must(os.Symlink(name, filepath.Join(base, "next")))
		d.Must(os.Rename(filepath.Join(base, "next"), filepath.Join(base, "current")))
	}
	dir := agenttest.NewDir(t)
	p, q := func(v int) string { return agenttest.Generated(dir, "p", v, "") }, agenttest.Generated(dir, "q", 1, "")
	release("1", map[string]string{"p.yaml": p(1), "q.yaml": q})
	d.Agent = agenttest.Start(t, dir, func(c *config.Config) {
		c.Pipelines.Path = filepath.Join(base, "current", "pipelines")
		c.Pipelines.DeletionGrace = time.Hour // a release that is removed during a scan looks empty
	})
	d.Runs("p", 1)
	d.Runs("q", 1)
	release("2", map[string]string{"p.yaml": p(2), "q.yaml": q})
	d.Must(os.RemoveAll(filepath.Join(base, "1")))
	d.Runs("p", 2)
	release("3", map[string]string{"p.yaml": p(3), "q.yaml": q, "r.yaml": agenttest.Generated(dir, "r", 1, "")})
	d.Runs("p", 3)
	d.Runs("r", 1)
	d.WantStarts("p", 3)
	d.WantStarts("q", 1)
	release("4", map[string]string{"q.yaml": q, "r.yaml": agenttest.Generated(dir, "r", 1, "")})
	d.WaitWithdrawn("p")
	if s := d.State("q"); s.Phase != spec.PhaseRunning || d.Starts("q") != 1 {
		t.Errorf("q: %+v", s)
	}
}
