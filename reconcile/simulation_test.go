package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/conduit-agent/conduit/spec"
)

// op is an event in the world.
type op struct {
	kind    string
	id      string
	version string
	wait    time.Duration
}

func (o op) String() string { return fmt.Sprintf("%s %s %s, %v", o.kind, o.id, o.version, o.wait) }

var ops = rapid.Custom(func(t *rapid.T) op {
	return op{
		kind: rapid.SampledFrom([]string{"declare", "declare", "amend", "amend", "amend", "stop", "withdraw",
			"purge", "crash", "restart", "reapply", "mend", "restart agent"}).Draw(t, "kind"),
		id: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "id"),
		version: rapid.SampledFrom([]string{"1", "2", "3", "unfit", "dud", "fatal", "slow", "hang", "stuck"}).Draw(t,
			"version"),
		wait: rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond + 7, time.Second + 7, 15*time.Second + 7,
			12*time.Minute + 7}).Draw(t, "wait"),
	}
})

func TestSimulation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		script := rapid.SliceOfN(ops, 1, 25).Draw(rt, "script")
		inWorld(t, func(w *world) {
			w.simulate(script)
			if w.Failed() {
				w.Logf("script: %v", script)
			}
		})
		if t.Failed() {
			rt.Fatalf("see above")
		}
	})
}

func (w *world) simulate(script []op) {
	w.plant.with(func() {
		w.plant.badPrepare["unfit"], w.plant.badStart["dud"], w.plant.badPrepare["fatal"] = errBroken, errBroken,
			fatal{errBroken}
		w.plant.hangPrepare["hang"], w.plant.slowDrain["slow"] = true, 20*time.Second
		w.plant.badApply["dud"], w.plant.slowApply["slow"], w.plant.stuck["stuck"] = errBroken, 20*time.Second,
			make(chan struct{})
		w.plant.badDelete["q:in"] = errBroken
		w.plant.checkWithdrawn = true
	})
	for _, o := range script {
		w.perform(o)
		w.pass(o.wait)
	}
	w.plant.with(func() {
		clear(w.plant.badPrepare)
		clear(w.plant.badStart)
		clear(w.plant.badApply)
		clear(w.plant.stuck)
		clear(w.plant.hangPrepare)
		clear(w.plant.badDelete)
	})
	w.start() // a hanging launch ends only with the agent
	w.pass(time.Hour)
	for _, id := range []string{"p", "q"} {
		w.converged(id)
	}
}

func (w *world) perform(o op) {
	before := w.plant.runs(o.id)
	d, declared := w.store.declaration(o.id)
	switch o.kind {
	case "declare", "amend":
		p := pipeline(o.id, o.version)
		if o.kind == "amend" {
			p = flexible(o.id, o.version)
		}
		w.declare(p)
		settled := declared && d.Withdrawn.IsZero() && versionOf(&d.Pipeline) == before
		if bad := strings.Contains("unfit fatal hang", o.version); settled && bad && w.plant.runs(o.id) != before {
			w.Errorf("%v: %q ran, now %q", o, before, w.plant.runs(o.id))
		}
	case "stop":
		p := pipeline(o.id, o.version)
		p.Status = spec.StatusStopped
		w.declare(p)
	case "withdraw", "purge":
		if declared && d.Withdrawn.IsZero() {
			w.store.withdraw(o.id, o.kind == "purge")
			w.wake()
		}
	case "crash":
		if before != "" {
			w.plant.fails(o.id, errBroken)
			synctest.Wait()
		}
	case "restart":
		_ = w.loop.Restart(w.Context(), o.id)
		synctest.Wait()
	case "reapply":
		_ = w.loop.Reapply(w.Context(), o.id)
		synctest.Wait()
	case "mend":
		w.plant.with(func() { delete(w.plant.badStart, "dud"); delete(w.plant.badApply, "dud") })
	case "restart agent":
		w.start()
	}
}

// converged checks that the running pipelines match their declarations, and that nothing else is left.
func (w *world) converged(id string) {
	d, declared := w.store.declaration(id)
	runs, s := w.plant.runs(id), w.store.state(id)
	switch {
	case !declared, !d.Withdrawn.IsZero():
		if runs != "" || declared || w.store.connector(id+":in").ID != "" || s.PipelineID != "" {
			w.Errorf("%s is not declared, but %q runs, declared %v, left %+v %+v", id, runs, declared,
				w.store.connector(id+":in"), s)
		}
	case d.Want() == spec.StatusStopped:
		if runs != "" || s.Phase != spec.PhaseStopped || !s.StoppedByUser {
			w.Errorf("%s is to be stopped, but %q runs: %+v", id, runs, s)
		}
	default:
		want := versionOf(&d.Pipeline)
		if runs != want || s.Phase != spec.PhaseRunning || s.RunningGeneration != d.Generation {
			w.Errorf("%s is to run %s (%d), but %q runs: %+v", id, want, d.Generation, runs, s)
		}
	}
}
