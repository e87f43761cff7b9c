package agenttest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

// Desk is an agent that runs version 1 of the pipelines p and q, from a file each, and a user who edits these files.
// The rate of the generator stands for the version.
type Desk struct {
	*Agent
	T *testing.T
}

// AtDesk starts an agent in a new directory with both pipelines, and returns when they run.
func AtDesk(t *testing.T, change ...func(*config.Config)) *Desk {
	t.Helper()
	d := DeskIn(t, "", change...)
	d.Save("p.yaml", d.Generated("p", 1))
	d.Save("q.yaml", d.Generated("q", 1))
	d.Runs("p", 1)
	d.Runs("q", 1)
	return d
}

// DeskIn starts an agent in dir without changing its files.
func DeskIn(t *testing.T, dir string, change ...func(*config.Config)) *Desk {
	t.Helper()
	return &Desk{Start(t, dir, change...), t}
}

// Again restarts the agent after something happened.
func (d *Desk) Again(meanwhile func(), change ...func(*config.Config)) *Desk {
	d.T.Helper()
	d.Stop()
	meanwhile()
	return DeskIn(d.T, d.Dir, change...)
}

// Generated is a version of a pipeline.
func (d *Desk) Generated(id string, version int) string { return Generated(d.Dir, id, version, "") }

// File returns the path of a pipeline file.
func (d *Desk) File(name string) string { return d.Path(filepath.Join("pipelines", name)) }

// Write writes a pipeline file in place.
func (d *Desk) Write(name, content string) {
	d.T.Helper()
	d.Must(os.WriteFile(d.File(name), []byte(content), 0o644))
}

// Must fails the test with an error.
func (d *Desk) Must(err error) {
	d.T.Helper()
	if err != nil {
		d.T.Fatal(err)
	}
}

// Rename renames a pipeline file.
func (d *Desk) Rename(from, to string) {
	d.T.Helper()
	d.Must(os.Rename(d.File(from), d.File(to)))
}

// Remove removes a pipeline file.
func (d *Desk) Remove(name string) {
	d.T.Helper()
	d.Must(os.Remove(d.File(name)))
}

// Declared returns the desired state of a pipeline, the zero value if there is none.
func (d *Desk) Declared(id string) spec.Declaration {
	d.T.Helper()
	all, err := d.Store.Declarations(d.T.Context())
	d.Must(err)
	for _, decl := range all {
		if decl.Pipeline.ID == id {
			return decl
		}
	}
	return spec.Declaration{}
}

// Problems returns the problems of a pipeline file, one per line.
func (d *Desk) Problems(name string) string {
	d.T.Helper()
	all, err := d.Store.FileStates(d.T.Context())
	d.Must(err)
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

// Runs waits until the given version of a pipeline is declared and runs. The rate of the source is its version.
func (d *Desk) Runs(id string, version int) {
	d.T.Helper()
	d.Wait(fmt.Sprintf("version %d of %s to run", version, id), func() bool {
		decl, s := d.Declared(id), d.State(id)
		return decl.Generation != 0 && decl.Withdrawn.IsZero() &&
			decl.Pipeline.Connectors[0].Settings["rate"] == strconv.Itoa(version) &&
			s.Phase == spec.PhaseRunning && s.RunningGeneration == decl.Generation
	})
}

// Stopped waits until a pipeline has stopped.
func (d *Desk) Stopped(id string) {
	d.T.Helper()
	d.Wait(id+" to stop", func() bool {
		s := d.State(id)
		return s.RunningGeneration == 0 && s.Phase == spec.PhaseStopped
	})
}

// WaitWithdrawn waits until the agent notices that no file declares a pipeline.
func (d *Desk) WaitWithdrawn(id string) {
	d.T.Helper()
	d.Wait(id+" to be withdrawn", func() bool { return !d.Declared(id).Withdrawn.IsZero() })
}

// WaitProblem waits until the problems of a file contain text.
func (d *Desk) WaitProblem(name, text string) {
	d.T.Helper()
	d.Wait("a problem with "+name+": "+text, func() bool { return strings.Contains(d.Problems(name), text) })
}

// Scan scans the pipeline files and returns when the agent has applied them.
func (d *Desk) Scan() {
	d.T.Helper()
	d.Must(d.Files.Reload(d.T.Context(), false))
}

// Starts returns the number of starts of a pipeline.
func (d *Desk) Starts(id string) int {
	times := 0
	for _, message := range []string{"pipeline runs",
		"pipeline was rolled back to the last known good version"} {
		times += strings.Count(d.Log(), fmt.Sprintf(`"msg":%q,"component":"reconcile","pipeline_id":%q`, message, id))
	}
	return times
}

// WantStarts scans the pipeline files and then checks the number of starts of a pipeline.
func (d *Desk) WantStarts(id string, times int) {
	d.T.Helper()
	d.Scan()
	decl := d.Declared(id)
	d.Wait(id+" to be as declared", func() bool { return d.State(id).RunningGeneration == decl.Generation })
	if n := d.Starts(id); n != times {
		d.T.Errorf("%s was started %d times, want %d", id, n, times)
	}
}

// Variant is a version of pipeline p. It generates records at the given rate; everything else may differ between
// versions.
type Variant struct {
	Source, Destination string // plugins; built in if empty
	Settings            string // of the destination
	More                string // keys of the pipeline
}

// Text returns the text of the pipeline file.
func (v Variant) Text(rate int) string {
	source, destination := "builtin:generator", "builtin:file"
	settings := fmt.Sprintf("rate: %d, format.type: structured, format.options.n: int", rate)
	if v.Source != "" {
		source, settings = v.Source, ""
	}
	if v.Destination != "" {
		destination = v.Destination
	}
	return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    connectors:
      - id: src
        type: source
        plugin: %s
        settings: {%s}
      - id: dst
        type: destination
        plugin: %s
        settings: {%s}
%s`, source, settings, destination, v.Settings, v.More)
}

// Become saves a version and waits until it runs.
func (d *Desk) Become(v Variant, rate int) {
	d.T.Helper()
	before := d.Declared("p").Generation
	d.Save("p.yaml", v.Text(rate))
	d.Wait("the new version to run", func() bool {
		decl, s := d.Declared("p"), d.State("p")
		return decl.Generation > before && s.Phase == spec.PhaseRunning && s.RunningGeneration == decl.Generation
	})
}

// WaitGrowth waits until a file is longer than it is now.
func (d *Desk) WaitGrowth(name string) {
	d.T.Helper()
	before := FileSize(d.Path(name))
	d.Wait(name+" to grow", func() bool { return FileSize(d.Path(name)) > before })
}
