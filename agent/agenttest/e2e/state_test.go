package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/spec"
)

// The state of dedupe is deleted with its pipeline: a new pipeline with the same id starts without state, and delivers
// all records.
func TestStateGoesWithThePipeline(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "", agenttest.AtOnce)
	if err := os.WriteFile(a.Path("in.txt"), []byte("a\nb\na\nc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	state := a.Path("conduit.db.processors")
	for _, out := range []string{"first.jsonl", "second.jsonl"} {
		a.Save("p.yaml", fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    status: running
    connectors:
      - {id: in, type: source, plugin: "builtin:file", settings: {path: %q}}
      - {id: out, type: destination, plugin: "builtin:file", settings: {path: %q}}
    processors:
      - {id: once, plugin: dedupe, settings: {key: .Payload.After}}
`, a.Path("in.txt"), a.Path(out)))
		a.Wait("three records in "+out, func() bool { return countLines(a.Path(out)) == 3 })
		a.Wait("keys on disk", func() bool { return len(filesBelow(state)) > 0 })
		a.Save("p.yaml", "version: \"2.2\"\npipelines: []\n")
		a.Wait("the end of the pipeline", func() bool {
			return a.State("p").Phase == spec.Phase("") && len(filesBelow(state)) == 0
		})
	}
}

func countLines(path string) (n int) {
	content, _ := os.ReadFile(path)
	for _, b := range content {
		if b == '\n' {
			n++
		}
	}
	return n
}

// filesBelow returns all files below a directory.
func filesBelow(dir string) (all []string) {
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			all = append(all, path)
		}
		return nil
	})
	return all
}
