package delivery_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/delivery"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/reconciletest"
	"github.com/conduit-agent/conduit/spec"
)

// agent is a loop that runs pipeline p of fakes, with a Watch.
type agent struct {
	*fakes
	t    *testing.T
	loop *reconcile.Loop
	stop func()
}

var declared = spec.Pipeline{
	ID:              "p",
	Status:          spec.StatusRunning,
	DeadLetterQueue: spec.DeadLetterQueue{Plugin: "dlq", WindowSize: 0},
	Connectors: []spec.Connector{
		{ID: "in", Type: spec.TypeSource, Plugin: "in"}, {ID: "out", Type: spec.TypeDestination, Plugin: "out"}},
}

func newFakes(connectors map[string]fake) *fakes {
	return &fakes{store: newMemory(), stats: &measure.Pipeline{}, connectors: connectors}
}

// start starts an agent in the bubble, which ends with the test at the latest.
func start(t *testing.T, f *fakes) *agent {
	ctx, cancel := context.WithCancel(t.Context())
	f.commits = &engine.Committer{Store: f.store, CommitInterval: time.Millisecond}
	policy := reconciletest.Policy()
	policy.DrainTimeout = 2 * time.Second
	a := &agent{fakes: f, t: t, loop: &reconcile.Loop{Store: f.store, Runner: f, Policy: policy, RunDigest: digest,
		ShutdownTimeout: 5 * time.Second}}
	w := &delivery.Watch{Loop: a.loop, Runs: f, Log: slog.New(slog.DiscardHandler)}
	ended := make(chan error, 3)
	serving, end := context.WithCancel(context.Background())
	go func() { ended <- a.loop.Run(ctx); end() }()
	go func() { ended <- w.Run(serving) }()
	go func() { ended <- f.commits.Run(serving) }()
	a.stop = func() {
		cancel()
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	return a
}

func (a *agent) stall() *spec.Stall {
	s, _ := a.loop.State("p")
	return s.Stall
}

// reason returns the reason of the current stall of p, "" for none.
func (a *agent) reason() string {
	if s := a.stall(); s != nil {
		return s.Reason
	}
	return ""
}

// after lets time pass and checks the stall of p.
func (a *agent) after(d time.Duration, want string) {
	a.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	if got := a.reason(); got != want {
		a.t.Errorf("after %v more it is %q, want %q: %+v", d, got, want, a.stall())
	}
}

// always checks the stall of p every second for a time.
func (a *agent) always(d time.Duration, want ...string) {
	a.t.Helper()
	for at := range int(d / time.Second) {
		time.Sleep(time.Second)
		synctest.Wait()
		if got := a.reason(); got != want[0] && got != want[len(want)-1] {
			a.t.Fatalf("%d s later it is %q, want %q: %+v", at+1, got, want, a.stall())
		}
	}
}

func hang(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func hangs(ctx context.Context, _ int) error { return hang(ctx) }

var errDown = errors.New("connection refused")

// TestFailures checks the stall that each kind of failure causes, and when.
func TestFailures(t *testing.T) {
	down := func(context.Context) error { return errDown }
	for name, tt := range map[string]struct {
		connectors map[string]fake
		process    func(context.Context) error
		dlq        *spec.DeadLetterQueue // nil: any number of refusals is tolerated
		by         time.Duration         // the time when the stall must be found
		want       []string              // from then on, at any time
	}{
		"all is well": {nil, nil, nil, time.Second, []string{""}},
		"the destination hangs": {map[string]fake{"out": {write: hangs}}, nil, nil, 25 * time.Second,
			[]string{"DestinationStuck"}},
		"it refuses every record": {map[string]fake{"out": {write: func(context.Context, int) error {
			return errRefused
		}}}, nil, nil, 25 * time.Second, []string{"DestinationRefuses"}},
		"it fails with every record": {map[string]fake{"out": {write: func(context.Context, int) error {
			return errDown
		}}}, nil, nil, 3 * time.Second, []string{"DestinationFailed"}},
		"it cannot be opened": {map[string]fake{"out": {open: down}}, nil, nil, time.Second,
			[]string{"DestinationFailed"}},
		"it cannot be opened, nothing read": {map[string]fake{"out": {open: down},
			"in": {read: func(ctx context.Context, _ int) error {
				return hang(ctx)
			}}}, nil, nil, time.Second, []string{"DestinationFailed"}},
		"opening it hangs": {map[string]fake{"out": {open: hang}}, nil, nil, 25 * time.Second,
			[]string{"DestinationStuck"}},
		"opening the source hangs": {map[string]fake{"in": {open: hang}}, nil, nil, 25 * time.Second,
			[]string{"SourceStuck"}},
		"the source cannot be opened": {map[string]fake{"in": {open: down}}, nil, nil, time.Second,
			[]string{"SourceFailed"}},
		"the source is idle": {map[string]fake{"in": {read: func(ctx context.Context, _ int) error {
			return hang(ctx)
		}}}, nil, nil, time.Second, []string{""}},
		"the dead-letter queue hangs": {map[string]fake{"out": {write: func(context.Context, int) error {
			return errRefused
		}}, "dlq": {write: hangs}}, nil, nil,
			25 * time.Second, []string{"DeadLetterQueueStuck"}},
		"the dead-letter queue fails": {map[string]fake{"out": {write: func(context.Context, int) error {
			return errRefused
		}}, "dlq": {write: func(context.Context, int) error { return errDown }}}, nil, nil,
			3 * time.Second, []string{"DeadLetterQueueFailed"}},
		"a processor hangs": {nil, hang, nil, 25 * time.Second, []string{"ProcessorStuck"}},
		"a processor fails": {nil, func(context.Context) error {
			return errDown
		}, nil, 3 * time.Second, []string{"ProcessorFailed"}},
		"a processor refuses every record": {nil, func(context.Context) error {
			return errRefused
		}, nil, 25 * time.Second, []string{"ProcessorRefuses"}},
		"a processor refuses every other record": {nil, everyOther(errRefused), nil, time.Second, []string{""}},
		"a processor drops every record": {nil, func(context.Context) error {
			return errDropped
		}, nil, time.Second, []string{""}},
		"a processor refuses its first record": {nil, func(context.Context) error {
			return errRefused
		}, &spec.DeadLetterQueue{Plugin: "dlq", WindowSize: 1}, 3 * time.Second, []string{"ProcessorRefuses"}},
		"it is degraded by its first refused record": {map[string]fake{"out": {write: func(context.Context, int) error {
			return errRefused
		}}}, nil, &spec.DeadLetterQueue{Plugin: "dlq", WindowSize: 1},
			3 * time.Second, []string{"DestinationRefuses"}},
		"it refuses every other record": {map[string]fake{"out": {write: func() func(context.Context, int) error {
			next := everyOther(errRefused)
			return func(ctx context.Context, _ int) error { return next(ctx) }
		}()}}, nil, nil, time.Second, []string{""}},
		"a record takes a minute": {map[string]fake{"out": {write: func(ctx context.Context, _ int) error {
			return pause(ctx, time.Minute)
		}}}, nil, nil, 65 * time.Second, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakes(tt.connectors)
				p := declared
				if tt.dlq != nil {
					p.DeadLetterQueue = *tt.dlq
				}
				if f.process = tt.process; f.process != nil {
					p.Processors = []spec.Processor{{ID: "mask", Plugin: "fake", Workers: 1}}
				}
				f.store.declare(p)
				a := start(t, f)
				defer a.stop()
				time.Sleep(tt.by)
				a.always(5*time.Minute, tt.want...)
			})
		})
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// everyOther returns a function that returns err every other time.
func everyOther(err error) func(context.Context) error {
	n := 0
	return func(context.Context) error {
		if n++; n%2 == 0 {
			return err
		}
		return nil
	}
}

// A processor that refuses every record is to blame, with its last error, until a record is delivered.
func TestProcessorRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(nil)
		var wrong atomic.Bool // also read by the fakes
		wrong.Store(true)
		f.process = func(context.Context) error {
			if wrong.Load() {
				return errRefused
			}
			return nil
		}
		p := declared
		p.Processors = []spec.Processor{{ID: "mask", Plugin: "fake", Workers: 1}}
		f.store.declare(p)
		a := start(t, f)
		defer a.stop()
		a.always(15*time.Second, "")
		a.after(10*time.Second, "ProcessorRefuses")
		s := a.stall()
		if s.Stage != "p:mask" || s.Message != "processor p:mask passes on nothing: it refuses every record: no such column" {
			t.Errorf("stall %+v", s)
		}
		if since := time.Since(s.Since); since < 23*time.Second || since > 25*time.Second {
			t.Errorf("since %v", since)
		}
		a.always(time.Minute, "ProcessorRefuses")
		wrong.Store(false)
		a.after(3*time.Second, "")
		if n, m := f.store.count("NotDelivering"), f.store.count("Delivering"); n != 1 || m != 1 {
			t.Errorf("%d events of the beginning, %d of the end", n, m)
		}
	})
}

// A processor that refuses every record that meets its condition holds up nothing while others are delivered.
func TestConditionalProcessorRefuses(t *testing.T) {
	for condition, want := range map[string]string{`{{ hasSuffix "3" (toString .Payload.After) }}`: "",
		`{{ not (hasSuffix "999" (toString .Payload.After)) }}`: "ProcessorRefuses"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakes(nil)
			f.process = func(context.Context) error { return errRefused }
			p := declared
			p.Processors = []spec.Processor{{ID: "error", Plugin: "fake", Workers: 1, Condition: condition}}
			f.store.declare(p)
			a := start(t, f)
			defer a.stop()
			time.Sleep(25 * time.Second)
			a.always(2*time.Minute, want)
		})
	}
}

// A destination that answers again ends the stall, with one event for the beginning and one for the end.
func TestRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked := make(chan struct{})
		f := newFakes(map[string]fake{"out": {write: func(ctx context.Context, _ int) error {
			select {
			case <-blocked:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}})
		f.store.declare(declared)
		a := start(t, f)
		defer a.stop()
		a.after(40*time.Second, "DestinationStuck")
		if since := time.Since(a.stall().Since); since < 37*time.Second || since > 40*time.Second {
			t.Errorf("nothing is delivered for %v", since)
		}
		close(blocked)
		a.after(3*time.Second, "")
		a.always(2*time.Minute, "")
		if n, m := f.store.count("NotDelivering"), f.store.count("Delivering"); n != 1 || m != 1 {
			t.Errorf("%d events of the beginning, %d of the end", n, m)
		}
	})
}

// A pipeline that is restarted by hand counts as delivering soon if it works, and not before.
func TestRestartByHand(t *testing.T) {
	for _, works := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var repaired atomic.Bool
			f := newFakes(map[string]fake{"out": {open: func(context.Context) error {
				if repaired.Load() {
					return nil
				}
				return errDown
			}}})
			f.store.declare(declared)
			a := start(t, f)
			defer a.stop()
			a.after(10*time.Minute, "DestinationFailed")
			repaired.Store(works)
			if err := a.loop.Restart(t.Context(), "p"); err != nil {
				t.Fatal(err)
			}
			if a.after(0, "DestinationFailed"); works {
				a.after(4*time.Second, "")
			}
			want := map[bool]string{false: "DestinationFailed"}[works]
			a.always(2*time.Minute, want)
		})
	}
}

// A failure is remembered while runs begin, read and fail, and over a restart of the agent, until a run delivers for a
// while.
func TestFailuresAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool // also read by the fakes
		down.Store(true)
		f := newFakes(map[string]fake{"out": {write: func(ctx context.Context, _ int) error {
			if !down.Load() {
				return nil
			}
			if err := pause(ctx, 10*time.Second); err != nil {
				return err
			}
			return errDown
		}}})
		f.store.declare(declared)
		a := start(t, f)
		a.after(15*time.Second, "DestinationFailed")
		since := a.stall().Since
		a.always(3*time.Minute, "DestinationFailed")
		a.stop()
		a = start(t, f)
		defer a.stop()
		a.always(time.Minute, "DestinationFailed", "DestinationStuck")
		if !a.stall().Since.Equal(since) {
			t.Errorf("nothing is delivered since %v, after the restart since %v", since, a.stall().Since)
		}
		down.Store(false)
		a.always(10*time.Second, "DestinationFailed", "DestinationStuck")
		time.Sleep(4 * time.Minute) // the longest pause between two runs, and some more
		a.after(0, "")
	})
}

// A destination that delivers for a while in every run, and then fails, does not count as healthy in between.
func TestFlapping(t *testing.T) {
	for _, lasts := range []time.Duration{10 * time.Second, 20 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var began time.Time
			f := newFakes(map[string]fake{"out": {
				open: func(context.Context) error { began = time.Now(); return nil },
				write: func(context.Context, int) error {
					if time.Since(began) > lasts {
						return errDown
					}
					return nil
				},
			}})
			f.store.declare(declared)
			a := start(t, f)
			defer a.stop()
			time.Sleep(3 * lasts)
			a.always(10*time.Minute, "DestinationFailed")
		})
	}
}

// Records that a run delivered at its very end do not count for the next run.
func TestLastRecordOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, left := 0, 0
		f := newFakes(map[string]fake{"out": {
			open: func(context.Context) error { runs++; left = runs % 2; return nil },
			write: func(ctx context.Context, _ int) error {
				if left--; left == 0 { // between two observations, followed by the record that fails
					return pause(ctx, 1550*time.Millisecond)
				}
				if runs%2 == 1 {
					return errDown
				}
				if err := pause(ctx, 18*time.Second); err != nil {
					return err
				}
				return errDown
			},
		}})
		f.store.declare(declared)
		a := start(t, f)
		defer a.stop()
		time.Sleep(5 * time.Second)
		a.always(10*time.Minute, "DestinationFailed", "DestinationStuck")
	})
}

// A source that logs retries, and reads nothing, is to blame until it reads.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(nil)
		var down atomic.Bool // also read by the fakes
		down.Store(true)
		f.connectors = map[string]fake{"in": {read: func(ctx context.Context, _ int) error {
			for down.Load() {
				f.stats.Source("p:in").Reports.Note("cannot connect, trying again: connection refused", time.Now())
				if err := pause(ctx, 10*time.Second); err != nil {
					return err
				}
			}
			return nil
		}}}
		f.store.declare(declared)
		a := start(t, f)
		defer a.stop()
		time.Sleep(15 * time.Second)
		a.always(2*time.Minute, "SourceRetrying")
		down.Store(false)
		a.after(15*time.Second, "")
	})
}

// The stalled one of two destinations is named, and the other keeps delivering.
func TestOneOfTwoDestinations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(map[string]fake{"slow": {write: hangs}})
		p := declared
		p.Connectors = append(append([]spec.Connector{}, p.Connectors...),
			spec.Connector{ID: "second", Type: spec.TypeDestination, Plugin: "slow"})
		f.store.declare(p)
		a := start(t, f)
		defer a.stop()
		a.after(25*time.Second, "DestinationStuck")
		if stage := a.stall().Stage; stage != "p:second" {
			t.Errorf("%s is to blame", stage)
		}
	})
}

// A pipeline that is stopped by hand while it fails needs no attention.
func TestStoppedByHand(t *testing.T) {
	for name, out := range map[string]fake{"it fails": {open: func(context.Context) error { return errDown }},
		"it hangs": {write: hangs}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakes(map[string]fake{"out": out})
				f.store.declare(declared)
				a := start(t, f)
				defer a.stop()
				time.Sleep(25 * time.Second)
				synctest.Wait()
				if a.reason() == "" {
					t.Fatal("it is well")
				}
				p := declared
				p.Status = spec.StatusStopped
				f.store.declare(p)
				a.loop.Wake()
				a.after(15*time.Second, "")
				a.always(time.Minute, "")
			})
		})
	}
}

// A version that replaces a stalled one begins without its stall, and a failed version is rolled back.
func TestVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(map[string]fake{"broken": {open: func(context.Context) error { return errDown }}})
		p := declared
		p.Connectors = []spec.Connector{declared.Connectors[0], {ID: "out", Type: spec.TypeDestination,
			Plugin: "broken"}}
		f.store.declare(p)
		a := start(t, f)
		defer a.stop()
		a.after(5*time.Second, "DestinationFailed")
		f.store.declare(declared)
		a.loop.Wake()
		a.after(3*time.Second, "")
		time.Sleep(time.Minute)
		f.store.declare(p)
		a.loop.Wake()
		a.after(5*time.Second, "")
		s, _ := a.loop.State("p")
		if s.LastAttempt == nil || s.LastAttempt.Error == "" || s.RunningGeneration == s.LastAttempt.Generation {
			t.Errorf("it is not rolled back: %+v", s)
		}
	})
}

// A destination that gathers batches, or has a rate limit, is not stuck meanwhile.
func TestPatience(t *testing.T) {
	for name, settings := range map[string]map[string]string{
		"a batch of two minutes":  {"sdk.batch.delay": "2m"},
		"a batch of many records": {"sdk.batch.size": "1000"},
		"a record a minute":       {"sdk.rate.perSecond": "0.0166"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakes(nil)
				f.connectors = map[string]fake{"out": {write: func(ctx context.Context, _ int) error {
					return pause(ctx, 2*time.Minute)
				}}}
				f.connectors["in"] = fake{read: func(ctx context.Context, next int) error { return pause(ctx, 30*time.Second) }}
				f.store.declare(declared)
				f.defaults = settings
				a := start(t, f)
				defer a.stop()
				a.always(110*time.Second, "")
			})
		})
	}
}
