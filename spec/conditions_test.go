package spec_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/yamldoc"
)

// When the state began, and when the version was tried.
var since, tried = time.Unix(100, 0), time.Unix(200, 0)

func attempt(generation int64, err string) *spec.Attempt {
	return &spec.Attempt{Generation: generation, At: tried, Error: err}
}

func lastGood(generation int64) *spec.LastGood { return &spec.LastGood{Generation: generation} }

// sound is the state of a pipeline that runs as declared.
var sound = spec.State{Phase: spec.PhaseRunning, RunningGeneration: 2, LastAttempt: attempt(2, ""),
	LastGood: lastGood(2), Since: since}

func problemOf(severity spec.Severity, code string) []spec.Problem {
	return []spec.Problem{{File: "x.yaml", Line: 7, Column: 9, Severity: severity, Code: code, Message: "no"}}
}

// conditionCase is a pipeline at generation 2, declared in p.yaml:3, and its conditions that differ from the conditions
// of a pipeline that runs as declared.
type conditionCase struct {
	name     string
	declared spec.Status
	override spec.Status
	state    spec.State
	problems []spec.Problem
	want     string
}

var conditionsOfFiles = []conditionCase{
	{"runs as declared", "running", "", sound, nil, ""},
	{"a warning", "running", "", sound, problemOf(spec.SeverityWarning, spec.CodeInvalid), ""},
	{"a file with errors", "running", "", sound, problemOf(spec.SeverityError, spec.CodeInvalid),
		"Valid=False FileHasErrors (no) x.yaml:7:9 gen 2"},
	{"declared in two files", "running", "", sound, problemOf(spec.SeverityError, spec.CodeDeclaredTwice),
		"Conflict=True DeclaredTwice (no) x.yaml:7:9 gen 2"},
	{"declared over the API and in a file", "running", "", sound, problemOf(spec.SeverityError, spec.CodeOwnedByAPI),
		"Conflict=True OwnedByAPI (no) x.yaml:7:9 gen 2"},
	{"taken over by its file a moment ago", "running", "", sound,
		[]spec.Problem{{File: "p.yaml", Severity: spec.SeverityError, Code: spec.CodeOwnedByAPI}}, ""},
}

var conditionsOfVersions = []conditionCase{
	{"has to prove itself", "running", "", spec.State{Phase: spec.PhaseRunning, RunningGeneration: 2,
		LastAttempt: attempt(2, ""), LastGood: lastGood(1)}, nil,
		"Ready=False Proving (generation 2 is running, and is still on probation) gen 2"},
	{"rolled back", "running", "", spec.State{Phase: spec.PhaseRunning, RunningGeneration: 1,
		LastAttempt: attempt(2, "why"), LastGood: lastGood(1)}, nil,
		"Applied=False UpdateFailed (why) p.yaml:3:0 gen 2; Ready=False RolledBack (generation 1 is running because " +
			"generation 2 failed) gen 2; RolledBack=True UpdateFailed (generation 1 is running because generation 2 " +
			"failed: why) p.yaml:3:0 gen 2"},
	{"could not be applied again", "running", "", spec.State{Phase: spec.PhaseRunning, RunningGeneration: 2,
		LastAttempt: attempt(2, "why"), LastGood: lastGood(2)}, nil,
		"Applied=False UpdateFailed (generation 2 is running, but could not be re-applied: why) p.yaml:3:0 gen 2; " +
			"Ready=False Outdated (generation 2 is running, but could not be re-applied: why) gen 2"},
	{"about to be updated", "running", "", spec.State{Phase: spec.PhaseRunning, RunningGeneration: 1,
		LastAttempt: attempt(1, ""), LastGood: lastGood(1)}, nil,
		"Applied=False InProgress (generation 2 has not started yet) gen 1; Ready=False Outdated (generation 1 is " +
			"running, but generation 2 is declared) gen 1"},
	{"an earlier update failed", "running", "", spec.State{Phase: spec.PhaseRunning, RunningGeneration: 0,
		LastAttempt: attempt(1, "old"), LastGood: lastGood(0)}, nil,
		"Applied=False InProgress (generation 2 has not started yet) gen 1; Ready=False Outdated (generation 0 is " +
			"running, but generation 2 is declared) gen 1"},
	{"drains to be updated", "running", "", spec.State{Phase: spec.PhaseStopping, RunningGeneration: 1,
		LastAttempt: attempt(1, ""), LastGood: lastGood(1), Since: since}, nil,
		"Applied=False InProgress (generation 2 has not started yet) gen 1; Ready=False Stopping (the pipeline is " +
			"stopping) gen 1; " +
			"Draining=True Stopping (settling in-flight records) gen 1 at 100"},
	{"starts for the first time", "running", "", spec.State{Phase: spec.PhaseStarting}, nil,
		"Applied=False InProgress (generation 2 has not started yet); Ready=False Starting (the pipeline is starting)"},
	{"recovers", "running", "", spec.State{Phase: spec.PhaseRecovering, LastAttempt: attempt(2, ""),
		LastGood: lastGood(2), Error: "why"}, nil,
		"Applied=False Failed (why) p.yaml:3:0 gen 2; Ready=False Recovering (the pipeline is recovering) gen 2"},
	{"failed for good", "running", "", spec.State{Phase: spec.PhaseDegraded, LastAttempt: attempt(2, "why"),
		Error: "why"}, nil,
		"Applied=False Failed (why) p.yaml:3:0 gen 2; Ready=False Degraded (the pipeline is degraded) gen 2"},
}

var conditionsOfStops = []conditionCase{
	{"stopped as declared", "stopped", "", spec.State{Phase: spec.PhaseStopped, Since: since}, nil,
		"Applied=True Stopped (the pipeline is stopped) gen 2 at 100; Ready=False Stopped (the pipeline is stopped)"},
	{"stopped as asked for", "running", "stopped",
		spec.State{Phase: spec.PhaseStopped, LastAttempt: attempt(2, ""), Since: since}, nil,
		"Applied=True Stopped (the pipeline is stopped, because of a request; the declared status is running) gen 2 " +
			"at 100; Ready=False Stopped (the pipeline is stopped) gen 2"},
	{"is to stop", "stopped", "", sound, nil,
		"Applied=False InProgress (the pipeline is stopping) gen 2"},
	{"runs as asked for", "stopped", "running", sound, nil,
		"Applied=True Running (generation 2 is running, because of a request; the declared status " +
			"is stopped) gen 2 at 200"},
	{"withdrawn", "running", "", sound, nil,
		"Applied=False InProgress (the pipeline is stopping, because it is no longer declared) gen 2"},
	{"its plugins changed", "running", "", sound, nil,
		"PluginChanged=True PluginGone (one is gone; one was replaced) gen 2"},
	{"its plugins were replaced", "running", "", sound, nil, "PluginChanged=True PluginReplaced (a restart would use " +
		"standalone:x@v2, the new file connectors/y: conduit pipelines restart p) gen 2"},
}

func TestConditions(t *testing.T) {
	for _, tt := range slices.Concat(conditionsOfFiles, conditionsOfVersions, conditionsOfStops) {
		d := &spec.Declaration{Pipeline: spec.Pipeline{ID: "p", Status: tt.declared}, Override: tt.override,
			Generation: 2, Owner: spec.Owner{Kind: spec.OwnerFile, Path: "p.yaml", Line: 3}}
		if tt.name == "withdrawn" {
			d.Withdrawn = since
		}
		var changes []spec.PluginChange
		if tt.name == "its plugins changed" {
			changes = []spec.PluginChange{{Pipeline: "p", Reason: "PluginGone", Message: "one is gone"},
				{Pipeline: "p", Reason: "PluginReplaced", Message: "one was replaced"}}
		}
		if tt.name == "its plugins were replaced" {
			for _, now := range []string{"standalone:x@v2", "the new file connectors/y", "standalone:x@v2"} {
				changes = append(changes, spec.PluginChange{Reason: "PluginReplaced", Message: "replaced", Now: now})
			}
		}
		usual := map[string]bool{"Valid=True Valid () gen 2": true,
			"Applied=True Running (generation 2 is running) gen 2 at 200": true,
			"Ready=True Running (generation 2 is running) gen 2":          true}
		var got, types []string
		for _, c := range spec.Conditions(d, &tt.state, tt.problems, changes) {
			types = append(types, string(c.Type))
			if c.Type == spec.ConditionDelivering { // see TestDelivering
				continue
			}
			line := conditionLine(c)
			no := c.Status == spec.ConditionFalse && strings.HasPrefix(c.Reason, "No") && c.Message == ""
			if !usual[line] && !no {
				got = append(got, line)
			}
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, "; ")); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		if all := strings.Join(types, " "); all != "Valid Applied Ready Delivering Draining Conflict RolledBack "+
			"PluginChanged" {
			t.Errorf("%s: conditions are %s", tt.name, all)
		}
	}
}

func conditionLine(c spec.Condition) string {
	line := fmt.Sprintf("%s=%s %s (%s)", c.Type, c.Status, c.Reason, c.Message)
	if c.File != "" {
		line += fmt.Sprintf(" %s:%d:%d", c.File, c.Line, c.Column)
	}
	if c.ObservedGeneration > 0 {
		line += fmt.Sprintf(" gen %d", c.ObservedGeneration)
	}
	if !c.LastTransitionTime.IsZero() {
		line += fmt.Sprintf(" at %d", c.LastTransitionTime.Unix())
	}
	return line
}

// A pipeline delivers only if it runs and no stall was observed.
func TestDelivering(t *testing.T) {
	stalled := sound
	stalled.Stall = &spec.Stall{Reason: "DestinationStuck", Stage: "p:out", Message: "why", Since: time.Unix(150, 0)}
	recovering := spec.State{Phase: spec.PhaseRecovering, Error: "why", Stall: stalled.Stall}
	for name, tt := range map[string]struct {
		state spec.State
		want  string
	}{
		"runs":             {sound, "Delivering=True Delivering (records are delivered) gen 2"},
		"delivers nothing": {stalled, "Delivering=False DestinationStuck (why) gen 2 at 150"},
		"recovers":         {recovering, "Delivering=False DestinationStuck (why) at 150"},
		"is stopped":       {spec.State{Phase: spec.PhaseStopped}, "Delivering=False Stopped (the pipeline is stopped)"},
	} {
		d := &spec.Declaration{Pipeline: spec.Pipeline{ID: "p", Status: spec.StatusRunning}, Generation: 2}
		ready := ""
		for _, c := range spec.Conditions(d, &tt.state, nil, nil) {
			if c.Type == spec.ConditionDelivering && conditionLine(c) != tt.want {
				t.Errorf("%s: %s", name, conditionLine(c))
			}
			if c.Type == spec.ConditionReady {
				ready = c.Reason
			}
		}
		if name == "delivers nothing" && ready != "NotDelivering" {
			t.Errorf("%s: it is ready because of %s", name, ready)
		}
	}
}

// A failure belongs to the failed stage, and begins with the first failure.
func TestFailure(t *testing.T) {
	p := &spec.Pipeline{ID: "p", Connectors: []spec.Connector{{ID: "in", Type: spec.TypeSource},
		{ID: "out", Type: spec.TypeDestination}}}
	first := time.Unix(100, 0)
	for id, want := range map[string]string{"p:in": "SourceFailed", "p:out": "DestinationFailed",
		"p:out:mask": "ProcessorFailed", "p:dead-letter-queue": "DeadLetterQueueFailed"} {
		s := spec.Failure(nil, id, p.StageKind(id), false, "why", first)
		if s.Reason != want || s.Stage != id || !s.Since.Equal(first) || !s.Failed {
			t.Errorf("%s: %+v", id, s)
		}
		if again := spec.Failure(s, id, p.StageKind(id), true, "why", first.Add(time.Hour)); !again.Since.Equal(
			first) || !strings.HasSuffix(again.Reason, "Refuses") {
			t.Errorf("%s again: %+v", id, again)
		}
	}
	if s := spec.Failure(nil, "", "", false, "why", first); s.Reason != "PipelineFailed" {
		t.Errorf("of no stage: %+v", s)
	}
}

// The failure of a connector is shown at its place in the file, and any other failure at the place of the pipeline.
func TestFailuresNameTheConnector(t *testing.T) {
	attempt := func(stage string) spec.State {
		return spec.State{Phase: spec.PhaseRunning, RunningGeneration: 1, LastGood: &spec.LastGood{Generation: 1},
			LastAttempt: &spec.Attempt{Generation: 2, Error: "no", Stage: stage}}
	}
	failed := func(generation int64, stage string) spec.State {
		return spec.State{Phase: spec.PhaseRecovering, Error: "no", Stall: &spec.Stall{Generation: generation, Stage: stage}}
	}
	for name, tt := range map[string]struct {
		state spec.State
		want  string // the place
	}{
		"a destination cannot be opened": {failed(2, "p:out"), "p.yaml:9:7"},
		"a source cannot be opened":      {failed(2, "p:in"), "p.yaml:5:7"},
		"processors of the pipeline":     {failed(2, "p"), "p.yaml:3:0"},
		"a connector without a place":    {failed(2, "p:hidden"), "p.yaml:3:0"},
		"of another version":             {failed(1, "p:out"), "p.yaml:3:0"},
		"an update of a source":          {attempt("p:in"), "p.yaml:5:7"},
		"an update of unknown cause":     {attempt(""), "p.yaml:3:0"},
	} {
		d := &spec.Declaration{Generation: 2, Pipeline: spec.Pipeline{ID: "p", Status: spec.StatusRunning,
			Connectors: []spec.Connector{{ID: "in"}, {ID: "out"}, {ID: "hidden"}}}, Owner: spec.Owner{
			Kind: spec.OwnerFile, Path: "p.yaml", Line: 3, Places: spec.PlacesOf(map[string]yamldoc.Mark{
				"/connectors/0": {Line: 5, Column: 7}, "/connectors/1": {Line: 9, Column: 7}})}}
		shown := 0
		for _, c := range spec.Conditions(d, &tt.state, nil, nil) {
			if c.Type != spec.ConditionApplied && c.Type != spec.ConditionRolledBack || c.Message == "" {
				continue
			}
			shown++
			if got := fmt.Sprintf("%s:%d:%d", c.File, c.Line, c.Column); got != tt.want {
				t.Errorf("%s: %s at %s, want %s", name, c.Type, got, tt.want)
			}
		}
		if shown == 0 {
			t.Errorf("%s: nothing says that it failed", name)
		}
	}
}
