package e2e_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// TestPlanOfAnAgent plans over the API while a pipeline runs: for the files on disk, for files that are not saved yet,
// and for files with problems that prevent them from running. Planning changes nothing and shows no value of a setting.
func TestPlanOfAnAgent(t *testing.T) {
	t.Setenv("PLANNED_SECRET", "hunter2 is no plugin")
	w := startWeb(t, "")
	w.Save("p.yaml", agenttest.File("p", "running", "1"))
	w.WaitPhase("p", spec.PhaseRunning, 1)

	if plan, err := w.API.Plan(t.Context()); err != nil || plan.Files != 1 || plan.CleanupDelay == "" ||
		len(agenttest.Lines(&plan)) != 0 {
		t.Errorf("nothing changed: %+v, %v", plan, err)
	}
	for _, c := range planCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, w) })
	}
	for _, path := range []string{"../p.yaml", "sub/p.yaml", "/etc/passwd", "p.txt", ".p.yaml", ""} {
		_, err := w.API.PlanFiles(t.Context(), spec.PlanRequest{Files: []spec.PlanFile{{Path: path}}})
		if client.Reason(err) != spec.CodeInvalid || !strings.Contains(err.Error(), "pipelines.path") {
			t.Errorf("path %q: %v", path, err)
		}
	}
	if s := w.State("p"); s.RunningGeneration != 1 || s.Phase != spec.PhaseRunning {
		t.Errorf("planning changed what runs: %+v", s)
	}
}

// planCase is a plan for files, by an agent that runs version 1 of p.yaml.
type planCase struct {
	name    string
	request spec.PlanRequest
	want    []string
	at      []string // places of problems
}

var wrongPlan = strings.NewReplacer("plugin: log", "plugin: nowhere", `rate: "hunter2"`,
	`rate: "hunter2", password: "${NOT_SET}"`).Replace(agenttest.File("n", "running", "hunter2"))

var planCases = []planCase{
	{"saved", spec.PlanRequest{Files: []spec.PlanFile{{Path: "p.yaml", Content: agenttest.File("p", "running", "2")}}},
		[]string{"change p: restart running→running at p.yaml:3 [/connectors/in/settings/rate@6:68]"}, nil},
	{"another file",
		spec.PlanRequest{Files: []spec.PlanFile{{Path: "n.yaml", Content: agenttest.File("n", "running", "2")}}},
		[]string{"add n: restart →running at n.yaml:3 [@3:5]"}, nil},
	{"all files", spec.PlanRequest{Files: []spec.PlanFile{{Path: "n.yaml",
		Content: agenttest.File("n", "running", "2")}}, Replace: true},
		[]string{"add n: restart →running at n.yaml:3 [@3:5]", "remove p: position-lost running→ at p.yaml:0 [@0:0]"},
		nil},
	{"no files", spec.PlanRequest{Replace: true}, []string{"remove p: position-lost running→ at p.yaml:0 [@0:0]"}, nil},
	{"broken", spec.PlanRequest{Files: []spec.PlanFile{{Path: "p.yaml", Content: "pipelines: ["}}},
		[]string{"p.yaml: config.parse_error"}, []string{"2:1"}},
	{"plugins and references", spec.PlanRequest{Files: []spec.PlanFile{{Path: "n.yaml", Content: wrongPlan}}},
		[]string{"add n: restart →running at n.yaml:3 [@3:5]", "n.yaml: config.field_invalid",
			"n.yaml: config.reference_unresolved", "n.yaml: connector.plugin_not_found"},
		[]string{"6:68", "6:89", "7:46"}},
	{"a file without an end", spec.PlanRequest{Files: []spec.PlanFile{{Path: "n.yaml",
		Content: agenttest.File("n", "running", "${file:/dev/zero}")}}},
		[]string{"add n: restart →running at n.yaml:3 [@3:5]", "n.yaml: config.reference_unresolved"},
		[]string{"6:68"}},
	{"a plugin from a variable", spec.PlanRequest{Files: []spec.PlanFile{{Path: "n.yaml",
		Content: strings.Replace(agenttest.File("n", "stopped", "1"), "plugin: log", `plugin: "${PLANNED_SECRET}"`,
			1)}}},
		[]string{"add n: none →stopped at n.yaml:3 [@3:5]", "n.yaml: config.field_invalid"}, []string{"7:46"}},
}

func (c *planCase) check(t *testing.T, w *web) {
	plan, err := w.API.PlanFiles(t.Context(), c.request)
	if err != nil {
		t.Fatal(err)
	}
	got := agenttest.Lines(&plan)
	slices.Sort(got)
	if diff := cmp.Diff(c.want, got); diff != "" {
		t.Errorf("%s\n%+v", diff, plan)
	}
	var at []string
	for _, p := range plan.Problems {
		at = append(at, fmt.Sprintf("%d:%d", p.Line, p.Column))
	}
	if diff := cmp.Diff(c.at, at); diff != "" {
		t.Errorf("places: %s", diff)
	}
	if text := fmt.Sprintf("%+v", plan); strings.Contains(text, "hunter2") {
		t.Errorf("a value is shown: %s", text)
	}
	if len(plan.Held) > 0 {
		t.Errorf("held is %v", plan.Held)
	}
}

// The plan reports what happens when the directory of the files is missing or empty.
func TestPlanWithoutFiles(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	w.Save("p.yaml", agenttest.File("p", "running", "1"))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	// A missing directory is an error, not a plan.
	if err := os.Rename(w.Path("pipelines"), w.Path("elsewhere")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.API.Plan(t.Context()); client.Reason(err) != rest.ReasonUnavailable {
		t.Errorf("without the directory: %v", err)
	}
	// An empty directory in its place may be an accident.
	if err := os.Mkdir(w.Path("pipelines"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.Wait("the files are held", func() bool {
		plan, err := w.API.Plan(t.Context())
		return err == nil && len(plan.Pipelines) == 0 && slices.Equal(plan.Held, []string{"p.yaml"})
	})
	if plan, err := w.API.PlanFiles(t.Context(), spec.PlanRequest{Replace: true}); err != nil ||
		!slices.Equal(plan.Held, []string{"p.yaml"}) {
		t.Errorf("no files in an empty directory: %+v, %v", plan, err)
	}
	// Files that disappear from a watched directory do not reappear by themselves.
	w.Save("p.yaml", agenttest.File("p", "running", "1"))
	if err := w.Files.Reload(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	plan, err := w.API.PlanFiles(t.Context(), spec.PlanRequest{Replace: true})
	if err != nil || len(plan.Held) > 0 || len(plan.Pipelines) != 1 {
		t.Errorf("no files any more: %+v, %v", plan, err)
	}
	if err := os.Remove(w.Path("pipelines/p.yaml")); err != nil {
		t.Fatal(err)
	}
	w.Wait("that it is what happens", func() bool {
		declared, err := w.Store.Declarations(t.Context())
		return err == nil && len(declared) == 1 && !declared[0].Withdrawn.IsZero()
	})
}
