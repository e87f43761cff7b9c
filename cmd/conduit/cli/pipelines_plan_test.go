package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/planner"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/spec"
)

// TestPlanOffline compares files with declared state: "p" of p.yaml runs, "s" of s.yaml is
// declared to run and was stopped over the API, "a" belongs to the API, "w" is withdrawn.
func TestPlanOffline(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string // in pipelines.path; a name beginning with .. lies next to the directory
		paths []string
		want  []string
	}{
		{"as declared", map[string]string{"p.yaml": agenttest.File("p", "running", "1"),
			"s.yaml": agenttest.File("s", "running", "1")}, nil, nil},
		{"renamed files", map[string]string{"p2.yaml": agenttest.File("p", "running", "1"),
			"s2.yml": agenttest.File("s", "running", "1")}, nil, nil},
		{"changed and gone", map[string]string{"p.yaml": agenttest.File("p", "running", "2")}, nil, []string{
			"change p: restart running→running at p.yaml:3 [/connectors/in/settings/rate@6:68]",
			"remove s: position-lost stopped→ at s.yaml:0 [@0:0]"}},
		{"started again by a change", map[string]string{"p.yaml": agenttest.File("p", "running", "1"),
			"s.yaml": agenttest.File("s", "running", "2")}, nil, []string{
			"change s: restart stopped→running at s.yaml:3 [/connectors/in/settings/rate@6:68]"}},
		{"stopped", map[string]string{"p.yaml": agenttest.File("p", "stopped", "1"),
			"s.yaml": agenttest.File("s", "stopped", "2")}, nil, []string{
			"change p: in-place running→stopped at p.yaml:3 [/status@4:13]",
			"change s: none stopped→stopped at s.yaml:3 [/connectors/in/settings/rate@6:68 /status@4:13]"}},
		{"back", map[string]string{"p.yaml": agenttest.File("p", "running", "1"), "s.yaml": agenttest.File("s",
			"running", "1"), "w.yaml": agenttest.File("w", "running", "1")}, nil, []string{
			"add w: restart →running at w.yaml:3 [@3:5]"}},
		{"owned by others", map[string]string{"p.yaml": agenttest.File("p", "running", "1"),
			"s.yaml": agenttest.File("s", "running", "1"), "x.yaml": agenttest.File("a", "running", "1"),
			"y.yaml": agenttest.File("p", "running", "1")}, nil, []string{
			"x.yaml: pipeline.owned_by_api", "y.yaml: pipeline.duplicate_id"}},
		{"one file", map[string]string{"p.yaml": agenttest.File("p", "running", "2"),
			"../new/s.yaml": agenttest.File("n", "running", "1")}, []string{"new/s.yaml"}, []string{
			"add n: restart →running at s.yaml:3 [@3:5]", "remove s: position-lost stopped→ at s.yaml:0 [@0:0]",
			"s.yaml: pipeline.looks_renamed"}},
		{"moved to another file", map[string]string{"p.yaml": agenttest.File("p", "running", "1"),
			"../new/t.yaml": agenttest.File("s", "running", "1")}, []string{"new/t.yaml"}, nil},
		{"a directory", map[string]string{"p.yaml": agenttest.File("p", "running", "2"),
			"../new/p.yaml": agenttest.File("p", "running", "1")}, []string{"new"}, []string{
			"remove s: position-lost stopped→ at s.yaml:0 [@0:0]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			c := config.Config{Pipelines: config.Pipelines{Path: "pipelines"},
				DB: config.DB{SQLite: config.SQLite{Path: "conduit.db"}}}
			declareForPlan(t, c.DB.SQLite.Path)
			for name, text := range tt.files {
				path := filepath.Join("pipelines", name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			plan, err := planner.Offline(t.Context(), c, spec.Parser{}, planRequestOf(t, tt.paths...), nothingWrong, nil,
				nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, agenttest.Lines(plan)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// planRequestOf returns the request for files to be saved, or for a directory.
func planRequestOf(t *testing.T, paths ...string) (request spec.PlanRequest) {
	t.Helper()
	for _, path := range paths {
		files, err := planner.Files(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		request.Files = append(request.Files, files...)
		info, err := os.Stat(path)
		request.Replace = err == nil && info.IsDir()
	}
	return request
}

func nothingWrong(*spec.Pipeline) []spec.Problem { return nil }

func declareForPlan(t *testing.T, path string) {
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var c spec.Changes
	for id, owner := range map[string]spec.Owner{
		"p": {Kind: spec.OwnerFile, Path: "p.yaml", Line: 3}, "s": {Kind: spec.OwnerFile, Path: "s.yaml", Line: 3},
		"w": {Kind: spec.OwnerFile, Path: "w.yaml", Line: 3}, "a": {Kind: spec.OwnerAPI},
	} {
		p := spec.ParseFile("", []byte(agenttest.File(id, "running", "1"))).Pipelines[0].Pipeline
		c.Declare = append(c.Declare, spec.Declare{Pipeline: p, Owner: owner})
	}
	for _, err := range []error{
		db.Apply(t.Context(), &c), db.Apply(t.Context(), &spec.Changes{Withdraw: []spec.Withdraw{{ID: "w"}}}),
		db.SetOverride(t.Context(), "s", spec.StatusStopped),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}
