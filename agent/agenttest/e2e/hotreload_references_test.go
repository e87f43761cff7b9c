package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/spec"
)

// secretly returns a pipeline that reads its rate, which is its version, from a file.
func (d *desk) secretly(id, file string) string {
	return strings.Replace(d.Generated(id, 1), "rate: 1", "rate: '${file:"+d.Path(file)+"}'", 1)
}

// put replaces the content of a file in the agent's directory atomically.
func (d *desk) put(file, content string) {
	d.T.Helper()
	d.Must(os.WriteFile(d.Path("new"), []byte(content), 0o600))
	d.Must(os.Rename(d.Path("new"), d.Path(file)))
}

func (d *desk) waitStarts(id string, times int) {
	d.T.Helper()
	d.Wait("another start of "+id, func() bool {
		return d.Starts(id) == times && d.State(id).Phase == spec.PhaseRunning
	})
}

// A change of a file that settings of a source refer to restarts the pipelines that use it.
func TestReferencedFilesAreFollowed(t *testing.T) {
	t.Parallel()
	changes := map[string]func(d *desk){
		"renamed into place": func(d *desk) { d.put("secret", "1002.5\n") },
		"written in pieces": func(d *desk) {
			d.Must(os.WriteFile(d.Path("secret"), nil, 0o600))
			d.Must(os.WriteFile(d.Path("secret"), []byte("1002.5e"), 0o600)) // no number: it takes no effect
			d.Must(os.WriteFile(d.Path("secret"), []byte("1002.5"), 0o600))
		},
		"a link that is changed": func(d *desk) {
			d.Must(os.WriteFile(d.Path("other"), []byte("1002.5"), 0o600))
			d.Must(os.Symlink("other", d.Path("new")))
			d.Must(os.Rename(d.Path("new"), d.Path("secret")))
		},
		"gone for a while": func(d *desk) {
			d.Must(os.Remove(d.Path("secret")))
			d.put("bystander", "7") // takes effect after a scan without the file
			d.waitStarts("q", 2)
			d.put("secret", "1002.5")
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deskIn(t, "")
			d.put("secret", "1001")
			d.put("bystander", "1001")
			d.Save("p.yaml", d.secretly("p", "secret"))
			d.Save("q.yaml", d.secretly("q", "bystander"))
			d.waitStarts("p", 1)
			d.waitStarts("q", 1)
			change(d)
			d.waitStarts("p", 2)
			if g := d.Declared("p").Generation; g != 1 {
				t.Errorf("generation %d, want 1", g)
			}
			if n := d.Starts("q"); n != 1 && name != "gone for a while" {
				t.Errorf("q was started %d times", n)
			}
			if strings.Contains(d.Log(), "cannot read file") {
				t.Error("it was applied without the file")
			}
			if strings.Contains(d.Log(), "1002.5") {
				t.Error("the content of the file is in the log")
			}
			d.Stop()
			agenttest.WantConsecutive(t, agenttest.Numbers(t, d.Path("p.jsonl")))
		})
	}
}

// A change of a file that only a destination refers to leaves the source open, and nothing is lost or repeated.
func TestReferencedFilesOfDestinations(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "")
	names := []string{"one.jsonl", "two.jsonl"}
	d.put("secret", d.Path(names[0]))
	d.Become(agenttest.Variant{Settings: "path: '${file:" + d.Path("secret") + "}', sdk.record.format: opencdc/json"},
		20000)
	for i := 1; i <= 6; i++ {
		d.WaitGrowth(names[(i+1)%2])
		d.put("secret", d.Path(names[i%2]))
		d.Wait("its effect", func() bool {
			return agenttest.Scrape(t, d.Agent, `conduit_plugin_starts_total{plugin="builtin:file"}`) == float64(i+1)
		})
	}
	d.WaitGrowth(names[0])
	if n := agenttest.Scrape(t, d.Agent, `conduit_plugin_starts_total{plugin="builtin:generator"}`); n != 1 {
		t.Errorf("the source was started %v times", n)
	}
	d.WantStarts("p", 1)
	d.Stop()
	agenttest.WantAll(t, agenttest.Numbers(t, d.Path(names[0])), agenttest.Numbers(t, d.Path(names[1])))
}

// A pipeline that failed because a file was missing starts when the file exists.
func TestReferencedFilesMendPipelines(t *testing.T) {
	t.Parallel()
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		d := deskIn(t, "", agenttest.RetryLater)
		d.Save("p.yaml", d.secretly("p", "secret"))
		d.Wait("its failure", func() bool { return d.State("p").Phase == spec.PhaseRecovering })
		d.put("secret", "1001")
		d.waitStarts("p", 1)
	})
	t.Run("wrong after a rollback", func(t *testing.T) {
		t.Parallel()
		d := deskIn(t, "", agenttest.RetryLater)
		d.put("secret", "nonsense")
		d.Save("p.yaml", d.Generated("p", 1))
		d.Runs("p", 1)
		d.Save("p.yaml", d.secretly("p", "secret"))
		d.refused("p", 2)
		d.put("secret", "1001")
		d.waitStarts("p", 2)
	})
	t.Run("wrong, so that the last good version came back", func(t *testing.T) {
		t.Parallel()
		d := deskIn(t, "", agenttest.RetryLater)
		d.put("secret", d.Path("missing/p.jsonl"))
		d.Save("p.yaml", d.Generated("p", 1))
		d.Runs("p", 1)
		d.Save("p.yaml", strings.Replace(d.Generated("p", 1), d.Path("p.jsonl"), "${file:"+d.Path("secret")+"}", 1))
		d.waitStarts("p", 2)
		if g := d.State("p").RunningGeneration; g != 1 {
			t.Errorf("generation %d runs, want 1", g)
		}
		d.put("secret", d.Path("other.jsonl"))
		d.Wait("the new version", func() bool { return d.State("p").RunningGeneration == 2 })
	})
}

// When an edit that refers to other files, or to none, is refused, the agent still watches the files of the running
// version, with and without a rollback. It also watches the files of the edit.
func TestReferencedFilesOfRefusedEdits(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]string{"without files": "nonsense", "with another file": "${file:other}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deskIn(t, "", agenttest.RetryLater)
			d.put("secret", "1001")
			d.put("other", "nonsense")
			d.Save("p.yaml", d.secretly("p", "secret"))
			d.waitStarts("p", 1)
			edited := strings.Replace(d.Generated("p", 1), "rate: 1",
				"rate: '"+strings.Replace(edit, "other", d.Path("other"), 1)+"'", 1)
			d.Save("p.yaml", edited)
			d.refused("p", 2)
			attempt := d.State("p").LastAttempt.At
			d.put("secret", "1002")
			d.Wait("another attempt", func() bool { return d.State("p").LastAttempt.At.After(attempt) })
			d.Save("p.yaml", d.secretly("p", "secret"))
			d.Wait("the first version again", func() bool { return d.State("p").RunningGeneration == 3 })
			d.put("secret", "1003")
			d.waitStarts("p", 2)
			d.Save("p.yaml", edited)
			d.refused("p", 4)
			if edit != "nonsense" {
				d.put("other", "1004")
				d.waitStarts("p", 3)
			}
		})
	}
}

// refused waits until a generation failed and the running version stays.
func (d *desk) refused(id string, generation int64) {
	d.T.Helper()
	d.Wait("the refusal", func() bool {
		a := d.State(id).LastAttempt
		return a != nil && a.Generation == generation && a.Error != ""
	})
}

// A reference to anything but a regular file of limited size prevents its pipeline from running, and affects no other.
// The pipeline runs once such a file exists.
func TestReferencedFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		make func(d *desk, path string) error
		want string
	}{
		"fifo":      {func(_ *desk, path string) error { return mkfifo(path) }, "it is not a regular file"},
		"directory": {func(_ *desk, path string) error { return os.Mkdir(path, 0o700) }, "it is not a regular file"},
		"device": {func(_ *desk, path string) error {
			return os.Symlink("/dev/zero", path)
		}, "it is not a regular file"},
		"too large": {func(_ *desk, path string) error {
			return os.WriteFile(path, make([]byte, 1<<20+1), 0o600)
		}, "it is larger than 1 MiB"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deskIn(t, "", agenttest.RetryLater)
			path := d.Path("secret")
			d.Must(c.make(d, path))
			d.Save("p.yaml", d.secretly("p", "secret"))
			d.Wait("its failure", func() bool {
				return strings.Contains(d.State("p").Error, "cannot read file "+path+": "+c.want)
			})
			d.Must(os.RemoveAll(path))
			d.put("secret", "1001")
			d.waitStarts("p", 1)
		})
	}
}

// A credential is read like a file.
func TestCredentialsThatCannotBeRead(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	path := filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), "rate")
	d := deskIn(t, "", agenttest.RetryLater)
	d.Must(mkfifo(path))
	d.Save("p.yaml", strings.Replace(d.Generated("p", 1), "rate: 1", "rate: '${credential:rate}'", 1))
	d.Wait("its failure", func() bool {
		return strings.Contains(d.State("p").Error, "cannot read credential rate: it is not a regular file")
	})
	d.Must(os.Remove(path))
	d.put("new", "1001")
	d.Must(os.Rename(d.Path("new"), path))
	d.waitStarts("p", 1)
}
