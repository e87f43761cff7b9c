package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/plan"
	"github.com/conduit-agent/conduit/reconcile/reconciletest"
	"github.com/conduit-agent/conduit/spec"
)

// world is a Loop with a fake store and a fake runner, in a bubble of virtual time.
type world struct {
	*testing.T
	store *memory
	plant *plant
	loop  *reconcile.Loop
	log   *slog.Logger // of a loop to start
	end   func()
	set   func(*reconcile.Loop) // when set, is called before a loop is started

	deleted atomic.Int32 // calls of Loop.Deleted
}

func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		w := &world{T: t, store: store, plant: newPlant(t, store)}
		w.start()
		test(w)
		w.end()
		if w.plant.open != 0 {
			t.Errorf("%d runs are left", w.plant.open)
		}
	})
}

func (w *world) start() {
	policy := reconciletest.Policy()
	policy.MaxChanges = 10
	w.policy(policy)
}

// policy (re)starts the loop with another policy.
func (w *world) policy(p plan.Policy) {
	if w.end != nil {
		w.end()
	}
	w.loop = &reconcile.Loop{Store: w.store, Runner: w.plant, Policy: p, Log: w.log, RunDigest: runDigest,
		Deleted:  func(string) { w.deleted.Add(1) },
		Observed: func(s spec.State) { w.plant.observe(s, p.Probation) }}
	if w.set != nil {
		w.set(w.loop)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.loop.Run(ctx) }()
	w.end = func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("Run: %v", err)
		}
		w.end = nil
	}
	synctest.Wait()
}

func (w *world) declare(ps ...spec.Pipeline) {
	w.store.declare(ps...)
	w.wake()
}

func (w *world) wake() {
	w.loop.Wake()
	synctest.Wait()
}

// setStall replaces the stall of pipeline p.
func (w *world) setStall(before, now *spec.Stall) {
	w.Helper()
	if err := w.loop.SetStall(w.Context(), "p", before, now); err != nil {
		w.Error(err)
	}
	synctest.Wait()
}

func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) did(want string) {
	w.Helper()
	if got := w.plant.take(); got != want {
		w.Errorf("did  %q\nwant %q", got, want)
	}
}

// state checks the state of pipeline p in the observer and the store.
func (w *world) state(want string) spec.State {
	w.Helper()
	for _, s := range w.loop.Snapshot() {
		if s.PipelineID != "p" {
			continue
		}
		got := fmt.Sprintf("%s gen=%d", s.Phase, s.RunningGeneration)
		if s.LastAttempt != nil {
			got += fmt.Sprintf(" tried=%d", s.LastAttempt.Generation)
			if s.LastAttempt.Error != "" {
				got += "!"
			}
		}
		if got != want {
			w.Errorf("state %q, want %q", got, want)
		}
		if saved := w.store.state("p"); saved.Phase != s.Phase || saved.RunningGeneration != s.RunningGeneration {
			w.Errorf("saved state is %v gen=%d", saved.Phase, saved.RunningGeneration)
		}
		return s
	}
	if want != "none" {
		w.Errorf("no state, want %q", want)
	}
	return spec.State{}
}

func TestLoopFollowsDeclarations(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(pipeline("p", "1"))
		w.did("prepare p 1, run p 1")
		w.state("running gen=1 tried=1")

		w.declare(pipeline("p", "2"))
		w.did("prepare p 2, end p 1, run p 2")
		w.state("running gen=2 tried=2")

		p := pipeline("p", "2")
		p.Name = "other"
		w.declare(p)
		w.did("")

		p.Status = spec.StatusStopped
		w.declare(p)
		w.did("end p 2")
		if !w.state("stopped gen=0 tried=2").StoppedByUser {
			w.Error("not stopped by user")
		}
		w.declare(pipeline("p", "2"))
		w.did("prepare p 2, run p 2")
		w.state("running gen=4 tried=4")
	})
}

// A change that does not affect the source amends the current run.
func TestLoopAmends(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(flexible("p", "1"))
		w.declare(flexible("p", "2"))
		w.did("prepare p 1, run p 1, amend p 2, apply p 2")
		w.state("running gen=2 tried=2")
		if r := w.store.reasons(); !strings.HasSuffix(r, "Started Amended") {
			w.Errorf("events: %s", r)
		}
		if s := w.store.state("p"); s.LastGood.Generation != 1 {
			w.Errorf("generation %d is good already", s.LastGood.Generation)
		}
		w.declare(flexible("p", "3"))
		if s := w.store.state("p"); s.LastGood.Generation != 1 {
			w.Errorf("generation %d is good, and was replaced before it proved itself", s.LastGood.Generation)
		}
		w.pass(6 * time.Second)
		if s := w.store.state("p"); s.LastGood.Generation != 3 {
			w.Errorf("the last good generation is %d", s.LastGood.Generation)
		}
		if err := w.loop.Restart(w.Context(), "p"); err != nil {
			w.Error(err)
		}
		synctest.Wait()
		w.did("amend p 3, apply p 3, prepare p 3, end p 3, run p 3")
		p := flexible("p", "3")
		p.Connectors[0].Plugin = "other"
		w.declare(p)
		w.did("prepare p 3, end p 3, run p 3")
	})
}

// A version is applied again to the current run, unless that is impossible or a restart was requested as well.
func TestLoopReapplies(t *testing.T) {
	inWorld(t, func(w *world) {
		ask := func(how func(context.Context, string) error) {
			if err := how(w.Context(), "p"); err != nil {
				w.Error(err)
			}
		}
		w.declare(flexible("p", "1"))
		w.did("prepare p 1, run p 1")
		ask(w.loop.Reapply)
		synctest.Wait()
		w.did("amend p 1, apply p 1")
		w.state("running gen=1 tried=1")
		w.plant.with(func() { w.plant.badPrepare["1"] = errBroken })
		ask(w.loop.Reapply)
		synctest.Wait()
		w.did("amend p 1") // and the running version stays
		w.state("running gen=1 tried=1!")
		w.plant.with(func() { clear(w.plant.badPrepare) })
		ask(w.loop.Reapply)
		synctest.Wait()
		w.did("amend p 1, apply p 1")
		w.state("running gen=1 tried=1")
		w.plant.with(func() { w.plant.rigid = true })
		ask(w.loop.Reapply)
		synctest.Wait()
		w.did("prepare p 1, end p 1, run p 1")
		ended := w.loop.Reapply(w.Context(), "q")
		if ended == nil {
			w.Error("a pipeline that does not exist is applied")
		}
	})
}

func TestLoopReportsWhatCannotBeAppliedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(flexible("p", "1"))
		w.failToReapply()
		w.store.mu.Lock()
		message := w.store.events[len(w.store.events)-1].Message
		w.store.mu.Unlock()
		if want := "generation 1 is running, but could not be re-applied: it is broken"; message != want {
			w.Errorf("reported %q, want %q", message, want)
		}
		w.unpreparable(false)
		w.retry()
		w.did("amend p 1, apply p 1")
		w.state("running gen=1 tried=1")

		w.failToReapply()
		w.plant.fails("p", errBroken)
		w.pass(10 * time.Second)
		if did := w.plant.take(); strings.Contains(did, "run p") || strings.Count(did, "prepare p 1") != 3 {
			w.Errorf("did %q, want three attempts in vain", did)
		}
		w.unpreparable(false)
		w.pass(10 * time.Second)
		w.did("prepare p 1, run p 1")
		w.state("running gen=1 tried=1")

		w.failToReapply()
		w.unpreparable(false)
		w.plant.fails("p", errBroken)
		w.pass(10 * time.Second)
		w.state("running gen=1 tried=1")
		if r := w.store.reasons(); strings.Contains(r, "RolledBack") {
			w.Errorf("events: %s", r)
		}
	})
}

func TestLoopTriesToApplyAgainWithoutRollback(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(flexible("p", "1"))
		policy := reconciletest.Policy()
		policy.Hold = true
		w.policy(policy)
		w.failToReapply()
		w.pass(2 * time.Second)
		w.did("amend p 1")
		w.unpreparable(false)
		w.pass(5 * time.Second)
		w.did("amend p 1, apply p 1")
		if s := w.state("running gen=1 tried=1"); s.RetryAt != nil {
			w.Errorf("tried again at %v", s.RetryAt)
		}
	})
}

// unpreparable makes the preparation of version 1 fail, or not.
func (w *world) unpreparable(fails bool) {
	w.plant.with(func() {
		clear(w.plant.badPrepare)
		if fails {
			w.plant.badPrepare["1"] = errBroken
		}
	})
}

// failToReapply applies the running version again, which fails.
func (w *world) failToReapply() {
	w.unpreparable(true)
	if err := w.loop.Reapply(w.Context(), "p"); err != nil {
		w.Error(err)
	}
	synctest.Wait()
	w.state("running gen=1 tried=1!")
	w.plant.take()
}

// A run that cannot be amended is replaced by a new one.
func TestLoopRestartsWhatCannotBeAmended(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plant.rigid = true
		w.declare(flexible("p", "1"))
		w.declare(flexible("p", "2"))
		w.did("prepare p 1, run p 1, prepare p 2, end p 1, run p 2")
		w.state("running gen=2 tried=2")
	})
}

// A run that could be amended a moment ago continues until the new one is ready.
func TestLoopRestartsWhatCannotBeAmendedAnyMore(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(flexible("p", "1"))
		w.plant.with(func() { w.plant.badApply["2"] = spec.ErrNeedsRestart })
		w.declare(flexible("p", "2"))
		w.did("prepare p 1, run p 1, amend p 2, apply p 2, prepare p 2, end p 1, run p 2")
		w.state("running gen=2 tried=2")
	})
}

// A version that cannot be prepared touches nothing. A version that cannot take over, or that fails soon after, is
// rolled back.
func TestLoopTakesBackAmendments(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(flexible("p", "1"))
		w.plant.take()
		w.plant.with(func() { w.plant.badPrepare["2"], w.plant.badApply["3"] = errBroken, errBroken })
		w.declare(flexible("p", "2"))
		w.did("amend p 2")
		w.state("running gen=1 tried=2!")
		w.declare(flexible("p", "3"))
		w.did("amend p 3, apply p 3, end p 1, prepare p 1, run p 1")
		w.state("running gen=1 tried=3!")
		if r := w.store.reasons(); !strings.HasSuffix(r, "UpdateFailed RolledBack") {
			w.Errorf("events: %s", r)
		}
		w.pass(time.Hour)
		w.did("")
		w.declare(flexible("p", "4")) // a rolled-back version can be amended too
		w.did("amend p 4, apply p 4")
		w.state("running gen=4 tried=4")
		w.pass(4 * time.Second)
		w.plant.fails("p", errBroken)
		synctest.Wait()
		w.did("end p 4, prepare p 1, run p 1")
		w.state("running gen=1 tried=4!")
	})
}

// With hold, a version that cannot take over is tried again, by a start.
func TestLoopHoldsAmendments(t *testing.T) {
	inWorld(t, func(w *world) {
		policy := reconciletest.Policy()
		policy.Hold = true
		w.policy(policy)
		w.declare(flexible("p", "1"))
		w.plant.with(func() { w.plant.badApply["2"] = errBroken })
		w.declare(flexible("p", "2"))
		w.state("recovering gen=0 tried=2!")
		w.plant.take()
		w.pass(2 * time.Second)
		w.did("prepare p 2, run p 2")
	})
}

// When the replaced part of a run does not end, the declared version starts by itself: after the drain timeout, or when
// the run fails meanwhile.
func TestLoopStartsWhatDoesNotTakeOver(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"forced": func(w *world) { w.pass(30*time.Second + 1) },
		"failed": func(w *world) { w.plant.fails("p", errBroken); synctest.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.declare(flexible("p", "1"))
				w.plant.with(func() { w.plant.stuck["2"] = make(chan struct{}) })
				w.declare(flexible("p", "2"))
				w.pass(29 * time.Second)
				w.state("running gen=1 tried=1")
				w.did("prepare p 1, run p 1, amend p 2, apply p 2")
				end(w)
				w.did("end p 1, prepare p 2, run p 2")
				w.state("running gen=2 tried=2")
				if r := w.store.reasons(); !strings.HasSuffix(r, "StopFailed Started") {
					w.Errorf("events: %s", r)
				}
			})
		})
	}
}

// A request made during an amendment is performed afterwards, or instead.
func TestLoopObeysDuringAmendments(t *testing.T) {
	stopped, other := flexible("p", "2"), flexible("p", "3")
	stopped.Status = spec.StatusStopped
	other.Connectors[0].Plugin = "other"
	wishes := map[string]struct {
		wish             func(w *world)
		drains, did, end string
	}{
		"another version": {func(w *world) {
			w.declare(flexible("p", "3"))
		}, "", "amend p 3, apply p 3", "running gen=3 tried=3"},
		"back": {func(w *world) {
			w.declare(flexible("p", "1"))
		}, "", "amend p 1, apply p 1", "running gen=3 tried=3"},
		"another source": {func(w *world) {
			w.declare(other)
		}, "", "prepare p 3, end p 2, run p 3", "running gen=3 tried=3"},
		"a restart": {func(w *world) {
			_ = w.loop.Restart(w.Context(), "p")
			synctest.Wait()
		}, "", "prepare p 2, end p 2, run p 2", "running gen=2 tried=2"},
		"a stop":     {func(w *world) { w.declare(stopped) }, "end p 1", "", "stopped gen=0 tried=1"},
		"a deletion": {func(w *world) { w.store.withdraw("p", true); w.wake() }, "end p 1, delete p:", "", "none"},
	}
	for name, c := range wishes {
		t.Run(name+" while it drains", func(t *testing.T) {
			inWorld(t, func(w *world) {
				stuck := make(chan struct{})
				w.plant.with(func() { w.plant.stuck["2"] = stuck })
				w.declare(flexible("p", "1"))
				w.declare(flexible("p", "2"))
				w.plant.take()
				c.wish(w)
				w.pass(time.Second)
				if got := w.plant.take(); !strings.HasPrefix(got, c.drains) || c.drains == "" && got != "" {
					w.Errorf("did %q while it drained, want %q", got, c.drains)
				}
				close(stuck)
				w.pass(time.Second)
				w.did(c.did)
				w.state(c.end)
			})
		})
		t.Run(name+" while it opens", func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.plant.with(func() { w.plant.slowApply["2"] = 3 * time.Second })
				w.declare(flexible("p", "1"))
				w.declare(flexible("p", "2"))
				w.state("starting gen=0 tried=1")
				w.plant.take()
				c.wish(w)
				w.pass(time.Second)
				if got := w.plant.take(); !strings.HasPrefix(got, c.drains) || c.drains == "" && got != "" {
					w.Errorf("did %q while it opened, want %q", got, c.drains)
				}
				w.pass(3 * time.Second)
				w.did(c.did)
				w.state(c.end)
			})
		})
	}
}

// A change during the preparation of an amendment makes it pointless: the amendment is discarded completely.
func TestLoopGivesUpAmendments(t *testing.T) {
	stopped := flexible("p", "2")
	stopped.Status = spec.StatusStopped
	cases := map[string]struct {
		meanwhile  func(w *world)
		did, state string
	}{
		"the run fails": {func(w *world) {
			w.plant.fails("p", errBroken)
			synctest.Wait()
		}, "end p 1, discard p 2, prepare p 2, run p 2", "running gen=2 tried=2"},
		"a stop": {func(w *world) {
			w.declare(stopped)
		}, "discard p 2, end p 1", "stopped gen=0 tried=1"},
		"another version": {func(w *world) {
			w.declare(flexible("p", "3"))
		}, "discard p 2, amend p 3, apply p 3", "running gen=3 tried=3"},
		"the run fails, and a stop": {func(w *world) {
			w.plant.fails("p", errBroken)
			w.declare(stopped)
		}, "end p 1, discard p 2", "stopped gen=0 tried=1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				gate := make(chan struct{})
				w.declare(flexible("p", "1"))
				w.plant.with(func() { w.plant.gates["2"] = gate })
				w.declare(flexible("p", "2"))
				w.did("prepare p 1, run p 1, amend p 2")
				c.meanwhile(w)
				close(gate)
				w.pass(time.Second)
				w.did(c.did)
				w.state(c.state)
			})
		})
	}
}

// A version that takes too long to take over gives way to the next one.
func TestLoopDoesNotWaitLongForAnAmendment(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plant.with(func() { w.plant.slowApply["2"] = time.Hour })
		w.declare(flexible("p", "1"))
		w.declare(flexible("p", "2"))
		w.plant.take()
		w.declare(flexible("p", "3"))
		w.pass(6 * time.Second)
		w.did("prepare p 3, end p 1, run p 3")
		w.state("running gen=3 tried=3")
	})
}

// The agent ends during an amendment.
func TestLoopEndsDuringAnAmendment(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plant.with(func() { w.plant.stuck["2"], w.plant.slowApply["3"] = make(chan struct{}), time.Hour })
		w.declare(flexible("p", "1"), flexible("q", "1"))
		w.declare(flexible("p", "2"), flexible("q", "3"))
		w.end()
		w.plant.with(func() { clear(w.plant.stuck) })
		w.start()
		w.pass(time.Second)
		w.state("running gen=2 tried=2")
	})
}

func TestLoopAdoptsAnEqualVersion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(pipeline("p", "1"))
		w.plant.with(func() { w.plant.hangPrepare["2"] = true })
		w.declare(pipeline("p", "2"))
		w.declare(pipeline("p", "1"))
		w.did("prepare p 1, run p 1, prepare p 2")
		w.state("running gen=3 tried=3")
	})
}

func TestLoopKeepsWhatRunsWhenPrepareFails(t *testing.T) {
	for _, hold := range []bool{false, true} {
		inWorld(t, func(w *world) {
			policy := reconciletest.Policy()
			policy.Hold = hold
			w.policy(policy)
			w.declare(pipeline("p", "1"))
			w.plant.take()
			w.plant.with(func() { w.plant.badPrepare["2"] = errBroken })
			w.declare(pipeline("p", "2"))
			w.did("prepare p 2")
			if s := w.state("running gen=1 tried=2!"); s.LastAttempt.Error != errBroken.Error() {
				w.Errorf("LastAttempt.Error is %q", s.LastAttempt.Error)
			}
			w.pass(1500 * time.Millisecond)
			if hold {
				w.did("prepare p 2")
			} else {
				w.did("")
			}
			w.declare(pipeline("p", "3"))
			w.did("prepare p 3, end p 1, run p 3")
			w.state("running gen=3 tried=3")
		})
	}
}

// A version that opens its connectors late is not the last attempt, if another version failed meanwhile.
func TestLoopKnowsWhatWasTriedLast(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plant.with(func() { w.plant.slowStart["1"], w.plant.badPrepare["2"] = time.Second, errBroken })
		w.declare(pipeline("p", "1"))
		w.declare(pipeline("p", "2"))
		w.did("prepare p 1, run p 1, prepare p 2")
		w.pass(2 * time.Second)
		w.state("running gen=1 tried=2!")
	})
}

func TestLoopRollsBackWhenStartFails(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(pipeline("p", "1"))
		w.plant.take()
		w.plant.with(func() { w.plant.badStart["2"] = errBroken })
		w.declare(pipeline("p", "2"))
		w.did("prepare p 2, end p 1, run p 2, end p 2, prepare p 1, run p 1")
		w.state("running gen=1 tried=2!")
		if r := w.store.reasons(); !strings.HasSuffix(r, "UpdateFailed RolledBack") {
			w.Errorf("events: %s", r)
		}
		w.pass(time.Hour)
		w.did("")

		w.plant.fails("p", errBroken) // the rolled-back version recovers as itself
		synctest.Wait()
		w.did("end p 1")
		w.pass(2 * time.Second)
		w.did("prepare p 1, run p 1")

		if err := w.loop.Restart(w.Context(), "p"); err != nil { // a request tries the declared one
			w.Error(err)
		}
		synctest.Wait()
		w.did("prepare p 2, end p 1, run p 2, end p 2, prepare p 1, run p 1")
	})
}

// A request starts a version again that was rolled back. If it runs this time, its later failures are no reason for a
// rollback.
func TestLoopForgetsARejectionAfterARequest(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(pipeline("p", "1"))
		w.plant.with(func() { w.plant.badStart["2"] = errBroken })
		w.declare(pipeline("p", "2"))
		w.state("running gen=1 tried=2!")
		w.plant.with(func() { delete(w.plant.badStart, "2") })
		if err := w.loop.Restart(w.Context(), "p"); err != nil {
			w.Error(err)
		}
		w.pass(time.Minute)
		w.state("running gen=2 tried=2")
		w.plant.take()
		w.plant.fails("p", errBroken)
		synctest.Wait()
		w.did("end p 2")
		w.pass(2 * time.Second)
		w.did("prepare p 2, run p 2")
		if r := w.store.reasons(); !strings.HasSuffix(r, "Failed Started") {
			w.Errorf("events: %s", r)
		}
	})
}

// A version that is abandoned while the former one drains is discarded at once.
func TestLoopDiscardsAVersionWhileTheFormerDrains(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plant.with(func() { w.plant.slowDrain["1"] = 10 * time.Second })
		w.declare(pipeline("p", "1"))
		w.declare(pipeline("p", "2"))
		w.did("prepare p 1, run p 1, prepare p 2")
		w.declare(halted(pipeline("p", "2")))
		w.did("discard p 2")
		w.pass(10 * time.Second)
		w.did("end p 1")
		w.state("stopped gen=0 tried=1")
	})
}

// The probation of a version does not make its successor, which an amendment is opening, the last known good one.
func TestLoopEndsAProbationWithAnAmendment(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(flexible("p", "1"))
		w.declare(flexible("p", "2"))
		w.pass(4 * time.Second)
		w.plant.with(func() { w.plant.slowApply["3"] = 3 * time.Second })
		w.declare(flexible("p", "3"))
		w.pass(2 * time.Second)
		if s := w.state("starting gen=0 tried=2"); s.LastGood.Generation != 1 {
			w.Errorf("generation %d is good while generation 3 opens", s.LastGood.Generation)
		}
		w.pass(2 * time.Second)
		if s := w.state("running gen=3 tried=3"); s.LastGood.Generation != 1 {
			w.Errorf("generation %d is good while generation 3 is on probation", s.LastGood.Generation)
		}
	})
}

// A version that runs does not inherit the stall of another one.
func TestLoopForgetsTheStallOfAnotherVersion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plant.with(func() { w.plant.badStart["1"] = errBroken })
		w.declare(pipeline("p", "1"))
		if s := w.state("recovering gen=0 tried=1!"); s.Stall == nil || s.Stall.Generation != 1 {
			w.Errorf("stall: %+v", s.Stall)
		}
		w.declare(pipeline("p", "2"))
		if s := w.state("running gen=2 tried=2"); s.Stall != nil {
			w.Errorf("stall: %+v", s.Stall)
		}
	})
}

// TestLoopBlamesTheStage makes runs fail because of a source or because of its processors.
func TestLoopBlamesTheStage(t *testing.T) {
	for reason, err := range map[string]stageError{
		"SourceFailed":     {},
		"SourceRefuses":    {refused: true},
		"ProcessorFailed":  {processors: true},
		"ProcessorRefuses": {processors: true, refused: true},
	} {
		t.Run(reason, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.plant.with(func() { w.plant.badStart["1"] = err })
				w.declare(pipeline("p", "1"))
				state := w.state("recovering gen=0 tried=1!")
				if s := state.Stall; s == nil || s.Reason != reason || s.Stage != "p:in" {
					t.Errorf("stall: %+v", s)
				}
				if state.LastAttempt.Stage != "p:in" {
					t.Errorf("attempt: %+v", state.LastAttempt)
				}
			})
		})
	}
}

// stageError is the error of a run for which connector in of pipeline p is to blame.
type stageError struct{ processors, refused bool }

func (stageError) Error() string { return "the stage failed" }

func (e stageError) Stage() (id string, processors, refused bool) {
	return "p:in", e.processors, e.refused
}

// TestLoopReportsDeliveries ends the stall of a pipeline: only one that runs delivers again.
func TestLoopReportsDeliveries(t *testing.T) {
	for name, fails := range map[string]bool{"runs": false, "failed": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.declare(pipeline("p", "1"))
				stall := &spec.Stall{Reason: "DestinationFails", Message: "no answer", Since: time.Now()}
				w.setStall(nil, stall)
				w.setStall(&spec.Stall{}, nil) // of an observer that saw another stall
				if s := w.state("running gen=1 tried=1").Stall; s != stall {
					t.Fatalf("stall: %+v", s)
				}
				if fails {
					w.plant.fails("p", errBroken)
					synctest.Wait()
					stall = w.state("recovering gen=0 tried=1").Stall
				}
				w.setStall(stall, nil)
				reports := strings.Count(w.store.reasons(), " NotDelivering")
				if again := strings.HasSuffix(w.store.reasons(), " Delivering"); reports != 1 || again == fails {
					t.Errorf("events: %s", w.store.reasons())
				}
			})
		})
	}
}

// A version that runs like the last known good one needs no probation.
func TestLoopKnowsTheLastGoodVersionAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(pipeline("p", "1"))
		w.declare(halted(pipeline("p", "1")))
		w.declare(pipeline("p", "1"))
		if s := w.state("running gen=3 tried=3"); s.LastGood.Generation != 3 {
			w.Errorf("generation %d is good", s.LastGood.Generation)
		}
	})
}

// A run that ends without an error and without a request has failed.
func TestLoopRecoversFromAnUnexpectedEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(pipeline("p", "1"))
		w.plant.fails("p", nil)
		synctest.Wait()
		if s := w.state("recovering gen=0 tried=1"); s.Error != "the pipeline ended unexpectedly" {
			w.Errorf("error %q", s.Error)
		}
	})
}

// With hold, a version whose failure is final is not tried again while another one runs.
func TestLoopHoldsWithoutRetriesOfAFinalFailure(t *testing.T) {
	inWorld(t, func(w *world) {
		policy := reconciletest.Policy()
		policy.Hold = true
		w.policy(policy)
		w.declare(pipeline("p", "1"))
		w.plant.with(func() { w.plant.badPrepare["2"] = fatal{errBroken} })
		w.declare(pipeline("p", "2"))
		w.did("prepare p 1, run p 1, prepare p 2")
		w.pass(time.Minute)
		w.did("")
		w.state("running gen=1 tried=2!")
	})
}

// Failures do not count as retries once the window is over, even if the pipeline did not run in between.
func TestLoopForgetsOldRetries(t *testing.T) {
	inWorld(t, func(w *world) {
		w.policy(plan.Policy{Recovery: plan.Recovery{MinDelay: time.Minute, MaxDelay: time.Minute, BackoffFactor: 1,
			MaxRetries: 2, MaxRetriesWindow: time.Second}})
		w.plant.with(func() { w.plant.badStart["1"] = errBroken })
		w.declare(pipeline("p", "1"))
		w.pass(10 * time.Minute)
		if s := w.state("recovering gen=0 tried=1!"); s.Failures != 2 {
			w.Errorf("%d failures", s.Failures)
		}
	})
}

// A degraded pipeline has no time of the next attempt.
func TestLoopDegradesWithoutATimeToRetry(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plant.with(func() { w.plant.badStart["1"] = fatal{errBroken} })
		w.declare(pipeline("p", "1"))
		if s := w.state("degraded gen=0 tried=1!"); s.RetryAt != nil {
			w.Errorf("next attempt at %v", s.RetryAt)
		}
	})
}

// When the rollback fails as well, the declared version is tried again.
func TestLoopTriesTheDeclaredVersionAfterAFailedRollback(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(pipeline("p", "1"))
		w.plant.take()
		w.plant.with(func() { w.plant.badStart["1"], w.plant.badStart["2"] = errBroken, errBroken })
		w.declare(pipeline("p", "2"))
		w.did("prepare p 2, end p 1, run p 2, end p 2, prepare p 1, run p 1, end p 1")
		w.state("recovering gen=0 tried=2!")
		w.plant.with(func() { delete(w.plant.badStart, "2") })
		w.pass(time.Minute)
		w.did("prepare p 2, run p 2")
		w.state("running gen=2 tried=2")
	})
}

// A new version that fails soon after its start is rolled back, a version that fails later recovers as itself.
func TestLoopTakesBackWhatFailsSoon(t *testing.T) {
	cases := map[string]struct {
		confirm, after time.Duration
		hold           bool
		did, state     string
	}{
		"soon": {5 * time.Second, 4 * time.Second, false, "end p 2, prepare p 1, run p 1",
			"running gen=1 tried=2!"},
		"later": {5 * time.Second, 6 * time.Second, false, "end p 2, prepare p 2, run p 2",
			"running gen=2 tried=2"},
		"no window": {0, time.Second, false, "end p 2, prepare p 2, run p 2", "running gen=2 tried=2"},
		"hold":      {5 * time.Second, time.Second, true, "end p 2, prepare p 2, run p 2", "running gen=2 tried=2"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				policy := reconciletest.Policy()
				policy.Probation, policy.Hold = c.confirm, c.hold
				w.policy(policy)
				w.declare(pipeline("p", "1"))
				w.declare(pipeline("p", "2"))
				w.pass(c.after)
				w.plant.take()
				w.plant.fails("p", errBroken)
				w.pass(2 * time.Second)
				w.did(c.did)
				w.state(c.state)
			})
		})
	}
}

func TestLoopKnowsTheLastGoodVersion(t *testing.T) {
	inWorld(t, func(w *world) {
		good := func(want int64) {
			w.Helper()
			if s := w.store.state("p"); s.LastGood == nil || s.LastGood.Generation != want {
				w.Errorf("the last good version is %+v, want generation %d", s.LastGood, want)
			}
		}
		w.declare(pipeline("p", "1"))
		good(1) // better than none
		w.declare(pipeline("p", "2"))
		good(1)
		w.pass(5*time.Second + 1)
		good(2)
		w.declare(pipeline("p", "3"))
		w.start() // an orderly end proves nothing
		good(2)
		w.pass(5*time.Second + 1)
		good(3)
		w.plant.with(func() { w.plant.badPrepare["5"] = errBroken })
		w.declare(pipeline("p", "4"))
		w.declare(pipeline("p", "5")) // does not touch the run
		good(3)
		w.pass(6 * time.Second)
		good(4)
	})
}

// A version that ends in order before the probation has ended has proved nothing: that version, and its successors, are
// rolled back to the last known good one.
func TestLoopGoesBackToWhatProvedItself(t *testing.T) {
	other := flexible("p", "3")
	other.Connectors[0].Plugin = "other"
	ask := func(w *world, how func(context.Context, string) error) {
		if err := how(w.Context(), "p"); err != nil {
			w.Error(err)
		}
		synctest.Wait()
	}
	for name, interrupt := range map[string]func(w *world){
		"restart of the agent":  func(w *world) { w.start() },
		"restart":               func(w *world) { ask(w, w.loop.Restart) },
		"application once more": func(w *world) { ask(w, w.loop.Reapply) },
		"amendment":             func(w *world) { w.declare(flexible("p", "3")) },
		"another version":       func(w *world) { w.declare(other) },
		"stop and start": func(w *world) {
			w.declare(halted(flexible("p", "2")))
			w.declare(flexible("p", "2"))
		},
		"one thing after another": func(w *world) {
			w.declare(other)
			w.start()
			ask(w, w.loop.Restart)
			w.declare(flexible("p", "2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.declare(flexible("p", "1"))
				w.declare(flexible("p", "2"))
				w.pass(time.Second)
				interrupt(w)
				w.pass(4 * time.Second)
				if s := w.store.state("p"); s.Phase != spec.PhaseRunning || s.LastGood.Generation != 1 {
					w.Errorf("%s, and the last good generation is %d", s.Phase, s.LastGood.Generation)
				}
				w.plant.fails("p", errBroken)
				synctest.Wait()
				if v := w.plant.runs("p"); v != "1" {
					w.Errorf("version %q runs, want 1", v)
				}
				w.pass(time.Minute)
				if s := w.store.state("p"); s.RunningGeneration != 1 || s.LastGood.Generation != 1 {
					w.Errorf("generation %d runs, the last good one is %d", s.RunningGeneration, s.LastGood.Generation)
				}
			})
		})
	}
}

// The warning about a source that starts over appears once, however often the version is started before its probation
// is over.
func TestLoopWarnsOnceOfALostPosition(t *testing.T) {
	inWorld(t, func(w *world) {
		p := pipeline("p", "2")
		p.Connectors[0].Plugin = "other"
		w.declare(pipeline("p", "1"))
		w.declare(p)
		w.start()
		w.start()
		if n := strings.Count(w.store.reasons(), "PositionLost"); n != 1 {
			w.Errorf("said %d times", n)
		}
	})
}

// Versions that follow each other too fast wait, and the latest of them counts. Requests do not wait, and neither does
// a change after a calm.
func TestLoopLimitsChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		f := &flapping{world: w}
		f.save()
		w.pass(time.Minute)
		w.plant.take()
		began := time.Now()
		for range 150 {
			f.save()
			w.pass(20 * time.Millisecond)
		}
		f.runs(11)
		if n := strings.Count(w.plant.take(), "run p"); n != 10 {
			w.Errorf("%d restarts, want 10", n)
		}
		w.pass(time.Until(began.Add(10*time.Second)) + time.Millisecond)
		w.did("prepare p v151, end p v11, run p v151")
		f.reported(1)
		w.pass(time.Minute)
		f.save()
		f.runs(152)
		for range 20 {
			f.save()
		}
		f.runs(161) // the tenth
		f.reported(2)
		f.obeysAtOnce()
	})
}

// flapping is a pipeline whose file changes again and again.
type flapping struct {
	*world
	versions int // so far
}

func (f *flapping) save() {
	f.versions++
	f.declare(pipeline("p", fmt.Sprint("v", f.versions)))
}

func (f *flapping) runs(want int) {
	f.Helper()
	if v := f.plant.runs("p"); v != fmt.Sprint("v", want) {
		f.Errorf("%s runs, want v%d", v, want)
	}
}

func (f *flapping) reported(times int) {
	f.Helper()
	if n := strings.Count(f.store.reasons(), "Flapping"); n != times {
		f.Errorf("reported %d times, want %d", n, times)
	}
}

// obeysAtOnce checks that stopping and explicit requests are not limited.
func (f *flapping) obeysAtOnce() {
	p := pipeline("p", "v172")
	f.declare(halted(p))
	if v := f.plant.runs("p"); v != "" {
		f.Errorf("%s runs, and it was to be stopped", v)
	}
	f.save()
	f.declare(p)
	f.runs(172) // was taken up when the pipeline was declared stopped
	f.save()
	f.save()
	if err := f.loop.Restart(f.Context(), "p"); err != nil {
		f.Error(err)
	}
	synctest.Wait()
	f.runs(f.versions)

	f.pass(time.Minute)
	for i := range 20 {
		f.declare(halted(pipeline("p", fmt.Sprint("h", i)))) // restarts nothing
	}
	f.save()
	f.runs(f.versions)
}

// Connectors that a version dropped are left alone while the version may be rolled back.
func TestLoopKeepsDroppedConnectorsForATakeBack(t *testing.T) {
	inWorld(t, func(w *world) {
		p := pipeline("p", "1")
		p.Connectors = append(p.Connectors, spec.Connector{ID: "out", Type: spec.TypeDestination, Plugin: "fake"})
		w.declare(p)
		w.declare(pipeline("p", "2"))
		w.pass(4 * time.Second)
		if !w.store.connector("p:out").Orphaned.IsZero() {
			w.Error("marked as orphaned")
		}
		w.pass(2 * time.Second)
		if w.store.connector("p:out").Orphaned.IsZero() {
			w.Error("not marked as orphaned")
		}
	})
}

// An edit gives a pipeline as many retries as a new pipeline has.
func TestLoopForgetsFailuresAfterAnEdit(t *testing.T) {
	inWorld(t, func(w *world) {
		policy := reconciletest.Policy()
		policy.MaxRetries = 2
		w.policy(policy)
		w.plant.with(func() { w.plant.badStart["1"], w.plant.badStart["2"] = errBroken, errBroken })
		for _, version := range []string{"1", "2"} {
			w.declare(pipeline("p", version))
			w.pass(time.Minute)
			if n := strings.Count(w.plant.take(), "run p"); n != 3 {
				w.Errorf("%d attempts of version %s, want 3", n, version)
			}
		}
	})
}

// A pipeline that is declared again during the last deletion step runs.
func TestLoopSeesWhatIsDeclaredDuringADeletion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(pipeline("p", "1"))
		w.store.deleted = func() {
			w.store.deleted = nil
			w.store.declare(pipeline("p", "2"))
			before := w.store.reads.Load()
			w.loop.Wake()
			for w.store.reads.Load() == before {
				runtime.Gosched() // no virtual time passes during a write of the store
			}
		}
		w.store.withdraw("p", true)
		w.wake()
		w.pass(10 * time.Second)
		w.state("running gen=1 tried=1")
		if v := w.plant.runs("p"); v != "2" {
			w.Errorf("version %q runs", v)
		}
	})
}

func TestLoopHolds(t *testing.T) {
	inWorld(t, func(w *world) {
		policy := reconciletest.Policy()
		policy.Hold = true
		w.policy(policy)
		w.declare(pipeline("p", "1"))
		w.plant.take()
		w.plant.with(func() { w.plant.badStart["2"] = errBroken })
		w.declare(pipeline("p", "2"))
		w.did("prepare p 2, end p 1, run p 2, end p 2")
		w.state("recovering gen=0 tried=2!")
		w.pass(1500 * time.Millisecond)
		w.did("prepare p 2, run p 2, end p 2")
	})
}

// With hold no version is started but the declared one, after the end of another one, too.
func TestLoopHoldsAfterTheEndOfWhatRan(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"for now":  {errBroken, "recovering gen=0 tried=2!"},
		"for good": {fatal{errBroken}, "degraded gen=0 tried=2!"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				policy := reconciletest.Policy()
				policy.Hold = true
				w.policy(policy)
				w.declare(pipeline("p", "1"))
				w.pass(policy.Probation)
				w.plant.with(func() { w.plant.badPrepare["2"] = c.err })
				w.declare(pipeline("p", "2"))
				w.state("running gen=1 tried=2!")
				w.plant.take()
				w.plant.fails("p", errBroken)
				w.pass(time.Minute)
				if did := w.plant.take(); strings.Contains(did, "run p") {
					w.Errorf("another version is started: %s", did)
				}
				w.state(c.want)
			})
		})
	}
}

// With hold no version is started but the declared one: another version continues for as long as it runs.
func TestLoopHoldsAcrossRestarts(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"for now":  {errBroken, "recovering gen=0 tried=2!"},
		"for good": {fatal{errBroken}, "degraded gen=0 tried=2!"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				policy := reconciletest.Policy()
				policy.Hold = true
				w.policy(policy)
				w.declare(pipeline("p", "1"))
				w.plant.with(func() { w.plant.badPrepare["2"] = c.err })
				w.declare(pipeline("p", "2"))
				w.state("running gen=1 tried=2!")
				w.store.mu.Lock()
				message := w.store.events[len(w.store.events)-1].Message
				w.store.mu.Unlock()
				if want := "generation 2 failed, generation 1 keeps running: it is broken"; message !=
					want {
					w.Errorf("reported %q, want %q", message, want)
				}
				w.policy(policy)
				w.state(c.want)
			})
		})
	}
}

func TestLoopRecovers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(pipeline("p", "1"))
		w.plant.with(func() { w.plant.badStart["1"] = errBroken })
		w.plant.fails("p", errBroken)
		synctest.Wait()
		w.plant.take()
		s := w.state("recovering gen=0 tried=1")
		if s.RetryAt == nil || s.Error != errBroken.Error() || s.Failures != 1 {
			w.Errorf("state: %+v", s)
		}
		w.pass(60 * time.Second) // 1+2+4+8+16 s, the sixth attempt comes after 63 s
		if n := strings.Count(w.plant.take(), "run p"); n != 5 && n != 6 {
			w.Errorf("%d attempts in a minute", n)
		}
		w.declare(pipeline("p", "2")) // an edit retries at once
		w.did("prepare p 2, run p 2")
		w.pass(time.Hour)
		if s := w.state("running gen=2 tried=2"); s.Failures != 0 {
			w.Errorf("after an hour %d failures count", s.Failures)
		}
	})
}

func TestLoopStopsARecoveringPipeline(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plant.with(func() { w.plant.badPrepare["1"] = errBroken })
		w.declare(pipeline("p", "1"))
		w.state("recovering gen=0 tried=1!")
		p := pipeline("p", "1")
		p.Status = spec.StatusStopped
		w.declare(p)
		w.plant.take()
		w.pass(time.Hour)
		w.did("")
		w.state("stopped gen=0 tried=1!")
	})
}

func TestLoopDegrades(t *testing.T) {
	cases := map[string]struct {
		err     error
		retries int
		want    int
	}{
		"permanent": {fatal{errBroken}, -1, 1},
		"wrapped":   {fmt.Errorf("cannot start: %w", fatal{errBroken}), -1, 1},
		"used up":   {errBroken, 3, 4},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				policy := reconciletest.Policy()
				policy.MaxRetries = c.retries
				w.policy(policy)
				w.plant.with(func() { w.plant.badStart["1"] = c.err })
				w.declare(pipeline("p", "1"))
				w.pass(time.Hour)
				if n := strings.Count(w.plant.take(), "run p"); n != c.want {
					w.Errorf("%d attempts, want %d", n, c.want)
				}
				w.state("degraded gen=0 tried=1!")
				w.plant.with(func() { delete(w.plant.badStart, "1") })
				if err := w.loop.Restart(w.Context(), "p"); err != nil {
					w.Error(err)
				}
				synctest.Wait()
				w.state("running gen=1 tried=1")
			})
		})
	}
}

func TestLoopIsNotHeldUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plant.with(func() { w.plant.slowDrain["slow"] = time.Hour })
		w.plant.with(func() { w.plant.hangPrepare["hang"] = true })
		w.declare(pipeline("p", "slow"), pipeline("q", "hang"), pipeline("r", "1"))
		w.declare(pipeline("p", "2"), pipeline("r", "2"))
		if w.plant.runs("r") != "2" {
			w.Error("r waits for others")
		}
		w.state("stopping gen=1 tried=1")
		w.declare(pipeline("p", "3")) // while 2 waits for the drain
		w.pass(31 * time.Second)      // the drain is forced
		if w.plant.runs("p") != "3" {
			w.Errorf("p runs %q", w.plant.runs("p"))
		}
		if log := w.plant.take(); !strings.Contains(log, "discard p 2") || strings.Contains(log, "run p 2") {
			w.Errorf("did %s", log)
		}
	})
}

func TestLoopStopsWhileStarting(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plant.with(func() { w.plant.hangPrepare["1"] = true })
		w.declare(pipeline("p", "1"))
		w.state("starting gen=0")
		p := pipeline("p", "1")
		p.Status = spec.StatusStopped
		w.declare(p)
		w.state("stopped gen=0")
	})
}

func TestLoopDeletes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(pipeline("p", "1"))
		w.plant.take()
		w.store.withdraw("p", false)
		w.wake()
		w.pass(9 * time.Second)
		w.did("")
		w.pass(2 * time.Second)
		w.did("end p 1")
		w.plant.with(func() { w.plant.badDelete["p:in"] = errBroken })
		w.pass(10*time.Minute - 500*time.Millisecond)
		w.did("delete p:in")
		if c := w.store.connector("p:in"); c.Attempts != 1 || c.Error == "" || c.RetryAt.IsZero() {
			w.Errorf("connector: %+v", c)
		}
		w.start() // across a restart of the agent
		w.plant.with(func() { delete(w.plant.badDelete, "p:in") })
		w.pass(2 * time.Second)
		w.did("delete p:in")
		w.state("none")
		if n := w.store.size(); n != 0 || w.deleted.Load() != 1 {
			w.Errorf("%d rows are left; notified %d times", n, w.deleted.Load())
		}
	})
}

// The clock of the machine is set during a wait. That makes nothing happen sooner or later.
func TestLoopGoesByItsOwnClock(t *testing.T) {
	for _, set := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		t.Run(set.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.declare(pipeline("p", "1"))
				w.plant.take()
				w.store.skew = -set
				w.store.withdraw("p", false)
				w.wake()
				w.pass(9 * time.Second)
				w.store.update("p", func(d *spec.Declaration) { d.UpdatedAt = time.Now() })
				w.wake()
				w.did("")
				w.pass(2 * time.Second)
				w.did("end p 1")
				w.pass(9 * time.Minute)
				w.declare(pipeline("q", "1")) // makes the loop read everything again
				w.did("prepare q 1, run q 1")
				w.pass(50 * time.Second)
				w.did("")
				w.pass(20 * time.Second)
				w.did("delete p:in")
				w.state("none")
			})
		})
	}
}

// A time from the future in the store, because the machine's clock was set back while no agent ran, counts as now: it
// delays things, but not for ever.
func TestLoopDistrustsTheFuture(t *testing.T) {
	inWorld(t, func(w *world) {
		p := pipeline("p", "1")
		p.Connectors = append(p.Connectors, spec.Connector{ID: "out", Type: spec.TypeDestination, Plugin: "fake"})
		w.declare(p, pipeline("q", "1"))
		w.end()
		w.store.skew = 24 * time.Hour
		w.store.withdraw("q", false)
		dropped := w.store.connector("p:out")
		dropped.Orphaned, dropped.Attempts, dropped.RetryAt = time.Now().Add(w.store.skew), 1,
			time.Now().Add(2*w.store.skew)
		w.store.declare(pipeline("p", "1"))
		if err := w.store.SaveConnectorState(t.Context(), &dropped); err != nil {
			t.Fatal(err)
		}
		w.plant.take()
		w.start()
		w.did("prepare p 1, run p 1")
		w.pass(9 * time.Minute)
		w.wake()
		w.pass(time.Minute + 11*time.Second)
		if did := w.plant.take(); did != "delete p:out, delete q:in" && did != "delete q:in, delete p:out" {
			t.Errorf("did %q", did)
		}
	})
}

// The loop asks a store that cannot delete a pipeline less and less often.
func TestLoopDeletesLessOften(t *testing.T) {
	inWorld(t, func(w *world) {
		var log wait.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		w.start()
		w.declare(pipeline("p", "1"))
		undeletable := func(err error) {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			w.store.undeletable = err
		}
		undeletable(errBroken)
		w.store.withdraw("p", true)
		w.wake()
		w.pass(10 * time.Minute)
		if n := strings.Count(log.Take(), "cannot delete a pipeline"); n < 5 || n > 12 {
			w.Errorf("tried %d times in ten minutes", n)
		}
		undeletable(nil)
		w.pass(10 * time.Minute)
		w.state("none")
	})
}

func TestLoopPurgesAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(pipeline("p", "1"))
		w.plant.take()
		w.store.withdraw("p", true)
		w.wake()
		w.did("end p 1, delete p:in")
		w.state("none")
	})
}

func TestLoopResumesWhatComesBack(t *testing.T) {
	for _, after := range []time.Duration{5 * time.Second, time.Minute} {
		inWorld(t, func(w *world) {
			w.declare(pipeline("p", "1"))
			w.store.withdraw("p", false)
			w.wake()
			w.pass(after)
			w.declare(pipeline("p", "1"))
			w.pass(time.Hour)
			w.state("running gen=1 tried=1")
			if w.store.connector("p:in").ID == "" {
				w.Error("the connector was forgotten")
			}
		})
	}
}

func TestLoopCleansUpDroppedConnectors(t *testing.T) {
	inWorld(t, func(w *world) {
		p := pipeline("p", "1")
		p.Connectors = append(p.Connectors, spec.Connector{ID: "out", Type: spec.TypeDestination, Plugin: "fake"})
		w.declare(p)
		w.declare(pipeline("p", "1"))
		w.plant.take()
		w.pass(6 * time.Second)
		if w.store.connector("p:out").Orphaned.IsZero() {
			w.Error("not marked as orphaned")
		}
		w.pass(9 * time.Minute)
		w.did("")
		w.pass(2 * time.Minute)
		w.did("delete p:out")
		w.state("running gen=2 tried=2")
	})
}

func TestLoopShutsDown(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 50 {
			w.store.declare(pipeline(fmt.Sprint("p", i), "slow"))
		}
		w.plant.with(func() { w.plant.slowDrain["slow"] = 20 * time.Second })
		w.plant.with(func() { w.plant.slowDrain["never"] = time.Hour })
		w.declare(pipeline("p", "never"))
		began := time.Now()
		w.end()
		if took := time.Since(began); took != 30*time.Second {
			w.Errorf("took %v", took)
		}
		if s := w.store.state("p"); s.StoppedByUser || s.Phase != spec.PhaseStopped || s.RunningGeneration != 0 {
			w.Errorf("state: %+v", s)
		}
		w.plant.take()
		w.start()
		w.state("running gen=1 tried=1")
		w.plant.with(func() { delete(w.plant.slowDrain, "never") })
	})
}

// A run that does not end can be cut off once the pipeline has to stop, and only then.
func TestLoopCutsOff(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plant.with(func() { w.plant.slowDrain["never"] = time.Hour })
		w.declare(pipeline("p", "never"))
		cutOff := func() {
			if err := w.loop.ForceStop(context.Background(), "p"); err != nil {
				w.Error(err)
			}
			w.pass(time.Millisecond)
		}
		cutOff()
		w.state("running gen=1 tried=1")
		stopped := pipeline("p", "never")
		stopped.Status = spec.StatusStopped
		w.store.declare(stopped)
		cutOff()
		w.state("stopped gen=0 tried=1")
		if !strings.Contains(w.store.reasons(), "StopFailed") {
			w.Errorf("events: %s", w.store.reasons())
		}
		if err := w.loop.ForceStop(context.Background(), "unknown"); err != nil {
			w.Error(err)
		}
	})
}

// An error of the store because the loop is ending says nothing about the store.
func TestLoopEndsBeforeItBegins(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, tt := range []struct {
		ends bool
		want error
	}{{false, errBroken}, {true, nil}} {
		if tt.ends {
			cancel()
		}
		if err := (&reconcile.Loop{Store: &unreadable{}}).Run(ctx); !errors.Is(err, tt.want) {
			t.Errorf("Run returned %v, want %v", err, tt.want)
		}
	}
}

// unreadable is a store that cannot be read.
type unreadable struct{ memory }

func (*unreadable) States(context.Context) ([]spec.State, error) { return nil, errBroken }

func TestLoopOutlivesItsStore(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(pipeline("p", "1"))
		w.store.set(errors.New("disk full"))
		w.plant.fails("p", errBroken)
		w.wake()
		w.pass(10 * time.Second)
		if w.plant.runs("p") != "1" {
			w.Error("p does not run")
		}
		w.store.set(nil)
		w.pass(2 * time.Second)
		w.state("running gen=1 tried=1")
	})
}

// A persistent fault of the store is logged when it begins, then less and less often, and when it is over. Check
// reports it all the while.
func TestLoopSaysSeldomThatAFaultLasts(t *testing.T) {
	inWorld(t, func(w *world) {
		var log wait.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		w.start()
		said := func(reads, saves int, over bool) {
			w.Helper()
			log := log.Take()
			for what, want := range map[string]int{"cannot read the desired state": reads,
				"cannot save the states": saves} {
				if n := strings.Count(log, what); n != want {
					w.Errorf("said %d times %q, want %d", n, what, want)
				}
			}
			for _, what := range []string{"the desired state can be read again", "states of pipelines can be saved " +
				"again"} {
				if strings.Contains(log, what) != over {
					w.Errorf("said %q: %v", what, !over)
				}
			}
			if bad := w.loop.Unsaved() != nil; bad == over {
				w.Errorf("it is reported that states are not saved: %v", bad)
			}
		}
		w.declare(pipeline("p", "1"))
		for range 2 {
			w.store.set(errors.New("disk full"))
			w.plant.fails("p", errBroken)
			w.wake()
			said(1, 1, false)
			w.pass(59 * time.Second)
			said(0, 0, false)
			w.pass(9 * time.Minute) // after 1, 3 and 7 minutes
			said(3, 3, false)
			w.store.set(nil)
			w.pass(2 * time.Second)
			said(0, 0, true)
		}
	})
}

func TestLoopStartsBehindHangingConnectors(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plant.with(func() { w.plant.hangPrepare["hang"] = true })
		var all []spec.Pipeline
		for i := range 300 {
			all = append(all, pipeline(fmt.Sprintf("h%03d", i), "hang"))
		}
		for i := range 100 {
			all = append(all, pipeline(fmt.Sprintf("p%03d", i), "1"))
		}
		w.declare(all...)
		w.pass(20 * time.Second)
		for i := range 100 {
			if w.plant.runs(fmt.Sprintf("p%03d", i)) == "" {
				w.Fatalf("p%03d waits for those that hang", i)
			}
		}
	})
}

// Check answers after all earlier declarations are being applied, and only then: not while the desired state cannot be
// read, but still while pipelines drain at the end.
func TestCheckMeansThatEverythingWasScanned(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.declare(pipeline("p", "1")) // without waking the loop
		if err := w.loop.Check(w.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := w.store.state("p"); s.Phase != spec.PhaseRunning {
			t.Errorf("p is %s", s.Phase)
		}

		w.store.set(errors.New("disk on fire"))
		answer := make(chan error, 1)
		go func() { answer <- w.loop.Check(w.Context()) }()
		w.pass(time.Minute)
		if len(answer) > 0 {
			t.Fatalf("answered %v although nothing can be read", <-answer)
		}
		w.store.set(nil)
		w.pass(time.Minute)
		if err := <-answer; err != nil {
			t.Error(err)
		}

		w.plant.with(func() { w.plant.slowDrain["1"] = 20 * time.Second })
		go w.end()
		synctest.Wait()
		if err := w.loop.Check(w.Context()); err != nil {
			t.Errorf("while it drains: %v", err)
		}
		w.pass(time.Minute)
		w.end = func() {}
	})
}

func TestLoopSavesStatesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		store.slow = 30 * time.Millisecond
		w := &world{T: t, store: store, plant: newPlant(t, store)}
		loop := &reconcile.Loop{Store: w.store, Runner: w.plant, Policy: reconciletest.Policy(), RunDigest: runDigest,
			SaveInterval: 50 * time.Millisecond}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx) }()
		saves := func(after time.Duration) int {
			time.Sleep(after)
			synctest.Wait()
			store.mu.Lock()
			defer store.mu.Unlock()
			return store.saves
		}
		store.declare(pipeline("p", "1"))
		loop.Wake()
		if n := saves(30 * time.Millisecond); n != 1 {
			t.Fatalf("the first state was saved %d times at once, want 1", n)
		}
		for i := range 100 {
			store.declare(pipeline(fmt.Sprintf("q%d", i), "1"))
			loop.Wake()
			synctest.Wait()
		}
		if n := saves(79 * time.Millisecond); n != 1 {
			t.Fatalf("%d saves within the interval, want none after the first", n-1)
		}
		if n := saves(time.Millisecond); n != 2 {
			t.Fatalf("%d saves after the interval, want 2", n)
		}
		if s := store.state("q99"); s.Phase != spec.PhaseRunning {
			t.Errorf("the saved state is %v", s.Phase)
		}
		cancel() // within the next interval
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if s := store.state("q99"); s.Phase != spec.PhaseStopped {
			t.Errorf("the last state, %v, was not saved at the end", s.Phase)
		}
	})
}
