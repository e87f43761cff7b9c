package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/reconcile/plan"
	"github.com/conduit-agent/conduit/reconcile/reconciletest"
	"github.com/conduit-agent/conduit/spec"
)

// planFlexible returns a running pipeline with a source and a destination. Versions differ in a setting that a run can
// be amended to.
func planFlexible(id, version string) spec.Pipeline {
	return spec.Pipeline{ID: id, Status: spec.StatusRunning, Connectors: []spec.Connector{
		{ID: "in", Type: spec.TypeSource, Plugin: "fake"},
		{ID: "out", Type: spec.TypeDestination, Plugin: "fake", Settings: map[string]string{"version": version}},
	}}
}

// planPipeline returns a running pipeline with one source. Versions differ in its setting.
func planPipeline(id, version string) spec.Pipeline {
	return spec.Pipeline{ID: id, Status: spec.StatusRunning, Connectors: []spec.Connector{
		{ID: "in", Type: spec.TypeSource, Plugin: "fake", Settings: map[string]string{"version": version}},
	}}
}

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func in(d time.Duration) *time.Time { at := now.Add(d); return &at }

func v(gen int64, digest string) *plan.Version {
	return &plan.Version{Generation: gen, Digest: digest}
}

func desired(change func(*plan.Desired)) *plan.Desired {
	d := &plan.Desired{RunDigest: "new", Declaration: spec.Declaration{Generation: 2, Pipeline: planPipeline("p", "1")}}
	if change != nil {
		change(d)
	}
	return d
}

func runs(p spec.Pipeline) *plan.Version {
	return &plan.Version{Generation: 1, Digest: "old", Pipeline: &p}
}

func amended(d *plan.Desired) { d.Pipeline = planFlexible("p", "2") }

func added(d *plan.Desired) {
	d.Pipeline = planFlexible("p", "2")
	d.Pipeline.Connectors = append(d.Pipeline.Connectors, spec.Connector{ID: "more", Type: spec.TypeDestination})
}

func stopped(d *plan.Desired) { d.Override = spec.StatusStopped }

func elsewhere(d *plan.Desired) { d.OwnedElsewhere = true }

func withdrawn(ago time.Duration) func(*plan.Desired) {
	return func(d *plan.Desired) { d.Withdrawn = now.Add(-ago) }
}

func purged(d *plan.Desired) { d.Withdrawn, d.Purge = now, true }

func state(phase spec.Phase, change func(*spec.State)) spec.State {
	s := spec.State{PipelineID: "p", Phase: phase, LastAttempt: &spec.Attempt{Generation: 2, Error: "x"}}
	if change != nil {
		change(&s)
	}
	return s
}

// The states and connectors of the cases.
var (
	running = state(spec.PhaseRunning, func(s *spec.State) { s.RunningGeneration = 1 })
	idle    = state(spec.PhaseStopped, nil)
	byUser  = state(spec.PhaseStopped, func(s *spec.State) { s.StoppedByUser = true })
	started = []spec.ConnectorState{{ID: "p:in", PipelineID: "p"}}
)

func dropped(orphaned, retry time.Duration) []spec.ConnectorState {
	c := spec.ConnectorState{ID: "p:old", PipelineID: "p", Orphaned: now.Add(-orphaned)}
	if retry != 0 {
		c.RetryAt = now.Add(retry)
	}
	return []spec.ConnectorState{c}
}

func lately(n int) []time.Time { return slices.Repeat([]time.Time{now.Add(-9 * time.Second)}, n) }

// actionCase is the declaration and the observed state of a pipeline, and the actions expected for them.
type actionCase struct {
	name       string
	desired    *plan.Desired
	running    plan.Observed
	connectors []spec.ConnectorState
	want       string
	next       time.Duration
}

// versions are cases about the running and the declared version.
var versions = []actionCase{
	{"nothing runs yet", desired(nil), plan.Observed{State: idle}, nil, "start", 0},
	{"never seen", desired(nil), plan.Observed{State: spec.State{PipelineID: "p"}}, nil, "start", 0},
	{"to be stopped, is", desired(stopped), plan.Observed{State: byUser}, nil, "", 0},
	{"to be stopped, nothing runs", desired(stopped), plan.Observed{State: idle}, nil, "mark-stopped", 0},
	{"to be stopped, recovering", desired(stopped), plan.Observed{State: state(spec.PhaseRecovering, nil)}, nil,
		"mark-stopped", 0},
	{"to be stopped, runs", desired(stopped), plan.Observed{State: running, Run: v(2, "new")}, nil, "stop", 0},
	{"to be stopped, on its way", desired(stopped), plan.Observed{State: idle, Next: v(2, "new")}, nil, "abandon", 0},
	{"given up already", desired(stopped), plan.Observed{State: idle, Next: v(2, "new"), Abandoned: true}, nil, "", 0},
	{"runs as declared", desired(nil), plan.Observed{State: running, Run: v(2, "new")}, nil, "", 0},
	{"runs an equal version", desired(nil), plan.Observed{State: running, Run: v(1, "new")}, nil, "adopt", 0},
	{"starts an equal version", desired(nil), plan.Observed{State: idle, Run: v(1, "new")}, nil, "", 0},
	{"runs another version", desired(nil), plan.Observed{State: running, Run: v(1, "old")}, nil, "restart", 0},
	{"another destination", desired(amended), plan.Observed{State: running, Run: runs(planFlexible("p", "1"))}, nil,
		"amend", 0},
	{"another destination, rejected", desired(amended),
		plan.Observed{State: running, Run: runs(planFlexible("p", "1")), Rejected: 2}, nil, "", 0},
	{"another destination, restart asked", desired(amended),
		plan.Observed{State: running, Run: runs(planFlexible("p", "1")), Again: plan.Restart}, nil, "restart", 0},
	{"another destination, does not run yet", desired(amended),
		plan.Observed{State: idle, Run: runs(planFlexible("p", "1"))}, nil, "restart", 0},
	{"one destination more", desired(added), plan.Observed{State: running, Run: runs(planFlexible("p", "1"))}, nil,
		"restart", 0},
	{"another source", desired(nil), plan.Observed{State: running, Run: runs(planPipeline("p", "2"))}, nil, "restart",
		0},
	{"is being amended", desired(amended),
		plan.Observed{State: running, Run: runs(planFlexible("p", "1")), Amending: true}, nil, "", 0},
	{"opens what is new", desired(amended),
		plan.Observed{State: idle, Run: runs(planFlexible("p", "1")), OpensBy: now.Add(time.Second)}, nil, "",
		time.Second},
	{"opens what is new for long", desired(amended),
		plan.Observed{State: idle, Run: runs(planFlexible("p", "1")), OpensBy: now}, nil, "restart", 0},
	{"is being amended, restart asked", desired(amended),
		plan.Observed{State: running, Run: runs(planFlexible("p", "1")), Amending: true, Again: plan.Restart}, nil, "",
		0},
	{"is being amended, to be stopped", desired(stopped),
		plan.Observed{State: running, Run: runs(planFlexible("p", "1")), Amending: true}, nil, "stop", 0},
	{"runs another, new one rejected", desired(nil), plan.Observed{State: running, Run: v(1, "old"), Rejected: 2}, nil,
		"", 0},
	{"rejected another", desired(nil), plan.Observed{State: running, Run: v(1, "old"), Rejected: 1}, nil, "restart", 0},
	{"backs off while it runs", desired(nil), plan.Observed{State: state(spec.PhaseRunning, func(s *spec.State) {
		s.RetryAt = in(time.Second)
	}), Run: v(1, "old")}, nil, "", time.Second},
	{"is draining", desired(nil), plan.Observed{State: running, Run: v(1, "old"), Stopping: true}, nil, "", 0},
	{"the declared one is on its way", desired(nil), plan.Observed{State: running, Run: v(1, "old"), Next: v(2, "new")},
		nil, "", 0},
	{"an older one is on its way", desired(nil), plan.Observed{State: running, Run: v(1, "old"), Next: v(1, "older")},
		nil, "abandon", 0},
	{"a rollback is on its way", desired(nil),
		plan.Observed{State: idle, Next: &plan.Version{Generation: 1, Digest: "old", Instead: 2}}, nil, "", 0},
	{"an obsolete rollback is on its way", desired(nil),
		plan.Observed{State: idle, Next: &plan.Version{Generation: 0, Digest: "old", Instead: 1}}, nil, "abandon", 0},
}

// failures are cases about failures and the time of their retries.
var failures = []actionCase{
	{"failed to start", desired(nil), plan.Observed{State: state(spec.PhaseStarting, func(s *spec.State) {
		s.LastGood = &spec.LastGood{}
	}), Rejected: 2}, nil, "rollback", 0},
	{"waits for its retry", desired(nil), plan.Observed{State: state(spec.PhaseRecovering, func(s *spec.State) {
		s.RetryAt = in(time.Minute)
	})}, nil, "", time.Minute},
	{"retry is due", desired(nil), plan.Observed{State: state(spec.PhaseRecovering, func(s *spec.State) {
		s.RetryAt = in(0)
	})}, nil, "start", 0},
	{"edited while it waits", desired(func(d *plan.Desired) {
		d.Generation = 3
	}), plan.Observed{State: state(spec.PhaseRecovering, func(s *spec.State) { s.RetryAt = in(time.Minute) })}, nil,
		"start", 0},
	{"degraded", desired(nil), plan.Observed{State: state(spec.PhaseDegraded, nil)}, nil, "", 0},
	{"degraded and edited", desired(func(d *plan.Desired) {
		d.Generation = 3
	}), plan.Observed{State: state(spec.PhaseDegraded, nil)}, nil, "start", 0},
	{"degraded, restart asked", desired(nil), plan.Observed{State: state(spec.PhaseDegraded, nil), Again: plan.Restart},
		nil, "start", 0},
}

// requests are cases about requests in addition to the declaration, and about steady pipelines.
var requests = []actionCase{
	{"restart asked", desired(nil), plan.Observed{State: running, Run: v(2, "new"), Again: plan.Restart}, nil,
		"restart", 0},
	{"amendment asked", desired(nil), plan.Observed{State: running, Run: v(2, "new"), Again: plan.Amend}, nil, "amend",
		0},
	{"amendment asked, does not run yet", desired(nil), plan.Observed{State: idle, Run: v(2, "new"), Again: plan.Amend},
		nil, "restart", 0},
	{"amendment asked, is draining", desired(nil), plan.Observed{State: running, Run: v(2, "new"), Again: plan.Amend,
		Stopping: true}, nil, "", 0},
	{"amendment asked, is being amended", desired(nil),
		plan.Observed{State: running, Run: v(2, "new"), Again: plan.Amend, Amending: true}, nil, "", 0},
	{"amendment asked, degraded", desired(nil), plan.Observed{State: state(spec.PhaseDegraded, nil), Again: plan.Amend},
		nil, "start", 0},
	{"amendment asked, to be stopped", desired(stopped),
		plan.Observed{State: running, Run: v(2, "new"), Again: plan.Amend}, nil, "stop", 0},
	{"steady again", desired(nil), plan.Observed{State: state(spec.PhaseRunning, func(s *spec.State) {
		s.Failures, s.RunningGeneration = 1, 2
	}), Run: v(2, "new"), Steady: now}, nil, "mark-steady", 0},
}

// withdrawals are cases about pipelines that are no longer declared.
var withdrawals = []actionCase{
	{"withdrawn, in grace, runs", desired(withdrawn(4 * time.Second)), plan.Observed{State: running, Run: v(2, "new")},
		nil, "", 6 * time.Second},
	{"elsewhere, runs", desired(elsewhere), plan.Observed{State: running, Run: v(2, "new")}, nil, "stop", 0},
	{"elsewhere, being prepared", desired(elsewhere), plan.Observed{State: idle, Next: v(2, "new")}, nil, "abandon", 0},
	{"elsewhere, ended", desired(elsewhere), plan.Observed{State: state(spec.PhaseRunning, nil)}, started, "mark-away",
		0},
	{"elsewhere, stopped by a person before", desired(elsewhere), plan.Observed{State: byUser}, started, "mark-away",
		0},
	{"elsewhere, stopped", desired(elsewhere), plan.Observed{State: idle}, started, "", 0},
	{"elsewhere, and to stop", desired(func(d *plan.Desired) {
		elsewhere(d)
		stopped(d)
	}), plan.Observed{State: byUser}, started, "", 0},
	{"elsewhere, withdrawn, clean-up due", desired(func(d *plan.Desired) { elsewhere(d); withdrawn(time.Hour)(d) }),
		plan.Observed{State: byUser}, started, "", 0},
	{"withdrawn, in grace, failed", desired(withdrawn(4 * time.Second)),
		plan.Observed{State: state(spec.PhaseRecovering, nil)}, nil, "", 6 * time.Second},
	{"withdrawn, grace over", desired(withdrawn(10 * time.Second)), plan.Observed{State: running, Run: v(2, "new")},
		nil, "stop", 0},
	{"withdrawn, ended", desired(withdrawn(time.Minute)), plan.Observed{State: idle}, started, "mark-stopped",
		9*time.Minute + 10*time.Second},
	{"withdrawn, clean-up due", desired(withdrawn(time.Hour)), plan.Observed{State: byUser}, started, "clean-up p:in",
		0},
	{"withdrawn, clean-up under way", desired(withdrawn(time.Hour)),
		plan.Observed{State: byUser, Cleaning: []string{"p:in"}}, started, "", 0},
	{"withdrawn, clean-up backs off", desired(withdrawn(time.Hour)), plan.Observed{State: byUser},
		[]spec.ConnectorState{{ID: "p:in", PipelineID: "p", RetryAt: *in(time.Second)}}, "", time.Second},
	{"withdrawn, cleaned up", desired(withdrawn(time.Hour)), plan.Observed{State: byUser}, nil, "delete", 0},
	{"withdrawn, being deleted", desired(withdrawn(time.Hour)), plan.Observed{State: byUser, Deleting: true}, nil, "",
		0},
	{"purged, runs", desired(purged), plan.Observed{State: running, Run: v(2, "new")}, nil, "stop", 0},
	{"purged, ended", desired(purged), plan.Observed{State: byUser}, started, "clean-up p:in", 0},
	{"back while being cleaned up", desired(nil), plan.Observed{State: byUser, Cleaning: []string{"p:in"}}, started, "",
		0},
	{"back in a version while being cleaned up", desired(nil),
		plan.Observed{State: running, Run: v(1, "old"), Cleaning: []string{"p:in"}}, started, "", 0},
}

// orphans are cases about connectors that are no longer declared.
var orphans = []actionCase{
	{"connector dropped", desired(nil), plan.Observed{State: running, Run: v(2, "new")},
		[]spec.ConnectorState{{ID: "p:old", PipelineID: "p"}}, "mark-orphaned p:old", 0},
	{"connector dropped, not yet running", desired(nil), plan.Observed{State: running, Run: v(1, "old"), Rejected: 2},
		[]spec.ConnectorState{{ID: "p:old", PipelineID: "p"}}, "", 0},
	{"orphan waits", desired(nil), plan.Observed{State: running, Run: v(2, "new")}, dropped(9*time.Minute, 0), "",
		time.Minute},
	{"orphan due", desired(nil), plan.Observed{State: running, Run: v(2, "new")}, dropped(10*time.Minute, 0),
		"clean-up p:old", 0},
	{"orphan backs off", desired(nil), plan.Observed{State: running, Run: v(2, "new")},
		dropped(10*time.Minute, time.Second), "", time.Second},
}

// planFlapping are cases about files that change too often.
var planFlapping = []actionCase{
	{"the declaration changed", desired(nil),
		plan.Observed{State: running, Run: v(2, "new"), Newer: true, Changes: lately(99)}, nil, "take-up", 0},
	{"too many versions", desired(nil), plan.Observed{State: running, Run: v(2, "new"), Newer: true,
		Changes: lately(100)}, nil, "flap", time.Second},
	{"too many versions, reported", desired(nil), plan.Observed{State: running, Run: v(2, "new"), Newer: true,
		Changes: lately(100), Flapping: true}, nil, "", time.Second},
	{"too many versions, nothing runs", desired(nil),
		plan.Observed{State: idle, Newer: true, Changes: lately(100), Flapping: true}, nil, "start", time.Second},
	{"too many versions, restart asked", desired(nil), plan.Observed{State: running, Run: v(2, "new"), Newer: true,
		Changes: lately(100), Again: plan.Restart}, nil, "take-up", 0},
	{"too many versions, to be stopped", desired(stopped),
		plan.Observed{State: running, Run: v(2, "new"), Newer: true, Changes: lately(100)}, nil, "take-up", 0},
	{"too many versions, a while ago", desired(nil), plan.Observed{State: running, Run: v(2, "new"), Newer: true,
		Changes: append([]time.Time{now.Add(-10 * time.Second)}, lately(99)...)}, nil, "take-up", 0},
}

// strays are cases about running pipelines that were never declared.
var strays = []actionCase{
	{"not declared", nil, plan.Observed{State: running, Run: v(2, "new")}, nil, "stop", 0},
	{"not declared, ended", nil, plan.Observed{State: idle}, nil, "forget", 0},
}

func TestActions(t *testing.T) {
	for _, c := range slices.Concat(versions, failures, requests, withdrawals, orphans, planFlapping, strays) {
		t.Run(c.name, func(t *testing.T) {
			var all []plan.Desired
			if c.desired != nil {
				all = append(all, *c.desired)
			}
			actions, next := plan.Actions(all, []plan.Observed{c.running}, c.connectors, now, reconciletest.Policy())
			var got []string
			for _, a := range actions {
				s := string(a.Kind)
				if a.Connector != nil {
					s += " " + a.Connector.ID
				}
				got = append(got, s)
				if a.Reason == "" {
					t.Errorf("%s has no reason", a.Kind)
				}
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("actions %q, want %q", s, c.want)
			}
			want := time.Time{}
			if c.next != 0 {
				want = now.Add(c.next)
			}
			if !next.Equal(want) {
				t.Errorf("to plan again at %v, want %v", next, want)
			}
		})
	}
}

func TestDelay(t *testing.T) {
	p := reconciletest.Policy()
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second,
		1000: 10 * time.Minute} {
		got := p.Delay("p", failures)
		if got < want*9/10 || got > min(want*11/10, p.MaxDelay) {
			t.Errorf("after %d failures %v, want about %v", failures, got, want)
		}
		if got != p.Delay("p", failures) {
			t.Error("the delay is not determined")
		}
	}
	if p.Delay("p", 3) == p.Delay("q", 3) {
		t.Error("two pipelines come back at the same time")
	}
}

func BenchmarkPlan(b *testing.B) {
	var desired []plan.Desired
	var running []plan.Observed
	for i := range 1000 {
		id := fmt.Sprintf("p%04d", i)
		desired = append(desired,
			plan.Desired{RunDigest: id, Declaration: spec.Declaration{Generation: 1, Pipeline: planPipeline(id, "1")}})
		running = append(running, plan.Observed{State: spec.State{PipelineID: id, Phase: spec.PhaseRunning,
			RunningGeneration: 1}, Run: &plan.Version{Generation: 1, Digest: id}})
	}
	now := time.Now()
	for b.Loop() {
		if actions, _ := plan.Actions(desired, running, nil, now, reconciletest.Policy()); len(actions) > 0 {
			b.Fatal(actions)
		}
	}
}
