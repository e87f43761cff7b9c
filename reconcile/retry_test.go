package reconcile_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/plan"
	"github.com/conduit-agent/conduit/reconcile/reconciletest"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

func (w *world) retry() {
	w.loop.Retry()
	synctest.Wait()
}

func TestRetryTriesWhatFailed(t *testing.T) {
	for name, err := range map[string]error{"recovering": errBroken, "degraded": fatal{errBroken}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.plant.with(func() { w.plant.badPrepare["1"] = err })
				w.declare(pipeline("p", "1"), pipeline("q", "2"))
				w.state(name + " gen=0 tried=1!")
				w.plant.take()
				w.retry() // in vain
				w.did("prepare p 1")
				w.plant.with(func() { delete(w.plant.badPrepare, "1") })
				w.retry()
				w.did("prepare p 1, run p 1")
				w.retry() // nothing left that failed
				w.did("")
			})
		})
	}
}

// environment is an error caused by the machine.
type environment struct{ error }

func (environment) Environment() bool { return true }

func TestRetryOfAnUpdate(t *testing.T) {
	for name, c := range map[string]struct {
		prepare bool // its preparation fails; otherwise it fails after the old version ended
		err     error
		want    string
	}{
		"not prepared":     {true, errBroken, "prepare p 2, end p 1, run p 2"},
		"tried":            {false, errBroken, ""},
		"the disk's fault": {false, environment{errBroken}, "prepare p 2, end p 1, run p 2"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.declare(pipeline("p", "1"))
				w.plant.with(func() {
					w.plant.badPrepare["0"] = errBroken
					bad := w.plant.badStart
					if c.prepare {
						bad = w.plant.badPrepare
					}
					bad["2"] = c.err
				})
				w.declare(pipeline("p", "0")) // says nothing about the next
				w.declare(pipeline("p", "2"))
				w.plant.take()
				w.plant.with(func() { clear(w.plant.badPrepare); clear(w.plant.badStart) })
				w.retry()
				w.did(c.want)
			})
		})
	}
}

func TestRetryOfAnUpdateAfterARestart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.declare(pipeline("p", "1"))
		w.plant.with(func() { w.plant.badPrepare["2"] = errBroken })
		w.declare(pipeline("p", "2"))
		w.start()
		w.state("running gen=1 tried=2!")
		w.plant.take()
		w.plant.with(func() { clear(w.plant.badPrepare) })
		w.retry()
		w.did("prepare p 2, end p 1, run p 2")
	})
}

func TestRetryWhileStarting(t *testing.T) {
	inWorld(t, func(w *world) {
		gate := make(chan struct{})
		w.plant.with(func() { w.plant.gates["1"], w.plant.badPrepare["1"] = gate, errBroken })
		w.declare(pipeline("p", "1"))
		w.retry()
		w.plant.take()
		close(gate) // an attempt that began before is tried once more
		synctest.Wait()
		w.did("prepare p 1")
		w.state("recovering gen=0 tried=1!")
	})
}

func TestRetryOfACleanUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.policy(plan.Policy{Recovery: plan.Recovery{MinDelay: time.Hour, MaxDelay: time.Hour, BackoffFactor: 1,
			MaxRetries: -1}})
		w.declare(pipeline("p", "1"))
		w.plant.with(func() { w.plant.badDelete["p:in"] = errBroken })
		w.store.withdraw("p", true)
		w.wake()
		w.plant.take()
		w.plant.with(func() { clear(w.plant.badDelete) })
		w.retry()
		w.did("delete p:in")
		w.state("none")
	})
}

// While the disk of the state is full for hours, the waiting states and events are bounded, and so is the log: a line
// for each attempt of a pipeline, and few for the state. When there is space again, the outcome of each pipeline is
// saved.
func TestHoursOfAFullDisk(t *testing.T) {
	inWorld(t, func(w *world) {
		const hours = 4
		var log bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		policy := reconciletest.Policy()
		w.policy(policy)
		w.declare(pipeline("p", "1"))
		w.state("running gen=1 tried=1")
		w.store.set(errBroken)
		w.plant.with(func() { w.plant.badStart["1"] = errBroken })
		w.plant.fails("p", errBroken)
		w.pass(hours * time.Hour)
		attempts, most := strings.Count(w.plant.take(), "run p"), hours*int(time.Hour/policy.MaxDelay)*10/9+10
		if attempts < most*7/10 || attempts > most {
			t.Errorf("%d attempts in %d hours, want at most %d", attempts, hours, most)
		}
		if lines := strings.Count(log.String(), "\n"); lines > attempts+2*hours+20 {
			t.Errorf("%d lines in the log of %d attempts", lines, attempts)
		}
		w.store.set(nil)
		w.plant.with(func() { delete(w.plant.badStart, "1") })
		w.pass(policy.MaxDelay)
		w.state("running gen=1 tried=1")
		w.store.mu.Lock()
		defer w.store.mu.Unlock()
		if s := w.store.states["p"]; s.Phase != spec.PhaseRunning {
			t.Errorf("saved is %+v", s)
		}
	})
}

// Without a network for days, attempts are max-delay apart, and their writes and log lines are bounded. When the
// network is back, the pipeline runs after one more pause.
func TestDaysWithoutANetwork(t *testing.T) {
	inWorld(t, func(w *world) {
		const days = 10
		w.store.slow = time.Millisecond // so that all changes of an attempt are saved together
		var log bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		policy := reconciletest.Policy()
		w.policy(policy)
		w.plant.with(func() { w.plant.badStart["1"] = errBroken })
		w.declare(pipeline("p", "1"))
		w.pass(days * 24 * time.Hour)
		// pauses vary by a tenth
		attempts, most := strings.Count(w.plant.take(), "run p"), days*24*int(time.Hour/policy.MaxDelay)*10/9+10
		if attempts < most*7/10 || attempts > most {
			t.Errorf("%d attempts in %d days, want at most %d", attempts, days, most)
		}
		if lines := strings.Count(log.String(), "\n"); lines < attempts || lines > 2*attempts+10 {
			t.Errorf("%d lines in the log of %d attempts", lines, attempts)
		}
		w.store.mu.Lock()
		saves := w.store.saves
		w.store.mu.Unlock()
		if saves < attempts || saves > 3*attempts+10 {
			t.Errorf("states were saved %d times for %d attempts", saves, attempts)
		}
		w.plant.with(func() { delete(w.plant.badStart, "1") })
		w.pass(policy.MaxDelay)
		w.state("running gen=1 tried=1")
	})
}

// TestErrorsAreBrief makes a pipeline fail with a long error, before and after it was started.
func TestErrorsAreBrief(t *testing.T) {
	long := errors.New(strings.Repeat("x", 20<<20))
	for name, prepare := range map[string]bool{"not prepared": true, "not started": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.plant.with(func() {
					bad := w.plant.badStart
					if prepare {
						bad = w.plant.badPrepare
					}
					bad["1"] = long
				})
				w.declare(pipeline("p", "1"))
				s := w.state("recovering gen=0 tried=1!")
				if len(s.Error) == 0 || len(s.Error) > texts.MaxError || len(s.LastAttempt.Error) > texts.MaxError {
					t.Errorf("the state has errors of %d and %d bytes", len(s.Error), len(s.LastAttempt.Error))
				}
			})
		})
	}
}

// TestDegradedSaysSo makes a pipeline fail for good: its error says how to start it again, and names the cause.
func TestDegradedSaysSo(t *testing.T) {
	long := errors.New(strings.Repeat("x", 1<<20))
	for name, c := range map[string]struct {
		err     error
		retries int
	}{"permanent": {fatal{errBroken}, -1}, "no retry is left": {errBroken, 0}, "long": {fatal{long}, -1}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.loop.Policy.MaxRetries = c.retries
				w.plant.with(func() { w.plant.badPrepare["1"] = c.err })
				w.declare(pipeline("p", "1"))
				s := w.state("degraded gen=0 tried=1!")
				for what, text := range map[string]string{"state": s.Error, "stall": s.Stall.Message} {
					if !strings.HasSuffix(text, spec.NotAgain("p")) || !strings.HasPrefix(text, c.err.Error()[:4]) ||
						len(text) > texts.MaxError {
						t.Errorf("the %s says: %s", what, text)
					}
				}
				if strings.Contains(s.LastAttempt.Error, spec.NotAgain("p")) {
					t.Errorf("the attempt says: %s", s.LastAttempt.Error)
				}
			})
		})
	}
}

// TestShutdownNamesWhatItWaitsFor ends a loop with pipelines that settle at once, soon, and never.
func TestShutdownNamesWhatItWaitsFor(t *testing.T) {
	inWorld(t, func(w *world) {
		var log bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		w.set = func(l *reconcile.Loop) { l.ShutdownTimeout = 17 * time.Second }
		w.policy(reconciletest.Policy())
		w.plant.with(func() {
			w.plant.slowDrain["soon"], w.plant.slowDrain["never"] = 7*time.Second, time.Hour
			w.plant.hangPrepare["starts"] = true
		})
		w.declare(pipeline("p", "1"), pipeline("q", "soon"), pipeline("r", "never"),
			pipeline("s", "starts"), halted(pipeline("t", "1")))
		w.end()
		var got []string
		for line := range strings.SplitSeq(log.String(), "\n") {
			if _, pipelines, ok := strings.Cut(line, "pipelines="); ok {
				got = append(got, pipelines)
			}
		}
		want := []string{`"p, q, r, s" limit=17s`, `"q, r"`, "r", "r", "r"}
		if !slices.Equal(got, want) {
			t.Errorf("logged %q, want %q:\n%s", got, want, log.String())
		}
		w.start()
	})
}

// TestShutdownNamesAFewOfMany checks that the log line stays short.
func TestShutdownNamesAFewOfMany(t *testing.T) {
	inWorld(t, func(w *world) {
		var log bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		policy := reconciletest.Policy()
		w.policy(policy)
		var all []spec.Pipeline
		for i := range 100 {
			all = append(all, pipeline(fmt.Sprintf("p%02d", i), "1"))
		}
		w.declare(all...)
		w.end()
		if !strings.Contains(log.String(), "p18, p19 and 80 more\"") {
			t.Errorf("logged %s", log.String())
		}
		w.start()
	})
}
