package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// TestDiff compares the versions of a pipeline that was declared four times: with a
// name, a rate and a secret, with another rate, with another name, with another secret.
func TestDiff(t *testing.T) {
	w := changedWorld(t)
	c, _ := serve(t, newServer(w))
	const rate, name, secret = "change /connectors/gen/settings/rate 1 2 restart", "change /name one two none",
		"change /connectors/gen/settings/db.password *** *** restart"
	for _, tt := range []struct {
		from, to string
		want     []string
	}{
		{"", "", []string{"2→3", secret}}, // a value that came back unchanged is no change
		{"", "2", []string{"2→2", name}},
		{"1", "", []string{"1→3", secret, rate, name}},
		{"1", "2", []string{"1→2", rate, name}},
		{"2", "1", []string{"2→1", "change /connectors/gen/settings/rate 2 1 restart", "change /name two one none"}},
		{"running", "3", []string{"1→3", secret, rate, name}},
		{"3", "3", []string{"3→3"}},
		{"", "1", []string{"→1", "add  - - restart"}},
	} {
		d, err := c.Diff(t.Context(), "p", tt.from, tt.to)
		if err != nil {
			t.Errorf("from %q to %q: %v", tt.from, tt.to, err)
			continue
		}
		if diff := cmp.Diff(tt.want, diffLines(&d)); diff != "" {
			t.Errorf("from %q to %q: %s", tt.from, tt.to, diff)
		}
	}
	for _, tt := range []struct{ id, from, to, reason string }{
		{"p", "7", "", rest.ReasonRevisionNotFound}, {"p", "", "0", rest.ReasonRevisionNotFound},
		{"p", "first", "", spec.CodeInvalid}, {"p", "", "1.0", spec.CodeInvalid},
		{"q", "", "", rest.ReasonPipelineNotFound},
	} {
		if _, err := c.Diff(t.Context(), tt.id, tt.from, tt.to); client.Reason(err) != tt.reason {
			t.Errorf("%s from %q to %q: %v", tt.id, tt.from, tt.to, err)
		}
	}
}

// The running version may be older than the history.
func TestDiffFromWhatRuns(t *testing.T) {
	w := changedWorld(t)
	c, _ := serve(t, newServer(w))
	w.history["p"] = slices.Delete(w.history["p"], 0, 1)
	if _, err := c.Diff(t.Context(), "p", "running", ""); client.Reason(err) != rest.ReasonRevisionNotFound {
		t.Errorf("a version that is nowhere: %v", err)
	}
	good := pipelineOf("p", spec.StatusRunning)
	w.states["p"] = spec.State{PipelineID: "p", Phase: spec.PhaseRunning, RunningGeneration: 1,
		LastGood: &spec.LastGood{Generation: 1, Pipeline: good}}
	if d, err := c.Diff(t.Context(), "p", "running", ""); err != nil || d.From.Generation != 1 ||
		d.From.Revision != 0 || len(d.Changes) != 3 {
		t.Errorf("from what runs: %+v, %v", d, err)
	}
	w.states["p"] = spec.State{PipelineID: "p", Phase: spec.PhaseStopped}
	if _, err := c.Diff(t.Context(), "p", "running", ""); client.Reason(err) != rest.ReasonPipelineNotRunning {
		t.Errorf("nothing runs: %v", err)
	}
}

// changedWorld returns a world with pipeline p in three generations. The first one is running.
func changedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	declare := func(name, rate, secret string) {
		p := pipelineOf("p", spec.StatusRunning)
		p.Name, p.Connectors[0].Settings = name, map[string]string{"rate": rate, "db.password": secret}
		w.fromFile("p.yaml", p)
	}
	declare("one", "1", "hunter2")
	w.frozen = true // generation 1 keeps running
	declare("one", "2", "hunter2")
	declare("two", "2", "hunter2")
	declare("two", "2", "hunter3")
	w.history["p"] = append(w.history["p"], spec.Revision{Pipeline: "p", Number: 5, Generation: 3, Action: "withdraw"},
		w.history["p"][3])
	w.history["p"][5].Number = 6
	return w
}

func diffLines(d *rest.Diff) []string {
	from := ""
	if d.From != nil {
		from = fmt.Sprint(d.From.Generation)
	}
	lines := []string{fmt.Sprintf("%s→%d", from, d.To.Generation)}
	text := func(value *string) string {
		if value == nil {
			return "-"
		}
		return *value
	}
	for _, c := range d.Changes {
		lines = append(lines, strings.Join([]string{string(c.Action), c.Path, text(c.Old), text(c.New),
			string(c.Effect)}, " "))
	}
	return lines
}
