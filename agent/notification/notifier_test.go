package notification_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/notification"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// world is the agent for a notifier, in virtual time.
type world struct {
	mu       sync.Mutex
	events   []spec.Event
	states   map[string]spec.State
	backlogs map[string]spec.Backlog     // of p
	taken    []notification.Notification // notifications accepted by Send
	refusals func(n int) error           // of the n-th attempt; nil accepts everything
	attempts []time.Time
	changes  notify.Broadcast
	log      bytes.Buffer
}

func (w *world) Name() string { return "webhook https://example.com" }

func (w *world) Send(_ context.Context, n *notification.Notification, _ []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attempts = append(w.attempts, time.Now())
	if w.refusals != nil {
		if err := w.refusals(len(w.attempts)); err != nil {
			return err
		}
	}
	w.taken = append(w.taken, *n)
	return nil
}

func (w *world) read(_ context.Context, after int64, limit int) ([]spec.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if after < 0 {
		return w.events[max(0, len(w.events)-1):], nil
	}
	rest := w.events[min(after, int64(len(w.events))):]
	return slices.Clone(rest[:min(limit, len(rest))]), nil
}

// happens records an event with the state after it, and waits until the notifier has handled it.
func (w *world) happens(pipeline, reason string, state spec.State) {
	w.mu.Lock()
	w.happened(pipeline, reason, state)
}

// happened records an event like happens. The caller holds mu, which happened unlocks: a notifier must not see the
// world between two changes that belong together.
func (w *world) happened(pipeline, reason string, state spec.State) {
	state.Since = time.Now()
	w.states[pipeline] = state
	e := spec.Event{ID: int64(len(w.events)) + 1, At: time.Now(), Pipeline: pipeline, Reason: reason,
		Message: "because"}
	if pipeline == "" {
		e.File = "orders.yaml"
	}
	w.events = append(w.events, e)
	w.mu.Unlock()
	w.changes.Notify()
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// isolated records an event of the running pipeline p with the backlog of its isolated destination after it.
func (w *world) isolated(reason string, backlog spec.Backlog) {
	w.mu.Lock()
	w.backlogs = map[string]spec.Backlog{"p:d": backlog}
	w.happened("p", reason, running)
}

// kinds returns the sent notifications, as "pipeline kind".
func (w *world) kinds() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, n := range w.taken {
		all = append(all, strings.TrimSpace(n.Pipeline+" "+string(n.Kind)))
	}
	return strings.Join(all, ", ")
}

// follow runs a notifier, and f concurrently.
func follow(t *testing.T, w *world, f func(), change ...func(*notification.Notifier)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w.states = map[string]spec.State{}
		n := &notification.Notifier{
			Agent: "edge-1", Targets: []notification.Target{w}, Selected: notification.Kinds(),
			Interval: 15 * time.Minute,
			Events:   w.read, Changes: &w.changes, Here: func(string) bool { return true },
			State: func(id string) (spec.State, bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				s, ok := w.states[id]
				return s, ok
			},
			Backlogs: func(string) map[string]spec.Backlog {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.backlogs
			},
			Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		}
		for _, c := range change {
			c(n)
		}
		if err := n.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- n.Run(ctx) }()
		f()
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

var (
	degraded = spec.State{Phase: spec.PhaseDegraded}
	failed   = spec.State{Phase: spec.PhaseRecovering, Failures: 1}
	running  = spec.State{Phase: spec.PhaseRunning, RunningGeneration: 2}
	behind   = spec.State{Phase: spec.PhaseRunning, RunningGeneration: 1,
		LastAttempt: &spec.Attempt{Generation: 2, Error: "because"}}
	// a run after a failure, before and after it has delivered for a while
	proving = spec.State{Phase: spec.PhaseRunning, RunningGeneration: 2, Failures: 1,
		Stall: &spec.Stall{Reason: "DestinationFailed"}}
	counted = spec.State{Phase: spec.PhaseRunning, RunningGeneration: 2, Failures: 1}
	stalled = spec.State{Phase: spec.PhaseRunning, RunningGeneration: 2,
		Stall: &spec.Stall{Reason: "DestinationStuck"}}
	stopped = spec.State{Phase: spec.PhaseStopped}

	full = spec.Backlog{Full: spec.IsolationBlocks, Text: "3 records wait"}
)

// Events of a pipeline are sent in order, and its recovery after it has worked for a while.
func TestKinds(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(w *world)
		want string
	}{
		"degraded and mended": {func(w *world) {
			w.happens("p", "Degraded", degraded)
			w.happens("p", "Started", running)
		}, "p degraded, p recovered"},
		"rolled back and mended": {func(w *world) {
			w.happens("p", "UpdateFailed", behind)
			w.happens("p", "RolledBack", behind)
			w.happens("p", "Started", running)
		}, "p update-failed, p recovered"},
		"stopped by a person": {func(w *world) {
			w.happens("p", "Degraded", degraded)
			w.happens("p", "Stopped", stopped)
		}, "p degraded"},
		"a failure that passes": {func(w *world) {
			w.happens("p", "Failed", failed)
			w.happens("p", "Started", running)
		}, ""},
		"a failure that lasts": {func(w *world) {
			w.happens("p", "Failed", failed)
			time.Sleep(time.Minute)
			w.happens("p", "Started", running)
		}, "p failing, p recovered"},
		"a failure that lasts, twice": {func(w *world) {
			for range 2 {
				w.happens("p", "Failed", failed)
				time.Sleep(time.Minute)
				w.happens("p", "Started", proving)
				time.Sleep(15 * time.Second)
				w.happens("p", "Delivering", counted)
				time.Sleep(16 * time.Minute)
			}
		}, "p failing, p recovered, p failing, p recovered"},
		"a failure that lasts, and a run that delivers nothing": {func(w *world) {
			w.happens("p", "Failed", failed)
			time.Sleep(time.Minute)
			w.happens("p", "Started", proving)
			time.Sleep(time.Minute)
		}, "p failing"},
		"delivers nothing, and delivers again": {func(w *world) {
			w.happens("p", "NotDelivering", stalled)
			time.Sleep(time.Minute)
			w.happens("p", "Delivering", running)
			time.Sleep(time.Minute)
		}, "p not-delivering, p recovered"},
		"still delivers nothing": {func(w *world) { w.happens("p", "NotDelivering", stalled); time.Sleep(time.Minute) },
			"p not-delivering"},
		"silent": {func(w *world) {
			w.happens("p", "Silent", running)
			w.happens("p", "RecordsAgain", running)
		}, "p silent, p recovered"},
		"a file": {func(w *world) {
			w.happens("", "FileAccepted", stopped)
			w.happens("", "FileRejected", stopped)
			w.happens("", "FileAccepted", stopped)
		}, "file-problem, file-accepted"},
		"a full log": {func(w *world) {
			w.isolated("IsolationFull", full)
			time.Sleep(time.Hour)
			w.isolated("IsolationRoom", spec.Backlog{})
		}, "p isolation-full, p recovered"},
		"a full log of a pipeline that is restarted": {func(w *world) {
			w.isolated("IsolationFull", full)
			time.Sleep(time.Minute)
			w.isolated("Started", spec.Backlog{})
			w.isolated("IsolationFull", full)
			time.Sleep(time.Minute)
		}, "p isolation-full"},
		"a full log of a pipeline that fails": {func(w *world) {
			w.isolated("IsolationFull", full)
			time.Sleep(10 * time.Second)
			w.mu.Lock()
			w.backlogs = nil
			w.happened("p", "Degraded", degraded)
			time.Sleep(time.Minute)
		}, "p isolation-full, p degraded"},
		"a full log of a pipeline that stops": {func(w *world) {
			w.isolated("IsolationFull", full)
			w.happens("p", "Stopped", stopped)
			w.isolated("Started", spec.Backlog{})
		}, "p isolation-full"},
		"a log that is full for a moment": {func(w *world) { w.isolated("IsolationFull", spec.Backlog{}) }, ""},
		"other events": {func(w *world) {
			w.happens("p", "Started", running)
			w.happens("p", "Stopped", stopped)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{}
			follow(t, w, func() { c.do(w); time.Sleep(10 * time.Second) })
			if got := w.kinds(); got != c.want {
				t.Errorf("sent %q, want %q", got, c.want)
			}
			for _, n := range w.taken {
				if n.Agent != "edge-1" || n.ID == "" || n.At.IsZero() || !strings.Contains(n.Text, string(n.Kind)) ||
					(n.Severity == "normal") != (n.Kind == "recovered" || n.Kind == "file-accepted") {
					t.Errorf("incomplete: %+v", n)
				}
			}
		})
	}
}

// A flapping pipeline has one notification of a kind per interval, and the last one is true.
func TestFlappingIsLimited(t *testing.T) {
	w := &world{}
	follow(t, w, func() {
		for range 50 {
			w.happens("p", "Degraded", degraded)
			w.happens("p", "Started", running)
			time.Sleep(6 * time.Second)
		}
		w.happens("q", "Degraded", degraded) // another pipeline is not held back
		w.happens("p", "Degraded", degraded)
		time.Sleep(20 * time.Minute)
	})
	if got, want := w.kinds(), "p degraded, p recovered, q degraded, p degraded"; got != want {
		t.Fatalf("sent %q, want %q", got, want)
	}
	if last := w.taken[3]; last.Suppressed != 49 {
		t.Errorf("%d are said not to have been sent, want 49", last.Suppressed)
	}
	ids := map[string]bool{}
	for _, n := range w.taken {
		ids[n.ID] = true
	}
	if len(ids) != len(w.taken) {
		t.Errorf("ids repeat: %v", ids)
	}
}

// Notifications about pipelines of other members of a cluster are theirs to send, and earlier events are not sent.
func TestOnlyTheOwnerSends(t *testing.T) {
	w := &world{events: []spec.Event{{ID: 1, Pipeline: "mine", Reason: "Degraded"}}}
	follow(t, w, func() { w.happens("theirs", "Degraded", degraded); w.happens("mine", "Degraded", degraded) },
		func(n *notification.Notifier) { n.Here = func(id string) bool { return id == "mine" } })
	if got := w.kinds(); got != "mine degraded" {
		t.Errorf("sent %q", got)
	}
}

// Kinds that are not selected are not sent, and neither is their recovery.
func TestSelected(t *testing.T) {
	w := &world{}
	kinds, err := notification.ParseKinds("degraded, recovered")
	if err != nil {
		t.Fatal(err)
	}
	follow(t, w, func() {
		w.happens("p", "Silent", running)
		w.happens("p", "Degraded", degraded)
	}, func(n *notification.Notifier) { n.Selected = kinds })
	if got := w.kinds(); got != "p degraded" {
		t.Errorf("sent %q", got)
	}
	w = &world{}
	follow(t, w, func() {
		w.happens("p", "UpdateFailed", behind)
		w.happens("p", "Started", running)
		time.Sleep(10 * time.Second)
	}, func(n *notification.Notifier) { n.Selected = kinds })
	if got := w.kinds(); got != "" {
		t.Errorf("sent %q", got)
	}
	if _, err := notification.ParseKinds("degraded,dead"); err == nil ||
		!strings.Contains(err.Error(), `"dead" is none of degraded, failing`) {
		t.Errorf("a kind that there is not: %v", err)
	}
}

// Failed notifications are retried with growing pauses, in order, and logged only a few times.
func TestRetries(t *testing.T) {
	w := &world{refusals: func(n int) error {
		if n <= 12 {
			return errors.New("no route to host")
		}
		return nil
	}}
	follow(t, w, func() {
		for i := range 3 {
			w.happens(fmt.Sprint("p", i), "Degraded", degraded)
		}
		time.Sleep(time.Hour)
	})
	if got := w.kinds(); got != "p0 degraded, p1 degraded, p2 degraded" {
		t.Errorf("sent %q", got)
	}
	for i := range 11 {
		pause, most := w.attempts[i+1].Sub(w.attempts[i]), min(time.Second<<i, 5*time.Minute)
		if pause < most/2 || pause > most {
			t.Errorf("pause %d is %v, want between %v and %v", i, pause, most/2, most)
		}
	}
	if n := strings.Count(w.log.String(), "no route to host"); n < 3 || n > 6 {
		t.Errorf("logged %d times:\n%s", n, &w.log)
	}
}

// The queue is bounded, and adding to it never blocks.
func TestQueueIsBounded(t *testing.T) {
	var n *notification.Notifier
	w := &world{refusals: func(int) error { return errors.New("down") }}
	follow(t, w, func() {
		for i := range 150 {
			w.happens(fmt.Sprint("p", i), "Degraded", degraded)
		}
		w.mu.Lock()
		w.refusals = nil
		w.mu.Unlock()
		time.Sleep(6 * time.Minute)
	}, func(made *notification.Notifier) { n = made })
	if got := len(w.taken); got < 100 || got > 102 || w.taken[got-1].Pipeline != "p149" {
		t.Errorf("%d were sent, the last of %s", got, w.taken[got-1].Pipeline)
	}
	counts := map[string]uint64{}
	n.Counts(func(_, result string, n uint64) { counts[result] += n })
	if counts["sent"]+counts["dropped"] != 150 || counts["dropped"] == 0 || counts["failed"] == 0 {
		t.Errorf("counted %v", counts)
	}
}

// Notifications that wait when the agent ends are tried once more.
func TestLastChance(t *testing.T) {
	w := &world{refusals: func(n int) error {
		if n < 3 {
			return errors.New("down")
		}
		return nil
	}}
	follow(t, w, func() { w.happens("p", "Degraded", degraded) })
	if got := w.kinds(); got != "p degraded" {
		t.Errorf("sent %q after %d attempts", got, len(w.attempts))
	}
}

// A pipeline is silent once no source in it has read for longer than max-silence, and not while it does not run.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		records, state := uint64(0), spec.State{Phase: spec.PhaseRunning, Since: time.Now()}
		var reasons []string
		limited := spec.Declaration{Pipeline: spec.Pipeline{ID: "p", MaxSilence: "1m"}}
		changes := spec.Delta[spec.Declaration]{Revision: 1, All: true,
			Rows: []*spec.Declaration{&limited, {Pipeline: spec.Pipeline{ID: "q"}}}}
		s := &notification.Silence{
			Declarations: func(_ context.Context, revision int64) (spec.Delta[spec.Declaration], error) {
				mu.Lock()
				defer mu.Unlock()
				if revision == changes.Revision {
					return spec.Delta[spec.Declaration]{Revision: revision}, nil
				}
				return changes, nil
			},
			State:   func(string) (spec.State, bool) { mu.Lock(); defer mu.Unlock(); return state, true },
			Records: func(string) uint64 { mu.Lock(); defer mu.Unlock(); return records },
			Save: func(_ context.Context, c *spec.Changes) error {
				mu.Lock()
				defer mu.Unlock()
				for _, e := range c.Events {
					reasons = append(reasons, e.Pipeline+" "+e.Reason)
				}
				return nil
			},
			Log: slog.New(slog.DiscardHandler),
		}
		go func() { _ = s.Run(t.Context()) }()
		set := func(n uint64, phase spec.Phase) { mu.Lock(); defer mu.Unlock(); records, state.Phase = n, phase }
		expect := func(after time.Duration, want ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(reasons, want) {
				t.Fatalf("events %v, want %v", reasons, want)
			}
		}
		expect(59 * time.Second)
		set(1, spec.PhaseRunning)
		expect(60 * time.Second)
		expect(5*time.Second, "p Silent")
		if all := s.All(); len(all) != 1 || !all["p"] {
			t.Errorf("silent are %v", all)
		}
		expect(time.Hour, "p Silent")
		set(2, spec.PhaseRunning)
		expect(2*time.Second, "p Silent", "p RecordsAgain")
		set(2, spec.PhaseStopped)
		expect(time.Hour, "p Silent", "p RecordsAgain")
		if all := s.All(); len(all) != 0 {
			t.Errorf("of pipelines that do not run: %v", all)
		}
	})
}

// Only changed declarations are read, and pipelines whose limit was removed are not counted any more.
func TestSilenceFollowsDeclarations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited, free := spec.Declaration{Pipeline: spec.Pipeline{ID: "p", MaxSilence: "1m"}},
			spec.Declaration{Pipeline: spec.Pipeline{ID: "p"}}
		changes := []spec.Delta[spec.Declaration]{
			{All: true, Rows: []*spec.Declaration{&limited, {Pipeline: spec.Pipeline{ID: "q"}}}},
			{Rows: []*spec.Declaration{&free}},
			{Rows: []*spec.Declaration{&limited}}, {Gone: []string{"p"}}, {All: true, Rows: []*spec.Declaration{&limited}},
			{All: true},
		}
		for i, want := range []int{1, 0, 1, 0, 1, 0} {
			s := &notification.Silence{
				Declarations: func(_ context.Context, revision int64) (spec.Delta[spec.Declaration], error) {
					d := spec.Delta[spec.Declaration]{Revision: min(revision+1, int64(i+1))}
					if revision <= int64(i) {
						d.All, d.Rows, d.Gone = changes[revision].All, changes[revision].Rows, changes[revision].Gone
					}
					return d, nil
				},
				State: func(string) (spec.State, bool) {
					return spec.State{Phase: spec.PhaseRunning, Since: time.Now()}, true
				},
				Records: func(string) uint64 { return 0 },
				Log:     slog.New(slog.DiscardHandler),
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _ = s.Run(ctx) }()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if got := len(s.All()); got != want {
				t.Errorf("after %d changes %d pipelines count, want %d", i+1, got, want)
			}
			cancel()
			synctest.Wait()
		}
	})
}
