package runner_test

import (
	"bytes"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/runner"
	"github.com/conduit-agent/conduit/spec"
)

// pipelineOf returns a pipeline with its own processors, and with processors of a connector if connector is not empty.
func pipelineOf(id string, own []string, connector string, ofConnector ...string) spec.Declaration {
	all := func(ids []string) (all []spec.Processor) {
		for _, id := range ids {
			all = append(all, spec.Processor{ID: id, Plugin: "dedupe"})
		}
		return all
	}
	return spec.Declaration{Pipeline: spec.Pipeline{ID: id, Processors: all(own),
		Connectors: []spec.Connector{{ID: connector, Processors: all(ofConnector)}}}}
}

// write makes files whose content is their path within dir.
func write(t *testing.T, dir string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// tree returns the files below dir with their content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[rel] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// State of earlier versions goes to its only owner. State that is shared, has no owner, or has a successor is
// discarded, and a second start changes nothing.
func TestAdoptState(t *testing.T) {
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "state")
	r := &runner.Runner{StateDir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))}
	r.AdoptState(nil) // there is nothing yet
	declared := []spec.Declaration{
		pipelineOf("plain", []string{"once", "eu"}, "eu", "once"),
		pipelineOf("shop", []string{}, "eu", "once"),
		pipelineOf("shop:eu", []string{"once", "own"}, "c"),
		pipelineOf("Mixed", []string{"Case"}, "c"),
		pipelineOf("..:..:away", []string{"once"}, "c"),
		pipelineOf("torn", []string{"once"}, "c"),
		pipelineOf("done", []string{"once"}, "c"),
		pipelineOf("newer", []string{"once"}, "c"),
	}
	write(t, dir, "plain/once/seen", "plain/eu/seen", "plain/eu/once/seen", "plain/eu/once/seen.next",
		"shop/eu/once/seen", "shop/eu/own/seen",
		"Mixed/Case/seen", "../../away/once/seen", "gone/once/seen", "shop/gone/once/seen",
		"torn/torn+once+draft/seen.next", "torn/once/seen", "done/done+once+draft/seen", "newer/once/seen",
		"newer/newer+once/seen")
	want := map[string]string{
		"plain/plain+once/seen":           "plain/once/seen",
		"plain/plain+eu/seen":             "plain/eu/seen",
		"plain/plain%3aeu+once/seen":      "plain/eu/once/seen",
		"plain/plain%3aeu+once/seen.next": "plain/eu/once/seen.next",
		"shop%3aeu/shop%3aeu+own/seen":    "shop/eu/own/seen",
		"!mixed/!mixed+!case/seen":        "Mixed/Case/seen",
		"torn/torn+once/seen":             "torn/once/seen",
		"torn/torn+once/seen.next":        "torn/torn+once+draft/seen.next",
		"done/done+once/seen":             "done/done+once+draft/seen",
		"newer/newer+once/seen":           "newer/newer+once/seen",
	}
	for range 2 {
		r.AdoptState(declared)
		if got := tree(t, dir); !maps.Equal(got, want) {
			t.Fatalf("state is in %q, want %q", got, want)
		}
	}
	for _, text := range []string{
		"2 processors shared it, and start without state: shop:eu:once, shop:eu:once", "no declared processor uses it",
		"newer:once has newer state",
		"outside of the state directory",
	} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log does not say %q:\n%s", text, log.String())
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 6 {
		t.Errorf("directories left: %v", left)
	}
}

// Deleting a pipeline removes all state of its processors, and nothing else.
func TestForgetStateRemovesOwnState(t *testing.T) {
	ids := []string{"shop", "shop:eu", "Shop", "a:b", ".", "..", "..:..:x", ".hidden", "shop.",
		strings.Repeat("A", 128), strings.Repeat("A", 127) + ":"}
	for _, deleted := range ids {
		r := newRunner(t)
		r.StateDir = filepath.Join(t.TempDir(), "state")
		write(t, r.StateDir, "../neighbour")
		var all []string
		for _, id := range ids {
			write(t, runner.StateDir(r, id), "x+once/seen")
			all = append(all, runner.StateDir(r, id))
		}
		if err := r.ForgetState(deleted); err != nil {
			t.Fatal(err)
		}
		for i, id := range ids {
			if _, err := os.Stat(all[i]); (err == nil) == (id == deleted) || filepath.Dir(all[i]) != r.StateDir {
				t.Errorf("after %q was deleted, state of %q in %s: %v", deleted, id, all[i], err)
			}
		}
		if len(tree(t, filepath.Dir(r.StateDir))) != len(ids) {
			t.Errorf("deleting %q removed something else: %v", deleted, tree(t, filepath.Dir(r.StateDir)))
		}
	}
}
