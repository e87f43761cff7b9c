package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/reconcile/plan"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// fullInterval is the interval at which everything is read and planned, in case a change went unnoticed.
const fullInterval = time.Minute

// Loop makes the running pipelines match their declarations. Set the exported fields, then call Run.
type Loop struct {
	Store  Store
	Runner Runner
	Policy plan.Policy
	Log    *slog.Logger
	// RunDigest returns different values for versions of a pipeline that run differently: spec.RunDigest.
	RunDigest func(*spec.Pipeline) string
	// Observed, when set, is called with every new state of a pipeline. It must not block.
	Observed func(spec.State)
	// OwnedElsewhere, when set, reports whether another agent has to run a pipeline, or to clean up after a pipeline
	// that is withdrawn here. Replan makes the loop call it again.
	OwnedElsewhere func(pipelineID string, withdrawn bool) bool
	// Rechecked, when set, is called once a minute, when the loop reads and plans everything. It must not block.
	Rechecked func()
	// OnVersionOutcome, when set, is called when the outcome of a version of a pipeline has changed. It must not block.
	OnVersionOutcome func(pipelineID string, t VersionOutcome)
	// Deleted, when set, is called after a pipeline was deleted, before another with its id may run. It must not block.
	Deleted func(pipelineID string)

	Parallel        int           // pipelines that start at the same time; default 128
	SaveInterval    time.Duration // longest pause after a slow save, so that many states share the next one
	ShutdownTimeout time.Duration // for draining everything when ctx ends; default 30 s

	once     sync.Once
	retry    atomic.Bool // Retry was called
	wake     notify.Signal
	mail     mailbox
	observer observer

	// Owned by Run.
	pipelines map[string]*pipelineState
	touched   map[string]bool // to be planned; nil for all
	next      time.Time       // when to plan all again
	reading   notify.Throttle // logs failures to read the desired state
	stale     bool            // read the changes in the store
	declared  int64           // the revision up to which declarations were read; 0 to read all
	started   int64           // the same for states of connectors
	known     bool            // desired state was read
	checks    checks          // each is closed once everything was planned
	base      context.Context // ends when the shutdown is forced
	slots     chan struct{}   // semaphore for starting pipelines
}

func (l *Loop) init() {
	l.once.Do(func() {
		l.wake = notify.NewSignal()
		l.mail.posts = make(chan func())
		if l.Log == nil {
			l.Log = slog.New(slog.DiscardHandler)
		}
		l.observer.callback = l.Observed
		l.observer.saver = &saver{store: l.Store, log: l.Log.With("component", "reconcile"), pause: l.SaveInterval,
			wake: notify.NewSignal(), pending: map[string]*pending{}}
	})
}

// Wake makes the loop read the changes in the store and plan soon. It never blocks.
func (l *Loop) Wake() {
	l.init()
	l.wake.Notify()
}

// Retry makes the loop retry everything that failed soon, regardless of backoff, because the cause of a failure may be
// gone. It does not touch running pipelines, unless the desired version failed because of the machine. It never blocks.
func (l *Loop) Retry() {
	l.retry.Store(true)
	l.Wake()
}

// Restart restarts pipeline id, or starts it at once if it waits after a failure. It returns when the request is
// recorded, without waiting for its completion.
func (l *Loop) Restart(ctx context.Context, id string) error { return l.ask(ctx, id, plan.Restart) }

// Reapply applies pipeline id again because the targets of its references have changed. Unaffected parts keep running
// if the run can be amended; otherwise Reapply is like Restart.
func (l *Loop) Reapply(ctx context.Context, id string) error { return l.ask(ctx, id, plan.Amend) }

// busyError is an error that is spec.ErrBusy.
type busyError struct{ error }

func busy(format string, args ...any) error { return busyError{fmt.Errorf(format, args...)} }

// Is reports whether target is spec.ErrBusy.
func (busyError) Is(target error) bool { return target == spec.ErrBusy }

// ask requests that the version of a pipeline is applied again.
func (l *Loop) ask(ctx context.Context, id string, again plan.Kind) error {
	l.init()
	noted := make(chan error, 1)
	request := func() {
		p := l.pipelines[id]
		if p == nil || p.desired == nil || !p.desired.ShouldRun() {
			noted <- busy("cannot %s pipeline %q: it is stopped, or the agent does not know it yet", again, id)
			return
		}
		if p.Again != plan.Restart {
			p.Again = again
		}
		if again == plan.Restart && p.State.Stall != nil {
			stall := *p.State.Stall
			stall.Restart = time.Now()
			p.update(func(s *spec.State) { s.Stall = &stall })
		}
		p.touch()
		noted <- nil
	}
	if err := l.mail.send(ctx, request); err != nil {
		return fmt.Errorf("cannot %s pipeline %q: %w", again, id, err)
	}
	return <-noted
}

// Replan makes the loop plan pipeline id again. With cut, its run ends at once, without waiting for the outstanding
// records. Replan returns when the request is recorded.
func (l *Loop) Replan(ctx context.Context, id string, cut bool) error {
	l.init()
	request := func() {
		p := l.pipelines[id]
		if p == nil {
			return
		}
		if cut && p.run != nil {
			p.stop(0)
			p.run.cancel()
		}
		p.touch()
	}
	if err := l.mail.send(ctx, request); err != nil {
		return fmt.Errorf("cannot reconcile pipeline %q: %w", id, err)
	}
	return nil
}

// Idle reports whether pipeline id neither runs nor is being prepared.
func (l *Loop) Idle(ctx context.Context, id string) (bool, error) {
	l.init()
	idle := make(chan bool, 1)
	request := func() {
		p := l.pipelines[id]
		idle <- p == nil || p.run == nil && p.next == nil
	}
	if err := l.mail.send(ctx, request); err != nil {
		return false, fmt.Errorf("cannot determine whether pipeline %q is running: %w", id, err)
	}
	return <-idle, nil
}

// ForceStop ends the run of a stopping pipeline without waiting for the in-flight records, which are delivered again.
// It returns when the request is recorded.
func (l *Loop) ForceStop(ctx context.Context, id string) error {
	if err := l.Check(ctx); err != nil { // by now the run was asked to stop
		return err
	}
	request := func() {
		if p := l.pipelines[id]; p != nil && p.run != nil && p.run.stopping &&
			(p.desired == nil || !p.desired.ShouldRun()) {
			p.run.cancel()
		}
	}
	if err := l.mail.send(ctx, request); err != nil {
		return fmt.Errorf("cannot force pipeline %q to stop: %w", id, err)
	}
	return nil
}

// CleanUp deletes a connector that is no longer declared, if it was ever started, without the delay. It returns the
// outcome; after an error it is tried again later.
func (l *Loop) CleanUp(ctx context.Context, connectorID string) error {
	l.init()
	cleaned := make(chan error, 1)
	request := func() {
		states, err := l.Store.ConnectorStates(ctx)
		i := slices.IndexFunc(states, func(c spec.ConnectorState) bool { return c.ID == connectorID })
		if err != nil || i < 0 {
			cleaned <- err
			return
		}
		p := l.pipelines[states[i].PipelineID]
		if p == nil || slices.Contains(p.Cleaning, connectorID) {
			cleaned <- busy("cannot clean up after connector %q: a clean-up is in progress", connectorID)
			return
		}
		p.cleanUp(states[i], func(err error) { cleaned <- err })
	}
	if err := l.mail.send(ctx, request); err != nil {
		return fmt.Errorf("cannot clean up after connector %q: %w", connectorID, err)
	}
	select {
	case err := <-cleaned:
		return err
	case <-ctx.Done():
		return fmt.Errorf("cannot clean up after connector %q: %w", connectorID, ctx.Err())
	}
}

// SetStall replaces the stall of pipeline id by now, which may be nil, unless the current stall differs from before. It
// returns when the stall is recorded.
func (l *Loop) SetStall(ctx context.Context, id string, before, now *spec.Stall) error {
	l.init()
	request := func() {
		if p := l.pipelines[id]; p != nil && p.State.Stall == before {
			p.setStall(now)
		}
	}
	if err := l.mail.send(ctx, request); err != nil {
		return fmt.Errorf("cannot record the delivery status of pipeline %q: %w", id, err)
	}
	return nil
}

// Check returns nil once the loop has read the desired state and acted on it. Every declaration made before the call is
// then being applied, or waits because of Policy.MaxChanges. A loop that shuts down answers too.
func (l *Loop) Check(ctx context.Context) error {
	l.init()
	checked := make(chan struct{})
	request := func() { l.stale, l.checks = true, append(l.checks, checked) }
	err := l.mail.send(ctx, request)
	if err == nil {
		select {
		case <-checked:
			return nil
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return fmt.Errorf("cannot reconcile the pipelines: %w", err)
}

// checks are the pending calls of Check.
type checks []chan struct{}

// answer makes them return.
func (all *checks) answer() {
	for _, c := range *all {
		close(c)
	}
	*all = nil
}

// State returns the state of a pipeline, and whether one was observed.
func (l *Loop) State(id string) (spec.State, bool) { return l.observer.get(id) }

// Snapshot returns the observed state of every pipeline, by id. It may be called at any time.
func (l *Loop) Snapshot() []spec.State { return l.observer.all() }

// Unsaved returns the error of the last save of pipeline states, nil if it succeeded. It may be called at any time.
func (l *Loop) Unsaved() error {
	l.init()
	return l.observer.saver.failed()
}

// Run reconciles until ctx ends. Then it drains every pipeline, for as long as ShutdownTimeout allows, and returns when
// nothing runs any more and everything is saved.
func (l *Loop) Run(ctx context.Context) error {
	l.init()
	if err := l.load(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // ctx ended before Run began
		}
		return err
	}
	base, hard := context.WithCancel(context.WithoutCancel(ctx))
	defer hard()
	l.base = base
	l.slots = make(chan struct{}, cmp.Or(l.Parallel, 128))
	l.reading = notify.Throttle{Fails: "cannot read the desired state, trying again",
		Recovered: "the desired state can be read again"}
	saving, finish := context.WithCancel(context.WithoutCancel(ctx))
	saved := make(chan struct{})
	go func() { defer close(saved); l.observer.saver.run(saving) }()
	all := time.NewTicker(fullInterval)
	defer all.Stop()
	for ctx.Err() == nil {
		current := l.refresh(ctx)
		if l.known {
			if l.retry.Swap(false) {
				l.retryAll()
			}
			l.planAll()
			if current {
				l.checks.answer()
			}
		}
		if soon := time.Now().Add(time.Second); !current && (l.next.IsZero() || soon.Before(l.next)) {
			l.next = soon
		}
		l.wait(ctx, all.C)
	}
	l.shutdown(hard)
	finish()
	<-saved
	return nil
}

// load reads the saved states. Nothing runs yet, and every pipeline that failed gets a new chance.
func (l *Loop) load(ctx context.Context) error {
	states, err := l.Store.States(ctx)
	if err != nil {
		return fmt.Errorf("cannot read the states of the pipelines: %w", err)
	}
	l.pipelines = map[string]*pipelineState{}
	l.reread()
	for i := range states {
		s := &states[i]
		if s.Phase != spec.PhaseStopped {
			s.Phase, s.Since = spec.PhaseStopped, time.Now()
		}
		s.RunningGeneration, s.Failures, s.RetryAt = 0, 0, nil
		l.pipelines[s.PipelineID] = newPipeline(l, *s)
	}
	l.observer.load(states)
	return nil
}

// retryAll retries everything that failed at once.
func (l *Loop) retryAll() {
	for _, p := range l.pipelines {
		if p.next != nil {
			p.next.again = true
			continue
		}
		p.retrySoon()
	}
	l.touched = nil
}

// planAll plans the touched pipelines until nothing is left to do now.
func (l *Loop) planAll() {
	for l.touched == nil || len(l.touched) > 0 {
		l.plan()
	}
}

// plan plans the touched pipelines and performs the actions.
func (l *Loop) plan() {
	var desired []plan.Desired
	var observed []plan.Observed
	var connectors []spec.ConnectorState
	add := func(p *pipelineState) {
		p.report()
		if p.desired != nil {
			d := *p.desired
			d.Withdrawn = p.withdrawn
			d.OwnedElsewhere = l.OwnedElsewhere != nil && l.OwnedElsewhere(d.Pipeline.ID, !d.Withdrawn.IsZero())
			desired = append(desired, d)
		}
		observed = append(observed, p.observed())
		connectors = append(connectors, p.connectors...)
	}
	if l.touched == nil {
		desired, observed = make([]plan.Desired, 0, len(l.pipelines)), make([]plan.Observed, 0, len(l.pipelines))
		for _, p := range l.pipelines {
			add(p)
		}
		l.next = time.Time{}
	} else {
		for id := range l.touched {
			if p := l.pipelines[id]; p != nil {
				add(p)
			}
		}
	}
	l.touched = map[string]bool{}
	actions, next := plan.Actions(desired, observed, connectors, time.Now(), l.Policy)
	if !next.IsZero() && (l.next.IsZero() || next.Before(l.next)) {
		l.next = next
	}
	for _, a := range actions {
		l.act(a)
	}
}

// wait returns after an event was handled, or when it is time to plan.
func (l *Loop) wait(ctx context.Context, all <-chan time.Time) {
	if len(l.touched) > 0 {
		return
	}
	var due <-chan time.Time
	if !l.next.IsZero() {
		timer := time.NewTimer(time.Until(l.next))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return
	case <-l.wake:
		l.stale = true
	case f := <-l.mail.posts:
		f()
	case <-due:
		l.next, l.touched = time.Time{}, nil
		return
	case <-all:
		l.reread()
		l.touched = nil
		if l.Rechecked != nil {
			l.Rechecked()
		}
		return
	}
	l.mail.drain()
}

// shutdown drains everything at once, and runs posted functions until everything has ended. It logs the pipelines that
// it waits for.
func (l *Loop) shutdown(hard context.CancelFunc) {
	limit := cmp.Or(l.ShutdownTimeout, 30*time.Second)
	waits := l.waits()
	if waits != "" {
		l.Log.Info("stopping: draining the pipelines", "component", "reconcile",
			"pipelines", waits, "limit", limit)
	}
	for _, p := range l.pipelines {
		if p.next != nil {
			p.next.cancel()
		}
		if p.run != nil {
			p.stop(0)
		}
	}
	timer, again := time.NewTimer(limit), time.NewTicker(waitsInterval)
	defer timer.Stop()
	defer again.Stop()
	for l.mail.workers > 0 {
		l.checks.answer()
		select {
		case f := <-l.mail.posts:
			f()
		case <-again.C:
			if waits = l.waits(); waits != "" {
				l.Log.Info("waiting for pipelines to drain", "component", "reconcile", "pipelines", waits)
			}
		case <-timer.C:
			again.Stop()
			l.Log.Warn("pipelines did not drain in time, stopping them now", "component", "reconcile", "pipelines",
				l.waits())
			hard()
		}
	}
}

// waitsInterval is the interval at which a loop that shuts down logs the pipelines that it waits for.
const waitsInterval = 5 * time.Second

// waits returns the ids of the pipelines that run or are being started, as many as fit into a log line.
func (l *Loop) waits() string {
	const most = 20
	var ids []string
	for id, p := range l.pipelines {
		if p.run != nil || p.next != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if more := len(ids) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), more)
	}
	return strings.Join(ids, ", ")
}
