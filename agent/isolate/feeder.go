package isolate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

const (
	// Bounds of the records on their way to the real destination. A batch may be larger, and a destination that gathers
	// records gets as many as it gathers.
	maxRecords = 16 << 10
	maxBytes   = 8 << 20
	// stopTimeout is how long the real destination may take to settle the records on their way, and to be torn down,
	// when the feeder stops. It gets unsettled records again.
	stopTimeout = 5 * time.Second
	// maxDelay bounds the time between two attempts.
	maxDelay = time.Minute
)

// feeder writes the records of a log to the real destination.
type feeder struct {
	*Destination
	committer *engine.Committer

	ctx     context.Context
	cancel  context.CancelCauseFunc
	reading context.Context // of ctx; ends when the feeder must read nothing more
	stop    context.CancelFunc
	over    chan struct{}  // closed when nothing is written any more
	saving  sync.WaitGroup // for the committer
	empty   chan struct{}  // closed when the log of a destination that is no longer isolated is empty
	commit  notify.Signal  // the committer has saved the cursor, or failed to

	mu      sync.Mutex
	attempt *attempt // guarded by mu: the current one, nil between two
	done    uint64   // guarded by mu: all records before this offset are settled
	saved   uint64   // guarded by mu: the cursor, as of the last save
	taken   uint64   // guarded by mu: the cursor being saved
	dirty   bool     // guarded by mu: the committer has been asked for a save and has not begun it
	health           // guarded by mu
}

// health is the state of the real destination.
type health struct {
	state    string // as in spec.Backlog
	failures int    // in a row
	err      error  // the last one
	since    time.Time
	retryAt  time.Time
}

func newFeeder(d *Destination) *feeder {
	low := d.reader.Low()
	f := &feeder{Destination: d, over: make(chan struct{}), empty: make(chan struct{}), commit: notify.NewSignal(),
		done: low, taken: low, saved: low}
	f.state = spec.BacklogOpening
	f.committer = &engine.Committer{Store: cursorStore{f}, CommitInterval: d.CommitInterval, Barrier: d.Barrier}
	if d.KeepDeadLetters != nil {
		f.committer.Before = func(ctx context.Context, _ []spec.Checkpoint) error { return d.KeepDeadLetters(ctx) }
	}
	return f
}

// begin starts the feeder. It outlives ctx, until end is called.
func (f *feeder) begin(ctx context.Context) {
	f.ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	f.reading, f.stop = context.WithCancel(f.ctx)
	committing, endCommitting := context.WithCancel(context.WithoutCancel(ctx))
	f.saving.Go(func() { _ = f.committer.Run(committing) }) // it always returns nil
	go func() {
		defer close(f.over)
		defer endCommitting()
		f.feed()
	}()
}

// feed writes the log to the real destination until the feeder stops, and starts the destination again after it failed.
// A destination that is no longer isolated fails its pipeline instead.
func (f *feeder) feed() {
	for {
		a := newAttempt(f)
		err := a.run()
		switch {
		case a.direct != nil: // the engine owns it from here on
			return
		case f.reading.Err() != nil:
			return
		case f.Limits == nil:
			f.settled(0, err)
			return
		}
		if !f.sleep(f.failed(err)) {
			return
		}
	}
}

// failed records a failure of an attempt and returns the time before the next.
func (f *feeder) failed(err error) time.Duration {
	f.mu.Lock()
	first := f.failures == 0
	f.failures++
	if f.err = err; first {
		f.since = time.Now()
	}
	wait := min(f.Delay(f.failures), maxDelay)
	f.state, f.retryAt = spec.BacklogRetrying, time.Now().Add(wait)
	f.mu.Unlock()
	f.Log.Warn("an isolated destination failed, trying again", "connector", f.ID, "retry_in", wait.String(), "err", err)
	if first {
		f.Event(spec.EventWarning, "IsolatedFailed", fmt.Sprintf("destination %s failed and is tried again, while its "+
			"records wait in its log: %v", f.ID, err))
	}
	return wait
}

// passed records that the real destination settled records.
func (f *feeder) passed() {
	f.mu.Lock()
	failures, since := f.failures, f.since
	f.health = health{state: f.state}
	f.mu.Unlock()
	if failures > 0 {
		f.Log.Info("an isolated destination takes records again", "connector", f.ID, "failures", failures)
		f.Event(spec.EventNormal, "IsolatedDelivering", fmt.Sprintf("destination %s takes records again, after %s", f.ID,
			time.Since(since).Round(time.Second)))
	}
}

func (f *feeder) setState(state string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = state
}

// draining reports whether the log of a destination that is no longer isolated has records left.
func (f *feeder) draining() bool {
	select {
	case <-f.empty:
		return false
	default:
		return true
	}
}

// sleep waits and reports whether the feeder continues.
func (f *feeder) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.reading.Done():
		return false
	}
}

// current returns the current attempt, nil between two.
func (f *feeder) current() *attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attempt
}

// drained waits until the log of a destination that is no longer isolated is empty, and returns the real destination.
func (f *feeder) drained(ctx context.Context) (connector.Destination, error) {
	select {
	case <-f.empty:
		return f.current().direct, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// writeOut writes out the records that a destination has gathered that is no longer isolated.
func (f *feeder) writeOut(ctx context.Context) error {
	if _, err := f.drained(ctx); err != nil {
		return err
	}
	a := f.current()
	err := a.writeOutReal(ctx)
	a.direct = a.real
	return err
}

// flush stops the feeder, and returns when nothing is on its way to the real destination.
func (f *feeder) flush(ctx context.Context) error {
	if f.Limits == nil && !f.draining() {
		return f.current().direct.Flush(ctx)
	}
	return f.halt(ctx)
}

var errEnded = errors.New("the feeder has ended")

// halt stops the feeder and returns when it has ended. The real destination gets limited time to settle the
// records written to it.
func (f *feeder) halt(ctx context.Context) error {
	f.stop()
	f.mu.Lock()
	if f.state == spec.BacklogOpening { // nothing was written to it
		f.cancel(errEnded)
	}
	f.mu.Unlock()
	limit := time.AfterFunc(stopTimeout, func() { f.cancel(errEnded) })
	defer limit.Stop()
	select {
	case <-f.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// end ends the feeder, and saves the cursor.
func (f *feeder) end(ctx context.Context) error {
	defer f.cancel(errEnded)
	if err := f.halt(ctx); err != nil {
		return fmt.Errorf("cannot end the isolated destination %s: %w", f.ID, err)
	}
	f.saving.Wait()
	if a := f.current(); a != nil && a.direct != nil {
		return a.direct.Teardown(ctx)
	}
	return nil
}

// Checkpoint implements engine.Checkpointer: the cursor to save.
func (f *feeder) Checkpoint() (spec.Checkpoint, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty, f.taken = false, f.done
	return spec.Checkpoint{ConnectorID: f.ID, PipelineID: f.syncs(), Sequence: int64(f.taken)}, f.taken > f.saved
}

// Saved implements engine.Checkpointer. If the cursor could not be saved, because writes of the real destination could
// not be synced or its dead letters not be kept, the records after the saved cursor are written again.
func (f *feeder) Saved(err error) {
	f.mu.Lock()
	if err == nil {
		f.saved = f.taken
	}
	f.taken = f.saved
	a := f.attempt
	f.mu.Unlock()
	if err != nil && a != nil {
		a.fail(fmt.Errorf("cannot save the cursor of the log: %w", err))
	}
	f.commit.Notify()
}

// settledTo records that all records before an offset are settled.
func (f *feeder) settledTo(offset uint64) {
	f.mu.Lock()
	f.done = offset
	clean := !f.dirty
	f.dirty = true
	f.mu.Unlock()
	if clean {
		f.committer.MarkDirty(f, false)
	}
}

// cursorStore saves the cursor in the log.
type cursorStore struct{ *feeder }

// SaveCheckpoints implements engine.CheckpointStore.
func (s cursorStore) SaveCheckpoints(_ context.Context, checkpoints []spec.Checkpoint) error {
	for i := range checkpoints {
		if err := s.reader.Acknowledge(uint64(checkpoints[i].Sequence)); err != nil {
			return err
		}
	}
	s.reader.Save()
	s.noteRoom()
	return nil
}

// rewind waits until the committer has saved the cursor or failed to, and goes back to the saved one.
func (f *feeder) rewind() {
	f.committer.FlushNow()
	for {
		f.mu.Lock()
		idle := !f.dirty && f.taken <= f.saved
		f.mu.Unlock()
		if idle {
			break
		}
		<-f.commit
	}
	f.mu.Lock()
	f.done = f.saved
	f.mu.Unlock()
}
