package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// maxPosition is how long a position may be. Positions are kept for every record in
// flight and written to the store.
const maxPosition = 64 << 10

// sourceRun drives one source of a running pipeline: one goroutine reads and hands on,
// another acknowledges what was committed.
type sourceRun struct {
	run        *run
	id         string // qualified
	src        Source
	processors []Processor
	tap        *tap
	stats      *Stats

	mu       sync.Mutex
	tracker  tracker       // guarded by mu
	marked   bool          // guarded by mu: the committer has it on its list
	saving   bool          // guarded by mu: the committer is at it
	taken    uint64        // guarded by mu: what it is saving
	commits  chan struct{} // capacity 1: committed moved
	room     chan struct{} // capacity 1: acked or low moved
	finished bool          // guarded by mu: read to the end
}

func newSourceRun(r *run, id string, src Source) *sourceRun {
	return &sourceRun{run: r, id: id, src: src, tap: r.Taps.point(id), stats: r.Stats.Connector(id), commits: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// read moves batches from the source to the destinations until the source has ended.
func (s *sourceRun) read(ctx context.Context) error {
	for {
		if err := s.waitForRoom(ctx); err != nil {
			return err
		}
		b, err := s.src.Read(ctx)
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
		if err := s.dispatch(ctx, b); err != nil {
			return err
		}
	}
}

// dispatch takes b into account, runs it through the processors and queues what is
// left for every destination.
func (s *sourceRun) dispatch(ctx context.Context, b *record.Batch) error {
	now := time.Now()
	f := &flight{src: s, readAt: now, settledAt: now, n: b.Len(), positions: record.PositionsOf(b), batch: b, size: b.Size(),
		settled: make([]int, len(s.run.dests))}
	for i := range f.n {
		if l := len(f.positions.At(i)); l == 0 || l > maxPosition {
			return permanent(fmt.Errorf("cannot take records from source %s: position of %d bytes; it must have 1 to %d", s.id, l, maxPosition))
		}
	}
	s.tap.publish(b)
	var refusals []refusal
	for _, p := range s.processors {
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
	s.add(f)
	if f.origin != nil {
		s.stats.Filtered.Add(uint64(f.n - len(f.origin) - len(f.nacked)))
		if len(f.origin) == 0 {
			return nil
		}
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

func (s *sourceRun) add(f *flight) {
	s.mu.Lock()
	advanced, nacked := s.tracker.add(f)
	s.mu.Unlock()
	if advanced > 0 {
		s.advanced(advanced, nacked)
	}
}

// settle is told that destination dest settled the next n records of f; refused says
// that they went to the dead-letter queue.
func (s *sourceRun) settle(f *flight, dest, n int, refused bool) {
	s.mu.Lock()
	if refused {
		for i := range n {
			f.nacked = append(f.nacked, int32(f.source(f.settled[dest]+i)))
		}
	}
	f.settledAt = time.Now() // the last one to settle it is right
	advanced, nacked := s.tracker.settle(f, dest, n)
	s.mu.Unlock()
	if advanced > 0 {
		s.run.Stats.Transits.observe(DurationBounds, f.settledAt.Sub(f.readAt).Seconds(), advanced)
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
	s.mu.Unlock()
	if mark {
		s.run.Committer.mark(s, urgent)
	}
	notify(s.room)
}

// take returns the low-water mark for the committer.
func (s *sourceRun) take() (Saved, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marked, s.saving = false, true
	s.taken = s.tracker.low
	if s.taken == s.tracker.committed {
		return Saved{}, false
	}
	return Saved{
		ConnectorID: s.id,
		PipelineID:  s.run.Declared.ID,
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
		positions = s.tracker.ackable(positions[:0])
		done := s.finished && s.tracker.acked == s.tracker.read
		s.mu.Unlock()
		if done {
			return nil
		}
		if len(positions) == 0 {
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
		err := s.tracker.setAcked(len(positions), func(f *flight) {
			s.run.Stats.AckLags.observe(DurationBounds, now.Sub(f.settledAt).Seconds(), f.n)
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

// waitForRoom waits until the window allows another batch. A batch may overshoot the
// window, so that a record larger than it still passes.
func (s *sourceRun) waitForRoom(ctx context.Context) error {
	for {
		s.mu.Lock()
		unacked, unsettled, bytes := s.tracker.read-s.tracker.acked, s.tracker.read-s.tracker.low, s.tracker.bytes
		s.mu.Unlock()
		w := &s.run.Window
		if unacked < uint64(w.Unacked) && unsettled < uint64(w.Unsettled) && bytes < w.Bytes || unsettled < uint64(s.run.gathered) {
			return nil
		}
		if unacked >= uint64(w.Unacked) {
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
