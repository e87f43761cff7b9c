package telemetry_test

import (
	"maps"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/spec"
)

func TestPhases(t *testing.T) {
	var p telemetry.Phases
	at := time.Now()
	for _, s := range []spec.State{
		{PipelineID: "p", Phase: spec.PhaseStarting},
		{PipelineID: "p", Phase: spec.PhaseRunning, LastAttempt: &spec.Attempt{At: at}},
		{PipelineID: "p", Phase: spec.PhaseRunning, LastAttempt: &spec.Attempt{At: at}}, // nothing to count
		{PipelineID: "p", Phase: spec.PhaseRecovering,
			LastAttempt: &spec.Attempt{At: at.Add(time.Second), Error: "no"}},
		{PipelineID: "p", Phase: spec.PhaseRunning, LastAttempt: &spec.Attempt{At: at.Add(2 * time.Second)}},
		{PipelineID: "q", Phase: spec.PhaseStopped},
	} {
		p.Observe(s)
	}
	want := map[spec.Phase]uint64{spec.PhaseStarting: 1, spec.PhaseRunning: 2, spec.PhaseRecovering: 1}
	if got := p.Of("p"); !maps.Equal(got, want) {
		t.Errorf("phases %v, want %v", got, want)
	}
	p.Forget("p")
	if got := p.Of("p"); len(got) != 0 {
		t.Errorf("it remembers %v", got)
	}
	if succeeded, failed := p.Attempts(); succeeded != 2 || failed != 1 {
		t.Errorf("%d attempts succeeded, %d failed", succeeded, failed)
	}
}
