package reconcile_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/plan"
	"github.com/conduit-agent/conduit/reconcile/reconciletest"
	"github.com/conduit-agent/conduit/spec"
)

// tried makes the loop of the world report the outcome of p's versions.
func (w *world) tried() *atomic.Pointer[reconcile.VersionOutcome] {
	var last atomic.Pointer[reconcile.VersionOutcome]
	w.set = func(l *reconcile.Loop) {
		l.OnVersionOutcome = func(_ string, t reconcile.VersionOutcome) { last.Store(&t) }
	}
	w.start()
	return &last
}

// inherits creates a world whose loop does not run the pipeline while two versions are declared, and then takes it
// over.
func inherits(t *testing.T, policy plan.Policy, tried reconcile.VersionOutcome, bad string, test func(w *world)) {
	inWorld(t, func(w *world) {
		var here atomic.Bool
		w.set = func(l *reconcile.Loop) { l.OwnedElsewhere = func(string, bool) bool { return !here.Load() } }
		w.policy(policy)
		w.plant.with(func() { w.plant.badStart[bad] = errBroken })
		w.declare(pipeline("p", "1"))
		w.declare(pipeline("p", "2"))
		w.did("")
		if err := w.loop.Inherit(w.Context(), "p", tried); err != nil {
			w.Fatal(err)
		}
		here.Store(true)
		if err := w.loop.Replan(w.Context(), "p", false); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		test(w)
	})
}

// TestTriedIsReported checks the reported outcome: the last known good version, and the declared one once it failed in
// operation, until it is tried again.
func TestTriedIsReported(t *testing.T) {
	inWorld(t, func(w *world) {
		last := w.tried()
		w.declare(pipeline("p", "1"))
		if got := last.Load(); got == nil || got.Good == nil || versionOf(&got.Good.Pipeline) != "1" ||
			got.Failed != nil {
			t.Fatalf("after the first version runs: %+v", got)
		}
		w.plant.with(func() {
			w.plant.badPrepare["2"], w.plant.badStart["3"], w.plant.badStart["4"] = errBroken, errBroken,
				environment{errBroken}
		})
		for _, one := range []struct {
			version string
			failed  bool
		}{{"2", false}, {"3", true}, {"4", false}} { // 2 and 4 may run elsewhere
			p := pipeline("p", one.version)
			w.declare(p)
			got := last.Load()
			if versionOf(&got.Good.Pipeline) != "1" || (got.Failed != nil) != one.failed {
				t.Errorf("after version %s failed: %+v", one.version, got)
			}
			if f := got.Failed; f != nil &&
				(f.RunDigest != runDigest(&p) || f.Error != errBroken.Error() || f.At.IsZero()) {
				t.Errorf("version %s failed: %+v", one.version, f)
			}
		}
		w.declare(pipeline("p", "5"))
		w.pass(time.Minute)
		if got := last.Load(); versionOf(&got.Good.Pipeline) != "5" || got.Failed != nil {
			t.Errorf("after a version proved itself: %+v", got)
		}
	})
}

// TestInheritedRollback checks that an agent starts the last known good version of another agent, which it never ran,
// in place of the version that failed there, and that an edit ends the rollback.
func TestInheritedRollback(t *testing.T) {
	two := pipeline("p", "2")
	tried := reconcile.VersionOutcome{
		Good: &spec.LastGood{Generation: 1, Pipeline: pipeline("p", "1")},
		Failed: &reconcile.FailedVersion{RunDigest: runDigest(&two),
			Attempt: spec.Attempt{Generation: 2, At: time.Now(), Error: "it broke there"}},
	}
	inherits(t, reconciletest.Policy(), tried, "", func(w *world) {
		w.did("prepare p 1, run p 1")
		if s := w.state("running gen=1 tried=2!"); s.LastAttempt.Error != "it broke there" {
			t.Errorf("the declared version failed because %q", s.LastAttempt.Error)
		}
		if r := w.store.reasons(); !strings.HasSuffix(r, "UpdateFailed RolledBack") {
			t.Errorf("events: %s", r)
		}
		w.retry()
		w.pass(time.Hour)
		w.did("")
		w.declare(pipeline("p", "3"))
		w.pass(time.Minute)
		w.did("prepare p 3, end p 1, run p 3")
	})
	hold := reconciletest.Policy()
	hold.Hold = true
	inherits(t, hold, tried, "", func(w *world) { w.did("prepare p 2, run p 2") })
	other := tried
	failed := *tried.Failed
	failed.RunDigest = "of another version"
	other.Failed = &failed
	inherits(t, reconciletest.Policy(), other, "2", func(w *world) { // tried, then rolled back to version 1
		w.did("prepare p 2, run p 2, end p 2, prepare p 1, run p 1")
		w.state("running gen=1 tried=2!")
	})
}
