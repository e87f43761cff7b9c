package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Loop makes what runs what is declared. Set the exported fields, then call Run.
type Loop struct {
	Store  Store
	Runner Runner
	Policy Policy
	Log    *slog.Logger
	// RunDigest tells versions of a pipeline apart that run differently: spec.RunDigest.
	RunDigest func(*spec.Pipeline) string
	// Observed, when set, is called with every new state of a pipeline. It must not block.
	Observed func(spec.State)
	// Deleted, when set, is called after a pipeline was deleted, before one with its id may
	// run again. It must not block.
	Deleted func(pipelineID string)

	Parallel        int           // pipelines that are started at a time; default 128
	SaveInterval    time.Duration // most to wait after a save of states that took long, for many to share the next
	ShutdownTimeout time.Duration // for draining everything when ctx ends; default 30 s

	once  sync.Once
	again atomic.Bool // Retry was called
	wake  notify.Signal
	notes chan func() // what happened, told to the goroutine of Run
	saver *saver

	// Owned by Run.
	pipes   map[string]*pipe
	touched map[string]bool // to be planned; nil for all
	next    time.Time       // when to plan all again
	reading notify.Throttle // logs failures to read the desired state
	stale   bool            // what changed of desired state is to be read
	upTo    int64           // the revision up to which it was read; 0 to read all
	orphans bool            // connector states are to be read as well
	known   bool            // desired state was read
	going   map[string]bool // pipelines that are withdrawn
	checks  []chan struct{} // each to be closed after everything was looked at
	workers int             // goroutines that will still tell something
	base    context.Context // ends with the shutdown's last resort
	slots   chan struct{}

	mu     sync.Mutex
	states map[string]spec.State // guarded by mu; values are replaced, never modified
}

// pipe is all the loop knows of one pipeline.
type pipe struct {
	Running
	stored     spec.Declaration // as it was read; desired has other times
	desired    *Desired
	newer      *Desired // what is declared, when that is another version than desired
	connectors []spec.ConnectorState
	run        *run
	next       *launch
	failures   []time.Time // when each no longer counts
	undeleted  int         // attempts to delete the pipeline that failed
	untouched  bool        // Refused could not be prepared, so that trying it again disturbs nothing
}

func (l *Loop) init() {
	l.once.Do(func() {
		l.wake = notify.NewSignal()
		l.notes = make(chan func())
		if l.Log == nil {
			l.Log = slog.New(slog.DiscardHandler)
		}
		l.saver = &saver{store: l.Store, log: l.Log.With("component", "reconcile"), pause: l.SaveInterval, wake: notify.NewSignal(), pending: map[string]*pending{}}
	})
}

// Wake makes the loop look at everything soon. It never blocks.
func (l *Loop) Wake() {
	l.init()
	l.wake.Notify()
}

// Retry has everything that failed tried again soon, whatever pause it is in: a cause of
// failure may be gone. What runs is not touched. It never blocks.
func (l *Loop) Retry() {
	l.again.Store(true)
	l.Wake()
}

// Restart has pipeline id restarted, or started at once if it waits after a failure.
// It returns when that is noted, not when it is done.
func (l *Loop) Restart(ctx context.Context, id string) error { return l.ask(ctx, id, Restart) }

// Reapply has pipeline id take effect again because what its references lead to has
// changed. What the change does not concern goes on running; otherwise it is Restart.
func (l *Loop) Reapply(ctx context.Context, id string) error { return l.ask(ctx, id, Amend) }

// ask notes that the version of a pipeline is to take effect again.
func (l *Loop) ask(ctx context.Context, id string, again Kind) error {
	l.init()
	noted := make(chan error, 1)
	note := func() {
		p := l.pipes[id]
		if p == nil || p.desired == nil || !wanted(p.desired) {
			noted <- fmt.Errorf("cannot %s pipeline %q: it is not to run", again, id)
			return
		}
		if p.Again != Restart {
			p.Again = again
		}
		l.touch(id)
		noted <- nil
	}
	select {
	case l.notes <- note:
		return <-noted
	case <-ctx.Done():
		return fmt.Errorf("cannot %s pipeline %q: %w", again, id, ctx.Err())
	}
}

// CutOff ends the run of a pipeline that is to stop without waiting for the records in
// flight, which are delivered again. It returns when that is noted.
func (l *Loop) CutOff(ctx context.Context, id string) error {
	if err := l.Check(ctx); err != nil { // it was told to stop by now
		return err
	}
	note := func() {
		if p := l.pipes[id]; p != nil && p.run != nil && p.run.stopping && (p.desired == nil || !wanted(p.desired)) {
			p.run.cancel()
		}
	}
	select {
	case l.notes <- note:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot cut off pipeline %q: %w", id, ctx.Err())
	}
}

// CleanUp deletes a connector that is declared no more, if it was ever started, without
// the delay. It returns how that went; after an error it is tried again later.
func (l *Loop) CleanUp(ctx context.Context, connectorID string) error {
	l.init()
	cleaned := make(chan error, 1)
	note := func() {
		states, err := l.Store.ConnectorStates(ctx)
		i := slices.IndexFunc(states, func(c spec.ConnectorState) bool { return c.ID == connectorID })
		if err != nil || i < 0 {
			cleaned <- err
			return
		}
		p := l.pipes[states[i].PipelineID]
		if p == nil || slices.Contains(p.Cleaning, connectorID) {
			cleaned <- fmt.Errorf("cannot clean up after connector %q: it is being done", connectorID)
			return
		}
		l.cleanUp(p, states[i], func(err error) { cleaned <- err })
	}
	select {
	case l.notes <- note:
	case <-ctx.Done():
		return fmt.Errorf("cannot clean up after connector %q: %w", connectorID, ctx.Err())
	}
	select {
	case err := <-cleaned:
		return err
	case <-ctx.Done():
		return fmt.Errorf("cannot clean up after connector %q: %w", connectorID, ctx.Err())
	}
}

// Check returns nil once the loop has read the desired state and acted on it; what was
// declared before the call is then on its way, or waits as Policy.MaxChanges has it. A
// loop that shuts down answers too.
func (l *Loop) Check(ctx context.Context) error {
	l.init()
	checked := make(chan struct{})
	note := func() { l.stale, l.checks = true, append(l.checks, checked) }
	select {
	case l.notes <- note:
	case <-ctx.Done():
		return fmt.Errorf("the pipelines are not looked after: %w", ctx.Err())
	}
	select {
	case <-checked:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the pipelines are not looked after: %w", ctx.Err())
	}
}

func (l *Loop) checked() {
	for _, c := range l.checks {
		close(c)
	}
	l.checks = nil
}

// State returns the state of a pipeline, and whether anything is observed of it.
func (l *Loop) State(id string) (spec.State, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.states[id]
	return s, ok
}

// Snapshot returns the state of every pipeline, by id, as it is observed now. It may
// be called at any time.
func (l *Loop) Snapshot() []spec.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]spec.State, 0, len(l.states))
	for _, id := range slices.Sorted(maps.Keys(l.states)) {
		all = append(all, l.states[id])
	}
	return all
}

// Unsaved returns why states of pipelines could not be saved when that was tried last, nil
// if they were. It may be called at any time.
func (l *Loop) Unsaved() error {
	l.init()
	return l.saver.failed()
}

// Run reconciles until ctx ends. Then it drains every pipeline, for as long as
// ShutdownTimeout allows, and returns when nothing runs any more and all is saved.
func (l *Loop) Run(ctx context.Context) error {
	l.init()
	if err := l.load(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // it ends before it began
		}
		return err
	}
	base, hard := context.WithCancel(context.WithoutCancel(ctx))
	defer hard()
	l.base = base
	l.slots = make(chan struct{}, cmp.Or(l.Parallel, 128))
	l.reading = notify.Throttle{Fails: "cannot read the desired state, trying again", Recovered: "the desired state is read again"}
	saving, finish := context.WithCancel(context.WithoutCancel(ctx))
	saved := make(chan struct{})
	go func() { defer close(saved); l.saver.run(saving) }()
	all := time.NewTicker(fullInterval)
	defer all.Stop()
	for ctx.Err() == nil {
		fresh := l.refresh(ctx)
		if l.known {
			if l.again.Swap(false) {
				l.retryAll()
			}
			l.pass()
			if fresh {
				l.checked()
			}
		}
		if again := time.Now().Add(time.Second); !fresh && (l.next.IsZero() || again.Before(l.next)) {
			l.next = again
		}
		l.wait(ctx, all.C)
	}
	l.shutdown(hard)
	finish()
	<-saved
	return nil
}

// load takes up the states of the last time. Nothing runs yet, and what failed then
// gets a new chance.
func (l *Loop) load(ctx context.Context) error {
	states, err := l.Store.States(ctx)
	if err != nil {
		return fmt.Errorf("cannot read the states of the pipelines: %w", err)
	}
	l.pipes, l.going, l.stale, l.orphans, l.upTo = map[string]*pipe{}, map[string]bool{}, true, true, 0
	l.mu.Lock()
	defer l.mu.Unlock()
	l.states = map[string]spec.State{}
	for _, s := range states {
		if s.Phase != spec.PhaseStopped {
			s.Phase, s.Since = spec.PhaseStopped, time.Now()
		}
		s.RunningGeneration, s.Failures, s.RetryAt = 0, 0, nil
		l.pipes[s.PipelineID] = &pipe{Running: Running{State: s}}
		l.states[s.PipelineID] = s
	}
	return nil
}

// refresh reads desired state when it may have changed. It returns false when that
// has to be tried again.
func (l *Loop) refresh(ctx context.Context) bool {
	if !l.stale && !l.orphans {
		return true
	}
	err := l.read(ctx)
	if ctx.Err() == nil {
		l.reading.Observe(l.Log.With("component", "reconcile"), err)
	}
	if err != nil {
		return false
	}
	l.stale, l.orphans = false, false
	if !l.known {
		l.known, l.touched = true, nil
	}
	return true
}

func (l *Loop) read(ctx context.Context) error {
	delta, err := l.Store.DeclarationsSince(ctx, l.upTo)
	if err != nil {
		return err
	}
	withdrawn := slices.ContainsFunc(delta.Rows, func(d spec.Declaration) bool { return !d.Withdrawn.IsZero() })
	var connectors map[string][]spec.ConnectorState
	if l.orphans || withdrawn || len(l.going) > 0 {
		all, err := l.Store.ConnectorStates(ctx)
		if err != nil {
			return err
		}
		connectors = map[string][]spec.ConnectorState{}
		for _, c := range all {
			connectors[c.PipelineID] = append(connectors[c.PipelineID], c)
		}
	}
	now := time.Now()
	for i := range delta.Rows {
		l.declare(&delta.Rows[i], connectors, now)
	}
	for _, id := range l.gone(&delta) {
		delete(l.going, id)
		if p := l.pipes[id]; p != nil && p.desired != nil {
			p.desired, p.newer = nil, nil
			l.touch(id)
		}
	}
	if connectors != nil {
		for id, p := range l.pipes {
			if len(p.connectors)+len(connectors[id]) > 0 {
				p.connectors = l.timed(connectors[id], p.connectors, now)
				l.touch(id)
			}
		}
	}
	l.upTo = delta.Revision
	return nil
}

// gone returns the pipelines that are not declared any more.
func (l *Loop) gone(delta *spec.Delta[spec.Declaration]) []string {
	if !delta.All {
		return delta.Gone
	}
	left := make(map[string]bool, len(delta.Rows))
	for i := range delta.Rows {
		left[delta.Rows[i].Pipeline.ID] = true
	}
	var gone []string
	for id := range l.pipes {
		if !left[id] {
			gone = append(gone, id)
		}
	}
	return gone
}

// declare takes up what is declared of one pipeline.
func (l *Loop) declare(d *spec.Declaration, connectors map[string][]spec.ConnectorState, now time.Time) {
	id := d.Pipeline.ID
	p := l.pipes[id]
	if p == nil {
		p = &pipe{Running: Running{State: spec.State{PipelineID: id, Phase: spec.PhaseStopped, Since: time.Now()}}}
		p.connectors = l.timed(connectors[id], nil, now)
		l.pipes[id] = p
		l.show(p)
	}
	before := p.desired
	if before != nil && sameDeclaration(&p.stored, d) {
		return
	}
	l.touch(id)
	if d.Withdrawn.IsZero() {
		delete(l.going, id)
	} else {
		l.going[id] = true
	}
	declared := &Desired{Declaration: *d}
	declared.Withdrawn = p.withdrawn(d, now)
	p.stored = *d
	if latest := cmp.Or(p.newer, before); latest != nil && latest.Digest != "" && latest.Digest == d.Digest {
		declared.RunDigest = latest.RunDigest
	} else {
		declared.RunDigest = l.RunDigest(&d.Pipeline)
		p.failures = nil
	}
	if before == nil || before.RunDigest == declared.RunDigest {
		p.desired, p.newer = declared, nil
		return
	}
	wished := *before
	wished.Pipeline.Status, wished.Override, wished.Withdrawn, wished.Purge = d.Pipeline.Status, d.Override, declared.Withdrawn, d.Purge
	p.desired, p.newer = &wished, declared
}

// touch has the pipeline planned.
func (l *Loop) touch(id string) {
	if l.touched != nil {
		l.touched[id] = true
	}
}

// pass looks at what was touched until nothing is left to be done now.
func (l *Loop) pass() {
	for l.touched == nil || len(l.touched) > 0 {
		l.plan()
	}
}

// plan plans what was touched and acts on it.
func (l *Loop) plan() {
	var desired []Desired
	var running []Running
	var connectors []spec.ConnectorState
	add := func(p *pipe) {
		if p.desired != nil {
			desired = append(desired, *p.desired)
		}
		running = append(running, p.observed())
		connectors = append(connectors, p.connectors...)
	}
	if l.touched == nil {
		desired, running = make([]Desired, 0, len(l.pipes)), make([]Running, 0, len(l.pipes))
		for _, p := range l.pipes {
			add(p)
		}
		l.next = time.Time{}
	} else {
		for id := range l.touched {
			if p := l.pipes[id]; p != nil {
				add(p)
			}
		}
	}
	l.touched = map[string]bool{}
	actions, next := Plan(desired, running, connectors, time.Now(), l.Policy)
	if !next.IsZero() && (l.next.IsZero() || next.Before(l.next)) {
		l.next = next
	}
	for _, a := range actions {
		l.act(a)
	}
}

func (p *pipe) observed() Running {
	r := p.Running
	r.Newer = p.newer != nil
	if p.run != nil {
		r.Run, r.Stopping, r.Amending = &p.run.version, p.run.stopping, p.run.amending
	}
	if p.next != nil {
		r.Next, r.Abandoned = &p.next.version, p.next.ctx.Err() != nil
	}
	return r
}

// wait returns after something happened and was noted, or when it is time to look.
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
	case note := <-l.notes:
		note()
	case <-due:
		l.next, l.touched = time.Time{}, nil
		return
	case <-all:
		l.stale, l.upTo, l.touched = true, 0, nil
		return
	}
	for {
		select {
		case note := <-l.notes:
			note()
		default:
			return
		}
	}
}

// shutdown drains everything at once and keeps noting what happens until all is over.
func (l *Loop) shutdown(hard context.CancelFunc) {
	for _, p := range l.pipes {
		if p.next != nil {
			p.next.cancel()
		}
		if p.run != nil {
			l.stop(p, 0)
		}
	}
	timer := time.NewTimer(cmp.Or(l.ShutdownTimeout, 30*time.Second))
	defer timer.Stop()
	for l.workers > 0 {
		l.checked()
		select {
		case note := <-l.notes:
			note()
		case <-timer.C:
			l.Log.Warn("pipelines did not drain in time, ending them", "component", "reconcile")
			hard()
		}
	}
}
