package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/spec"
)

func TestStatusShowsWhichSourcesWait(t *testing.T) {
	const waiting = "no record yet, open since 2026-01-02T03:04:05Z"
	got := behindWords(&spec.PipelineRates{Stages: map[string]spec.StageRates{"p:b": {Waiting: waiting},
		"p:a": {Records: 1}}})
	if got != "p:b: "+waiting {
		t.Errorf("got %q", got)
	}
}

func TestStatusShowsHowFarSourcesAre(t *testing.T) {
	behind := int64(2)
	got := behindWords(&spec.PipelineRates{Stages: map[string]spec.StageRates{
		"p:a": {Behind: &progress.Report{Records: &behind,
			Snapshots: []progress.Snapshot{{Of: "orders", Rows: 100, Total: 400,
				StartedAt: time.Now().Add(-time.Minute)}}}},
		"p:b": {Behind: &progress.Report{Warning: "it is said elsewhere"}}, "p:c": {},
	}})
	if !regexp.MustCompile(`^orders 25 % \(100 of 400 rows, \d+m\d+s left\), 2 records behind$`).MatchString(got) {
		t.Errorf("got %q", got)
	}
}

// A narrow terminal shows every pipeline with its phase and its errors.
func TestStatusFitsANarrowTerminal(t *testing.T) {
	const id = "a-pipeline-with-a-rather-long-name-that-says-what-it-does"
	all := []pipelineStatus{
		{PipelineStatus: rest.PipelineStatus{ID: id, Generation: 2, Override: spec.StatusStopped,
			Declared: spec.StatusRunning, State: spec.State{Phase: spec.PhaseStopped}}},
		{PipelineStatus: rest.PipelineStatus{ID: "third", Generation: 1, State: spec.State{Phase: spec.PhaseDegraded,
			Error: "third.yaml:22:17: cannot start connector third:log-destination: cannot find plugin"}}},
	}
	plain := func(text, _ string) string { return text }
	for width, want := range map[int]string{
		80: "PIPELINE          PHASE     VERSION DECLARED                      VERSION RUNNI…\n" +
			"a-pipeline-with…  stopped   2, stopped by hand, declared running  -            …\n",
		120: "PIPELINE",
	} {
		var page bytes.Buffer
		if err := pipelineTable(all, layout{below: true, id: max(minID, width-otherColumns)}).Write(&page,
			plain); err != nil {
			t.Fatal(err)
		}
		got := string(terminal.Fit(page.Bytes(), width, 24))
		if !strings.HasPrefix(got, want) {
			t.Errorf("at %d columns:\n%s", width, got)
		}
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(line) - 1; n > width {
				t.Errorf("%d characters at %d columns: %s", n, width, line)
			}
		}
		if !strings.Contains(got, "\nthird ") ||
			!strings.Contains(got, "\n    third.yaml:22:17: cannot start connector") {
			t.Errorf("at %d columns no error is seen:\n%s", width, got)
		}
	}
}

func TestStatusShowsNotes(t *testing.T) {
	var page bytes.Buffer
	stages := map[string]spec.StageRates{"p:a": {Behind: &progress.Report{Notes: []string{"no file matches /x/*"}}}}
	one := pipelineStatus{PipelineStatus: rest.PipelineStatus{ID: "p",
		Rates: &spec.PipelineRates{Refused: 229, Stages: stages}}}
	changed := func(id, reason, message string) pipelineStatus {
		return pipelineStatus{PipelineStatus: rest.PipelineStatus{ID: id, Conditions: []spec.Condition{
			{Type: spec.ConditionValid, Status: spec.ConditionTrue, Message: "valid"},
			{Type: spec.ConditionPlugin, Status: spec.ConditionTrue, Reason: reason, Message: message}}}}
	}
	writeWarnings(&Remote{Program: &Program{Stdout: &page}}, &page, []pipelineStatus{
		changed("q", "PluginReplaced", "a restart would use x"), changed("r", "PluginGone", "it is gone"), one})
	if got := page.String(); got != "note: q: a restart would use x\nwarning: r: it is gone\n"+
		"note: p: 229 records refused since the agent started; list them: conduit dlq ls p\n"+
		"note: p:a: no file matches /x/*\n" {
		t.Errorf("got %q", got)
	}
}

// The table shows the message of a panic without the stack. The details have the stack.
func TestStatusWithoutFrames(t *testing.T) {
	const text = "cannot open source (exit status 2; its last output: panic: no disk\ngoroutine 1 [running]:\n" +
		"main.open(0x1)\n\t/src/main.go:12 +0x1d)"
	for _, end := range []string{"", spec.NotAgain("p")} {
		one := pipelineStatus{PipelineStatus: rest.PipelineStatus{ID: "p", State: spec.State{Phase: spec.PhaseDegraded,
			Error: text + end}}}
		var page bytes.Buffer
		if err := pipelineTable([]pipelineStatus{one}, layout{below: true}).Write(&page, func(text, _ string) string {
			return text
		}); err != nil {
			t.Fatal(err)
		}
		want := "    cannot open source (exit status 2; its last output: panic: no disk …)" + end + "\n"
		if !strings.HasSuffix(page.String(), want) {
			t.Errorf("got %q, want %q at the end", page.String(), want)
		}
	}
}
