package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
)

// deduping is a pipeline that copies ten lines. The pipeline, its source, or both have a dedupe processor.
func deduping(id, source, out, own, ofSource string) string {
	list := func(id string) string {
		if id == "" {
			return "[]"
		}
		return fmt.Sprintf("[{id: %q, plugin: dedupe, settings: {key: .Payload.After}}]", id)
	}
	return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: %q
    processors: %s
    connectors:
      - {id: %q, type: source, plugin: file, settings: {path: %s/in}, processors: %s}
      - {id: out, type: destination, plugin: file, settings: {path: %s, sdk.record.format: template,
         sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}}
`, id, list(own), source, filepath.Dir(out), list(ofSource), out)
}

// Pipelines with similar ids each deliver all their own records, keep separate state until they are deleted, and leave
// no state behind.
func TestStateOfAlikeIDs(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	a := agenttest.Start(t, dir, func(c *config.Config) { c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 1, 1 })
	if err := os.WriteFile(a.Path("in"), []byte("0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	state := a.Path("conduit.db.processors")
	pipelines := []struct{ id, source, own, ofSource string }{
		{"shop", "eu", "", "once"},
		{"shop:eu", "in", "once", ""},
		{"Shop", "in", "once", ""},
		{"both", "eu", "eu:once", "once"}, // two processors with the same qualified id
		{"..:..:away", "in", "once", ""},
		{".", "in", "..", ""},
		{strings.Repeat("L", 128), "in", strings.Repeat("M", 100), ""},
	}
	out := func(i int) string { return a.Path(fmt.Sprintf("%d.out", i)) }
	save := func(i int) {
		p := pipelines[i]
		a.Save(fmt.Sprintf("%d.yaml", i), deduping(p.id, p.source, out(i), p.own, p.ofSource))
	}
	delivered := func(i int) func() bool {
		return func() bool { text, _ := os.ReadFile(out(i)); return strings.Count(string(text), "\n") == 10 }
	}
	kept := func() int {
		var all []string
		_ = filepath.WalkDir(state, func(path string, e os.DirEntry, _ error) error {
			if filepath.Base(path) == "seen" {
				all = append(all, path)
			}
			return nil
		})
		return len(all)
	}
	for i, p := range pipelines {
		save(i)
		a.Wait("ten records of "+p.id, delivered(i))
	}
	if n := kept(); n != len(pipelines)+1 {
		t.Errorf("%d processors keep state, want %d", n, len(pipelines)+1)
	}
	if n := agenttest.Scrape(t, a,
		`conduit_processor_records_total{component_id="both:eu:once",pipeline_name="both",`+
			`processor="dedupe",result="in"}`); n == 0 {
		t.Error("metrics lack a processor")
	}
	for i := range slices.Backward(pipelines) {
		if err := os.Remove(filepath.Join(a.Path("pipelines"), fmt.Sprintf("%d.yaml", i))); err != nil {
			t.Fatal(err)
		}
		want := i
		if i > 3 {
			want++ // the pipeline that has two
		}
		a.Wait("state of "+pipelines[i].id+" to go", func() bool { return kept() == want })
		if err := os.Remove(out(i)); err != nil {
			t.Fatal(err)
		}
		save(i)
		a.Wait("ten records of "+pipelines[i].id+" again", delivered(i))
		if err := os.Remove(filepath.Join(a.Path("pipelines"), fmt.Sprintf("%d.yaml", i))); err != nil {
			t.Fatal(err)
		}
		a.Wait("state of "+pipelines[i].id+" to go again", func() bool { return kept() == want })
	}
	a.Wait("directories of state to go", func() bool {
		left, err := os.ReadDir(state)
		return err == nil && len(left) == 0
	})
}
