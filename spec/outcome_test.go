package spec_test

import (
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

func TestOutcomeOf(t *testing.T) {
	attempt := func(generation int64, err string) *spec.Attempt {
		return &spec.Attempt{Generation: generation, Error: err}
	}
	good := func(generation int64) *spec.LastGood { return &spec.LastGood{Generation: generation} }
	for _, tt := range []struct {
		name  string
		want  spec.Status
		state spec.State
		is    spec.Outcome
	}{
		{"runs", "running", spec.State{Phase: spec.PhaseRunning, RunningGeneration: 2, LastGood: good(2)},
			spec.OutcomeOK},
		{"runs, but has not proved itself", "running",
			spec.State{Phase: spec.PhaseRunning, RunningGeneration: 2, LastGood: good(1)}, spec.OutcomePending},
		{"runs, and could not be applied again", "running", spec.State{Phase: spec.PhaseRunning, RunningGeneration: 2,
			LastAttempt: attempt(2, "no"), LastGood: good(2)}, spec.OutcomeFailed},
		{"stopped", "stopped", spec.State{Phase: spec.PhaseStopped}, spec.OutcomeOK},
		{"to be stopped", "stopped", spec.State{Phase: spec.PhaseRunning, RunningGeneration: 2, LastGood: good(2)},
			spec.OutcomePending},
		{"to be started", "running", spec.State{Phase: spec.PhaseStopped}, spec.OutcomePending},
		{"starts again", "running", spec.State{Phase: spec.PhaseStarting, LastAttempt: attempt(2, "no")},
			spec.OutcomePending},
		{"old version runs", "running", spec.State{Phase: spec.PhaseRunning, RunningGeneration: 1,
			LastAttempt: attempt(1, ""), LastGood: good(1)}, spec.OutcomePending},
		{"old version failed", "running", spec.State{Phase: spec.PhaseDegraded, LastAttempt: attempt(1, "no")},
			spec.OutcomePending},
		{"rolled back", "running", spec.State{Phase: spec.PhaseRunning, RunningGeneration: 1,
			LastAttempt: attempt(2, "no"), LastGood: good(1)}, spec.OutcomeFailed},
		{"recovers", "running", spec.State{Phase: spec.PhaseRecovering, LastAttempt: attempt(2, "no")},
			spec.OutcomeFailed},
		{"degraded", "running", spec.State{Phase: spec.PhaseDegraded, LastAttempt: attempt(2, "no")},
			spec.OutcomeFailed},
	} {
		if got := spec.OutcomeOf(tt.want, 2, &tt.state); got != tt.is {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.is)
		}
	}
}
