package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// maxAcks is how many positions are acknowledged at once: a list of all that one commit
// covers would take more memory than the positions.
const maxAcks = 1024

// sourceRun drives one source of a running pipeline: one goroutine reads and hands on,
// another acknowledges what was committed.
type sourceRun struct {
	run        *run
	id         string // qualified
	plugin     string // its name
	src        connector.Source
	processors atomic.Pointer[[]Processor] // of the next batch; replaced, never modified
	tap        *tap
	stats      *Stats

	turn        *turn // owned by read: the one under which it reads; nil when the next batch needs one
	turnRecords int   // owned by read: what it may still read in its turn
	turnBytes   int   // owned by read

	mu       sync.Mutex
	tracker  tracker       // guarded by mu
	turns    []spentTurn   // guarded by mu: of which something is not settled, oldest first
	marked   bool          // guarded by mu: the committer has it on its list
	saving   bool          // guarded by mu: the committer is at it
	taken    uint64        // guarded by mu: what it is saving
	commits  chan struct{} // capacity 1: committed moved
	room     chan struct{} // capacity 1: acked or low moved
	reads    sampling      // owned by read
	finished bool          // guarded by mu: read to the end
}

func newSourceRun(r *run, o *opened[connector.Source], chain []Processor) *sourceRun {
	s := &sourceRun{run: r, id: o.id, plugin: spec.PluginName(o.plugin), src: o.connector, tap: r.Taps.point(o.id), stats: r.Stats.Connector(o.id), commits: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	s.processors.Store(&chain)
	return s
}

// read moves batches from the source to the destinations until the source has ended.
func (s *sourceRun) read(ctx context.Context) error {
	for {
		if err := s.waitForRoom(ctx); err != nil {
			return err
		}
		if err := s.takeTurn(ctx); err != nil {
			return err
		}
		var b *record.Batch
		err := s.reads.timed(&s.stats.Reads, func() (err error) { b, err = s.src.Read(ctx); return err })
		switch {
		case errors.Is(err, io.EOF) && s.run.draining():
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("cannot read from source %s: it ended by itself", s.id)
		case err != nil:
			return fmt.Errorf("cannot read from source %s: %w", s.id, err)
		}
		s.stats.Records.Add(uint64(b.Len()))
		s.stats.passed(b.Len(), b.Size())
		s.turnRecords, s.turnBytes = s.turnRecords-b.Len(), s.turnBytes-b.Memory()
		if err := s.dispatch(ctx, b); err != nil {
			return err
		}
	}
}

// spentTurn is a turn in which nothing more is read.
type spentTurn struct {
	*turn
	last uint64 // number of the last record read in it
}

// takeTurn waits for a turn unless something may still be read in the last one, or as much
// again because nobody waits.
func (s *sourceRun) takeTurn(ctx context.Context) (err error) {
	turns := s.run.Window.Turns
	if turns == nil || s.turnRecords > 0 && s.turnBytes > 0 {
		return nil
	}
	s.turnRecords, s.turnBytes = turnRecords, turnBytes
	if s.turn != nil {
		if turns.prolong(s.turn) {
			return nil
		}
		s.mu.Lock()
		s.turns = append(s.turns, spentTurn{s.turn, s.tracker.read})
		s.mu.Unlock()
		s.endTurns()
	}
	s.turn, err = turns.begin(ctx)
	return err
}

// endTurns ends the turns of which everything is settled.
func (s *sourceRun) endTurns() {
	s.mu.Lock()
	n := 0
	for n < len(s.turns) && s.turns[n].last <= s.tracker.low {
		n++
	}
	over := s.turns[:n]
	s.turns = s.turns[n:]
	s.mu.Unlock()
	for _, t := range over {
		s.run.Window.Turns.end(t.turn)
	}
}

// dispatch takes b into account, runs it through the processors and queues what is
// left for every destination.
func (s *sourceRun) dispatch(ctx context.Context, b *record.Batch) error {
	for i := range b.Len() {
		if l := len(b.Position(i)); l == 0 || l > record.MaxPosition {
			return permanent(fmt.Errorf("cannot take records from source %s: position of %d bytes; it must have 1 to %d", s.id, l, record.MaxPosition))
		}
	}
	f := s.flight(b)
	s.tap.publish(b)
	var refusals []refusal
	for _, p := range *s.processors.Load() {
		var err error
		if refusals, err = f.process(ctx, p, refusals); err != nil {
			return err
		}
	}
	for _, r := range refusals {
		if err := s.run.dlq.nack(ctx, s.id, r.record, r.node, r.err); err != nil {
			return err
		}
	}
	none := false // of the records is left
	if f.origin != nil {
		s.stats.Filtered.Add(uint64(f.n - len(f.origin) - len(f.nacked)))
		none = len(f.origin) == 0
	}
	if s.add(f); none {
		return nil
	}
	for _, d := range s.run.dests {
		select {
		case d.queue <- f:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// flight returns a flight of a batch that was read now.
func (s *sourceRun) flight(b *record.Batch) *flight {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.tracker.flight(b, len(s.run.dests))
	f.src, f.readAt, f.settledAt = s, now, now
	return f
}

// add takes f into account. It is not to be used then except by those who get it from a
// destination's queue, until they have settled all of it.
func (s *sourceRun) add(f *flight) {
	s.mu.Lock()
	held := s.tracker.bytes
	advanced, nacked := s.tracker.add(f)
	s.run.Window.Shared.add(s.tracker.bytes - held)
	s.mu.Unlock()
	if advanced > 0 {
		s.advanced(advanced, nacked)
	}
}

// settle is told that destination dest settled the next n records of f now; refused says
// that they went to the dead-letter queue.
func (s *sourceRun) settle(f *flight, dest, n int, refused bool, now time.Time) {
	s.mu.Lock()
	if refused {
		for i := range n {
			f.nacked = append(f.nacked, int32(f.source(f.settled[dest]+i)))
		}
	}
	f.settledAt = now // the last one to settle it is right
	readAt := f.readAt
	held := s.tracker.bytes
	advanced, nacked := s.tracker.settle(f, dest, n)
	s.run.Window.Shared.add(s.tracker.bytes - held)
	s.mu.Unlock()
	if advanced > 0 {
		s.run.Stats.Transits.observe(DurationBounds, now.Sub(readAt).Seconds(), advanced)
		s.advanced(advanced, nacked)
	}
}

// advanced asks for the new low-water mark to be committed.
func (s *sourceRun) advanced(n, nacked int) {
	s.run.dlq.acked(n - nacked)
	s.mu.Lock()
	mark := !s.marked
	s.marked = true
	urgent := s.finished
	spent := len(s.turns) > 0 && s.turns[0].last <= s.tracker.low
	s.mu.Unlock()
	if spent {
		s.endTurns()
	}
	if mark {
		s.run.Committer.mark(s, urgent)
	}
	notify(s.room)
}

// take returns the low-water mark for the committer.
func (s *sourceRun) take() (spec.Checkpoint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marked, s.saving = false, true
	s.taken = s.tracker.low
	if s.taken == s.tracker.committed {
		return spec.Checkpoint{}, false
	}
	return spec.Checkpoint{
		ConnectorID: s.id,
		PipelineID:  s.run.Declared.ID,
		Plugin:      s.plugin,
		Position:    s.tracker.position(s.taken),
		Epoch:       s.run.epoch,
		Sequence:    int64(s.taken),
	}, true
}

// saved is told by the committer how it went.
func (s *sourceRun) saved(err error) {
	s.mu.Lock()
	s.saving = false
	if err == nil {
		err = s.tracker.setCommitted(s.taken)
	}
	s.mu.Unlock()
	if err != nil {
		s.run.fail(fmt.Errorf("cannot save the position of source %s: %w", s.id, err))
	}
	notify(s.commits)
}

// acknowledge tells the source what was committed, until all it read is acknowledged.
func (s *sourceRun) acknowledge(ctx context.Context) error {
	var positions []record.Position
	for {
		s.mu.Lock()
		positions = s.tracker.ackable(positions[:0], maxAcks)
		done := s.finished && s.tracker.acked == s.tracker.read
		s.mu.Unlock()
		if done {
			return nil
		}
		if len(positions) == 0 {
			positions = nil // most of many sources have nothing to be told
			select {
			case <-s.commits:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := s.src.Ack(ctx, positions); err != nil {
			return fmt.Errorf("cannot acknowledge to source %s: %w", s.id, err)
		}
		now := time.Now()
		s.mu.Lock()
		err := s.tracker.setAcked(len(positions), func(past *stretch) {
			s.run.Stats.AckLags.observe(DurationBounds, now.Sub(past.settledAt).Seconds(), past.n)
		})
		s.mu.Unlock()
		if err != nil {
			return err
		}
		s.stats.Acked.Add(uint64(len(positions)))
		notify(s.room)
	}
}

// finish says that nothing more will be read.
func (s *sourceRun) finish() {
	s.mu.Lock()
	s.finished = true
	s.mu.Unlock()
	s.run.Committer.hurry()
	notify(s.commits)
}

// waitSaved waits until the committer is done with the source, so that nothing is saved
// after the run has ended.
func (s *sourceRun) waitSaved() {
	for {
		s.mu.Lock()
		busy := s.marked || s.saving
		s.mu.Unlock()
		if !busy {
			return
		}
		s.run.Committer.hurry()
		<-s.commits
	}
}

// release gives back the memory of what is held when the run has ended.
func (s *sourceRun) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run.Window.Shared.add(-s.tracker.bytes)
}

// waitForRoom waits until the window allows another batch. A batch may overshoot the
// window, so that a record larger than it still passes.
func (s *sourceRun) waitForRoom(ctx context.Context) error {
	for {
		s.mu.Lock()
		unacked, unsettled, bytes := s.tracker.read-s.tracker.acked, s.tracker.read-s.tracker.low, s.tracker.bytes
		s.mu.Unlock()
		if s.run.Window.allows(unacked, unsettled, bytes) || unsettled < uint64(s.run.gathered.Load()) {
			return nil
		}
		if unacked >= uint64(s.run.Window.Unacked) {
			s.run.Committer.hurry() // no time to wait for company
		}
		select {
		case <-s.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// notify wakes the one who waits for c, which has capacity one.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
