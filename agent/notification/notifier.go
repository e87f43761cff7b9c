package notification

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

const (
	gather     = 100 * time.Millisecond // in which changes are gathered
	tickEvery  = time.Second            // for decisions that depend only on time
	eventsPage = 1000
)

// Notifier sends notifications about events and states to its targets. All exported fields are set before use.
type Notifier struct {
	Agent    string // name of this agent for people
	Targets  []Target
	Selected []Kind
	Interval time.Duration // in which a pipeline has one notification of a kind
	Events   func(ctx context.Context, after int64, limit int) ([]spec.Event, error)
	State    func(pipeline string) (spec.State, bool)
	// Backlogs returns those of the isolated destinations of a pipeline, by id. nil: no destination is isolated.
	Backlogs func(pipeline string) map[string]spec.Backlog
	Here     func(pipeline string) bool // reports whether this agent must run the pipeline
	Changes  *notify.Broadcast          // of events and states
	Log      *slog.Logger

	after  int64 // the last event read; owned by Run
	serial atomic.Int64
	mu     sync.Mutex
	counts map[[2]string]uint64 // by target and result; guarded by mu
}

// Begin makes the notifier follow events from now on. It must be called before Run.
func (n *Notifier) Begin(ctx context.Context) error {
	newest, err := n.Events(ctx, -1, 1)
	for _, e := range newest {
		n.after = e.ID
	}
	return err
}

// Run sends until ctx ends. Then it tries the waiting notifications once more, and returns nil.
func (n *Notifier) Run(ctx context.Context) error {
	if len(n.Targets) == 0 {
		return nil
	}
	var queues []*queue
	var all sync.WaitGroup
	ending, end := context.WithCancel(context.WithoutCancel(ctx))
	for _, t := range n.Targets {
		q := &queue{target: t, log: n.Log.With("component", "notify", "target", t.Name()), wake: notify.NewSignal(),
			counts: n.counter(t)}
		queues = append(queues, q)
		all.Go(func() { q.run(ending) })
	}
	n.follow(ctx, func(one Notification) {
		one.describe(n.Agent)
		for _, q := range queues {
			q.add(one)
		}
	})
	end()
	all.Wait()
	return nil
}

// follow decides about notifications until ctx ends, and once after that.
func (n *Notifier) follow(ctx context.Context, send func(Notification)) {
	d := &decider{interval: n.Interval, selected: n.Selected, state: n.State, backlogs: n.Backlogs, run: runID(),
		subjects: map[string]*subject{}}
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		ended, changed := ctx.Err() != nil, n.Changes.Next()
		for _, one := range n.decide(context.WithoutCancel(ctx), d) {
			send(one)
		}
		if ended {
			return
		}
		select {
		case <-changed:
			select {
			case <-time.After(gather):
			case <-ctx.Done():
			}
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// decide returns the notifications to send now.
func (n *Notifier) decide(ctx context.Context, d *decider) (all []Notification) {
	now := time.Now()
	for {
		events, err := n.Events(ctx, n.after, eventsPage)
		for _, e := range events {
			n.after = e.ID
			if e.Pipeline == "" || n.Here(e.Pipeline) {
				all = append(all, d.event(now, e)...)
			}
		}
		if err != nil || len(events) == 0 {
			break // the store reports its own faults; the next tick reads again
		}
	}
	return append(all, d.tick(now)...)
}

// runID returns an id that no other process has.
func runID() string {
	b := make([]byte, 6)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return hex.EncodeToString(b)
}

// Result is the result of a requested notification.
type Result struct {
	Target string
	Err    error
	Took   time.Duration
}

// Test sends a notification to every target at once, without retries.
func (n *Notifier) Test(ctx context.Context) []Result {
	one := Notification{ID: fmt.Sprintf("conduit-%s-test-%d", runID(), n.serial.Add(1)), At: time.Now(), Kind: Test,
		Message: "this is a test notification"}
	one.describe(n.Agent)
	results := make([]Result, len(n.Targets))
	var all sync.WaitGroup
	for i, t := range n.Targets {
		all.Go(func() {
			began := time.Now()
			err := (&queue{target: t}).try(ctx, &one)
			results[i] = Result{t.Name(), err, time.Since(began)}
		})
	}
	all.Wait()
	return results
}

func (n *Notifier) counter(t Target) func(result string) {
	return func(result string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.counts == nil {
			n.counts = map[[2]string]uint64{}
		}
		n.counts[[2]string{t.Name(), result}]++
	}
}

// Counts calls f with the number of attempts or notifications for each result: sent, failed (attempts that are
// retried), and dropped.
func (n *Notifier) Counts(f func(target, result string, count uint64)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, count := range n.counts {
		f(key[0], key[1], count)
	}
}
