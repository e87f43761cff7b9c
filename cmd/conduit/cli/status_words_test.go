package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

// A stall does not hide that the declared version could not start, and is not repeated when it has the same cause.
func TestErrorWords(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	stall := &spec.Stall{Reason: spec.StageSource.Reason(spec.StallSilent), Since: since, Message: "it has read nothing"}
	failed := &spec.Attempt{Generation: 2, Error: "directory /nonexist does not exist"}
	for name, c := range map[string]struct {
		state spec.State
		want  string
	}{
		"well":    {spec.State{LastAttempt: &spec.Attempt{Generation: 2}}, ""},
		"stalled": {spec.State{Stall: stall}, "since WHEN: it has read nothing"},
		"an update failed": {spec.State{LastAttempt: failed},
			"generation 2 cannot start: directory /nonexist does not exist"},
		"an update failed and the former version is stalled": {spec.State{LastAttempt: failed, Stall: stall},
			"generation 2 cannot start: directory /nonexist does not exist; since WHEN: it has read nothing"},
		"stalled because of the failed start": {spec.State{LastAttempt: failed, Stall: &spec.Stall{Since: since,
			Message: "it cannot start: " + failed.Error}},
			"since WHEN: it cannot start: directory /nonexist does not exist"},
		"ended with an error": {spec.State{Error: "refused", LastAttempt: &spec.Attempt{Generation: 1, Error: "x"}},
			"refused"},
	} {
		s := &pipelineStatus{PipelineStatus: rest.PipelineStatus{Generation: 2}}
		s.State = c.state
		want := strings.ReplaceAll(c.want, "WHEN", terminal.Moment(since))
		if got := errorWords(s); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A directory of pipeline files that is unreadable, or that lost all its files, is a problem for --check.
func TestWell(t *testing.T) {
	for _, state := range spec.DirectoryStates {
		s := &agentStatus{}
		s.Agent.Status, s.Agent.Directory = "ready", &spec.Directory{State: state}
		want := state == spec.DirectoryOK || state == spec.DirectoryPolled || state == spec.DirectoryMissing
		if s.well() != want {
			t.Errorf("with a directory that is %s, well is %v", state, !want)
		}
	}
}
