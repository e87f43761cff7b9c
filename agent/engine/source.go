package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// maxAcks bounds the positions acknowledged at once: a list for a whole commit would take more memory than the
// positions.
const maxAcks = 1024

// sourceRun drives one source of a running pipeline: one goroutine reads and dispatches, another one acknowledges
// committed records, unless the source ignores acknowledgements.
type sourceRun struct {
	run    *run
	id     string // qualified
	plugin string // name of the plugin
	src    connector.Source
	lines  connector.LineSource // src; nil: it returns no lines
	stage  stage                // the processors of the source
	tap    *Tap
	stats  *measure.Connector
	opened *atomic.Pointer[time.Time] // when Open succeeded; holds nil before that

	ignoresAcks bool
	ended       func() // called when reading has ended

	limit    uint64         // limit of unacknowledged records of the source
	under    []atomic.Int64 // by destination: batches queued for it or written, and not settled
	stalled  atomic.Bool    // it reads nothing more until records are acknowledged
	leases   *backpressure.Leases
	reads    measure.Sampler // owned by read
	trace    *batchTrace     // owned by read: of the batch last read, nil if it is not traced
	settled  bool            // owned by read: all records before the last batch read were settled
	handover handover
	memory   *backpressure.Account
	parts    parts

	mu       sync.Mutex
	tracker  Tracker // guarded by mu
	dirty    bool    // guarded by mu: it is in the list of the committer
	saving   bool    // guarded by mu: the committer is saving its checkpoint
	taken    uint64  // guarded by mu: the mark being saved
	finished bool    // guarded by mu: reading has ended
	drained  bool    // guarded by mu: destinations have settled all records that they will get
	blocked  bool    // guarded by mu: it had no space in the window at the last check

	acking  atomic.Bool   // a call of Ack has not returned
	commits notify.Signal // the committer is done with the source, or reading has ended
	freed   notify.Signal // the window may have space
}

// inFlight is a batch on its way from src to every destination, or an emission that processors made from its records.
type inFlight struct {
	*Batch   // its owner is a sourceRun
	*passage // nil for a batch that passed no processors
}

// src returns the source whose mu guards f.
func (f inFlight) src() *sourceRun { return f.Owner.(*sourceRun) }

// observe makes o observe f as a whole.
func (f inFlight) observe(o Observer) {
	f.src().mu.Lock()
	defer f.src().mu.Unlock()
	f.Observers = append(f.Observers, o)
}

func newSourceRun(r *run, o *opened[connector.Source]) *sourceRun {
	s := &sourceRun{stage: newStage(o.id), run: r, id: o.id, plugin: pluginname.Bare(o.plugin), src: o.connector,
		lines: lines(o.connector), tap: r.Taps.Acquire(o.id), stats: r.Stats.Source(o.id),
		commits: notify.NewSignal(), freed: notify.NewSignal(), opened: &o.since,
		ignoresAcks: connector.IgnoresAcks(o.connector),
		memory:      r.Window.Shared.Join(connector.LargestRead(o.connector)),
		limit:       connector.MaxUnacked(o.connector), under: make([]atomic.Int64, len(r.dests))}
	s.handover.TakeOver = s.takeOver
	s.memory.Notify(s.freed, s.waitsForMemory, s.relieve)
	s.leases = backpressure.NewLeases(r.Window.Scheduler, func() (read, low uint64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.tracker.Read, s.tracker.Low
	})
	return s
}

// startReading starts a goroutine that reads until the source has ended, or another goroutine takes over reading.
func (s *sourceRun) startReading() {
	s.run.start(s.reading(), func(ctx context.Context) error {
		over, err := s.read(ctx)
		if !over {
			s.finish()
			s.ended()
		}
		return err
	})
}

func (s *sourceRun) reading() string { return "reading from source " + s.id }

// read moves batches from the source to the destinations until the source has ended, or
// another goroutine has taken over.
func (s *sourceRun) read(ctx context.Context) (over bool, err error) {
	reading := sdk.WithStalled(s.memory.Context(ctx), s.stall)
	for {
		b, err := s.next(ctx, reading)
		if b == nil || err != nil {
			return false, err
		}
		if over, err := s.dispatch(ctx, b); over || err != nil {
			return over, err
		}
	}
}

// next returns the next batch, nil when the source has ended.
func (s *sourceRun) next(ctx, reading context.Context) (b *record.Batch, err error) {
	if err := s.waitForWindow(ctx); err != nil {
		return nil, err
	}
	if err := s.leases.Acquire(ctx); err != nil {
		return nil, err
	}
	if err := s.memory.Begin(ctx); err != nil {
		return nil, err
	}
	s.stalled.Store(false)
	if s.memory.Contended() {
		s.relieve()
	}
	var begin time.Time
	if s.run.Tracer != nil {
		begin = time.Now()
	}
	err = s.reads.Time(&s.stats.Reads, &s.stats.Busy, func() (n int, err error) {
		if b, err = s.readBatch(reading); err == nil {
			n = b.Len()
		}
		return n, err
	})
	s.stalled.Store(false)
	switch {
	case errors.Is(err, io.EOF) && s.run.draining():
		return nil, nil
	case errors.Is(err, io.EOF):
		return nil, failedIn(s.id, fmt.Errorf("cannot read from source %s: it ended unexpectedly", s.id))
	case err != nil:
		return nil, failedIn(s.id, fmt.Errorf("cannot read from source %s: %w", s.id, err))
	}
	if ctx.Err() != nil { // the run may have abandoned this goroutine
		return nil, context.Cause(ctx)
	}
	if epoch := s.run.Epoch; epoch != "" {
		if err := b.SetMetadata(record.KeyClusterEpoch, epoch); err != nil {
			return nil, failedIn(s.id, fmt.Errorf("cannot read from source %s: %w", s.id, err))
		}
	}
	if s.run.Tracer != nil {
		s.trace = s.startTrace(begin, b)
	}
	if b.Shallow() {
		s.run.Log.Warn("a record of the source has data that is nested too deeply or contains itself: destinations "+
			"refuse it", "source", s.id)
	}
	s.memory.End(b.Memory())
	s.stats.Records.Add(uint64(b.Len()))
	s.stats.LastRead.Store(time.Now().UnixNano())
	s.stats.Passed(b.Len(), b.Content())
	s.leases.Read(b.Len(), b.Memory())
	return b, nil
}

// waitForWindow waits until the window, and the limit of the source, allow another batch. A batch may overshoot the
// window, so that a record larger than the window still passes.
func (s *sourceRun) waitForWindow(ctx context.Context) error {
	for {
		s.mu.Lock()
		m, bytes := s.tracker.Marks, s.tracker.Bytes()
		may := s.mayRead(m, bytes)
		s.blocked = !may
		s.mu.Unlock()
		if may || s.leavesOnlyHeld() {
			return nil
		}
		if m.Read-m.Acked >= min(s.limit, uint64(s.run.Window.Unacked)) {
			s.run.Committer.FlushNow()
		}
		if err := s.run.checkHeld(); err != nil {
			return err
		}
		s.relieve()
		if err := s.stats.Blocked.Wait(ctx, s.freed); err != nil {
			return err
		}
	}
}

// mayRead reports whether the source may read more with this much outstanding.
func (s *sourceRun) mayRead(m Marks, bytes int) bool {
	unacked, unsettled := m.Read-m.Acked, m.Read-m.Low
	return unacked < s.limit &&
		(s.run.Window.Allows(unacked, unsettled, bytes) || unsettled < uint64(s.run.minUnsettled.Load()) ||
			s.run.allowsMore(unacked, unsettled, bytes))
}

// allowsMore reports whether a source may have more outstanding than its window allows: if writes of all destinations
// overlap, the window is wider.
func (r *run) allowsMore(unacked, unsettled uint64, bytes int) bool {
	for _, d := range r.dests {
		if !connector.Overlaps(d.out.Load().connector) {
			return false
		}
	}
	wider := r.Window.Wider()
	return wider.Allows(unacked, unsettled, bytes)
}

// dispatch runs b through the processors and hands the output to every destination. over reports that another
// goroutine took over reading.
func (s *sourceRun) dispatch(ctx context.Context, b *record.Batch) (over bool, err error) {
	if err := s.checkPositions(b); err != nil {
		return false, err
	}
	if s.stage.Active() || s.run.stage.Active() || b.Len() > 1 && s.run.branches() {
		s.tap.PublishCopy(b)
		return false, s.processParts(ctx, b)
	}
	f := s.inFlight(b)
	s.tap.Publish(b)
	s.add(f)
	if s.lockGate() {
		return s.write(ctx, f)
	}
	return false, s.run.queue(ctx, f)
}

// checkPositions returns an error for positions that cannot be kept. The host has already checked the positions of
// lines.
func (s *sourceRun) checkPositions(b *record.Batch) error {
	if _, ok := b.Lines(); ok {
		return nil
	}
	for i := range b.Len() {
		if l := len(b.Position(i)); l == 0 || l > record.MaxPosition {
			return failedIn(s.id, Permanent(fmt.Errorf("cannot take records from source %s: "+
				"position of %d bytes; it must have 1 to %d", s.id, l, record.MaxPosition)))
		}
	}
	return nil
}

// lockGate reports whether the goroutine that reads must also write; it then holds the gate of the destination. Waking
// another goroutine would cost more than all the rest. The goroutine may write if no batch is ahead, the source is
// slow and the only destination is fast.
func (s *sourceRun) lockGate() bool {
	if !s.reads.Slow() || !s.settled || len(s.run.dests) != 1 {
		return false
	}
	d := s.run.dests[0]
	if !d.gate.TryLock() {
		return false
	}
	if d.writes.Slow() {
		d.gate.Unlock()
		return false
	}
	return true
}

// write writes f. If that takes long, over is true, and another goroutine takes over reading.
func (s *sourceRun) write(ctx context.Context, f inFlight) (over bool, err error) {
	d := s.run.dests[0]
	defer d.gate.Unlock()
	s.under[0].Add(1)
	d.only[0] = f
	over, err = s.handover.Do(func() error { return d.put(ctx, d.only[:]) })
	d.only[0] = inFlight{}
	if over {
		s.run.goroutines.Rename(d.doing(), s.reading())
	}
	return over, err
}

// takeOver starts another goroutine that reads while the current one writes.
func (s *sourceRun) takeOver() {
	s.run.goroutines.Rename(s.reading(), s.run.dests[0].doing())
	s.startReading()
}

// inFlight returns an in-flight batch of b, which was just read.
func (s *sourceRun) inFlight(b *record.Batch) inFlight {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = s.tracker.Read == s.tracker.Low
	f := s.tracker.Batch(b, len(s.run.dests))
	if s.run.keepsOriginal() && (s.stage.Active() || s.run.stage.Active() || s.run.branches()) {
		f.KeepOriginal()
	}
	f.ReadAt, f.SettledAt = now, now
	if f.Owner == nil {
		f.Owner = s
	}
	if s.trace != nil {
		s.trace.part(f)
	}
	return inFlight{f, nil}
}

// add adds f to the tracker. From then on f belongs to the goroutines that receive it from the queue of a destination,
// until they have settled it completely.
func (s *sourceRun) add(f inFlight) {
	s.track(f, time.Time{}, func() Change { return s.tracker.Add(f.Batch) })
}

// settle records that a destination just settled the next n records of f; refused says that they went to the
// dead-letter queue.
func (s *sourceRun) settle(f inFlight, destination, n int, refused bool, now time.Time) {
	s.track(f, now, func() Change { return s.tracker.Settle(f.Batch, destination, n, refused) })
}

// release records that a held piece of an input is settled.
func (s *sourceRun) release(f inFlight, input int) {
	s.track(f, time.Now(), func() Change { return s.tracker.Release(f.Batch, input) })
}

// track applies event to the tracker under mu and acts on the resulting change. now is when a destination or a
// processor settled something, zero when none did.
func (s *sourceRun) track(f inFlight, now time.Time, event func() Change) {
	s.mu.Lock()
	if !now.IsZero() {
		f.SettledAt = now // keep the time of the last settled batch
	}
	readAt, before := f.ReadAt, s.tracker.Bytes()
	c := event()
	s.memory.Add(s.tracker.Bytes() - before)
	s.mu.Unlock()
	if c.Advanced > 0 {
		if !now.IsZero() {
			s.run.Stats.Transits.Observe(measure.DurationBounds, now.Sub(readAt).Seconds(), c.Advanced)
		}
		s.advanced(c.Advanced, c.Refused, now)
	}
	if c.Complete {
		s.run.completed(f)
		s.run.release(f.Settles)
		s.mu.Lock()
		s.tracker.Released()
		s.mu.Unlock()
		s.run.recheck()
	}
	if f.passage != nil {
		s.freed.Notify() // outstanding records may wait only for those that processors hold
	}
}

// advanced requests a commit of the low-water mark, which advanced by n records at now; zero: just now.
func (s *sourceRun) advanced(n, nacked int, now time.Time) {
	s.run.deadLetters.acked(n - nacked)
	s.mu.Lock()
	clean := !s.dirty
	s.dirty = true
	urgent := s.finished
	read, low := s.tracker.Read, s.tracker.Low
	s.mu.Unlock()
	if now.IsZero() {
		now = time.Now()
	}
	s.leases.Settled(read, low, now)
	if clean {
		s.run.Committer.MarkDirty(s, urgent)
	}
	s.freed.Notify()
}

// Checkpoint returns the low-water mark for the committer.
func (s *sourceRun) Checkpoint() (spec.Checkpoint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty, s.saving, s.taken = false, true, s.tracker.Low
	if s.run.unsaved.Load() {
		s.taken = s.tracker.Committed
	}
	if s.taken == s.tracker.Committed {
		return spec.Checkpoint{}, false
	}
	return spec.Checkpoint{
		ConnectorID: s.id,
		PipelineID:  s.run.Declared.ID,
		Plugin:      s.plugin,
		Position:    s.tracker.Position(s.taken),
		Epoch:       s.run.epoch,
		Sequence:    int64(s.taken),
	}, true
}

// Saved records the outcome of saving the last checkpoint.
func (s *sourceRun) Saved(err error) {
	s.mu.Lock()
	s.saving = false
	if err == nil {
		if err = s.tracker.SetCommitted(s.taken); err != nil {
			err = Permanent(err)
		} else if s.ignoresAcks {
			err = s.acked(int(s.tracker.Committed - s.tracker.Acked))
		}
	}
	s.mu.Unlock()
	if err != nil {
		s.run.unsaved.Store(true)
		s.run.fail(fmt.Errorf("cannot save the position of source %s: %w", s.id, err))
	}
	s.relieve()
	s.commits.Notify()
}

// acknowledge acknowledges committed records to the source, until all records read are acknowledged.
func (s *sourceRun) acknowledge(ctx context.Context) error {
	var positions []record.Position
	for {
		s.mu.Lock()
		positions = s.tracker.Ackable(positions[:0], maxAcks)
		done := s.finished && (s.tracker.Acked == s.tracker.Read || s.drained && s.tracker.Acked == s.tracker.Low)
		s.mu.Unlock()
		if done {
			return nil
		}
		if len(positions) == 0 {
			positions = nil // most sources of a large number have nothing to acknowledge
			select {
			case <-s.commits:
				if ctx.Err() == nil {
					continue
				}
				s.commits.Notify() // waitSaved may wait for it, if this run no longer waits for this function
			case <-ctx.Done():
			}
			return context.Cause(ctx)
		}
		s.acking.Store(true)
		if err := s.src.Ack(ctx, positions); err != nil {
			return failedIn(s.id, fmt.Errorf("cannot acknowledge to source %s: %w", s.id, err))
		}
		s.acking.Store(false)
		s.mu.Lock()
		err := s.acked(len(positions))
		s.mu.Unlock()
		if err != nil {
			return err
		}
		s.relieve()
	}
}

// acked records that the source took n more acknowledgements. The caller holds mu.
func (s *sourceRun) acked(n int) error {
	now := time.Now()
	err := s.tracker.SetAcked(n, func(over *Range) {
		s.run.Stats.AckLags.Observe(measure.DurationBounds, now.Sub(over.SettledAt).Seconds(), over.N)
	})
	if err != nil {
		return Permanent(err)
	}
	s.stats.Acked.Add(uint64(n))
	s.freed.Notify()
	return nil
}

// finish records that reading has ended.
func (s *sourceRun) finish() {
	s.mu.Lock()
	s.finished = true
	s.mu.Unlock()
	s.run.Committer.FlushNow()
	s.commits.Notify()
}

// drain records that the destinations have settled all their records. Processors hold the unsettled records, and the
// next run reads those again.
func (s *sourceRun) drain() {
	s.mu.Lock()
	s.drained = true
	s.mu.Unlock()
	s.commits.Notify()
}

// waitSaved waits until the committer is done with the source, so that nothing is saved after the run has ended.
func (s *sourceRun) waitSaved() {
	for {
		s.mu.Lock()
		busy := s.dirty || s.saving
		s.mu.Unlock()
		if !busy {
			return
		}
		s.run.Committer.FlushNow()
		<-s.commits
	}
}

// releaseMemory removes the outstanding records from the shared bound when the run has ended.
func (s *sourceRun) releaseMemory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Leave(s.tracker.Bytes())
}
