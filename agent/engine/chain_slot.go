package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec/notify"
)

// chainSlot is a place for a chain. While it is empty it costs one atomic load per batch. It is locked while the chain
// runs and until the records that the chain released are queued, which keeps the order.
type chainSlot struct {
	ID   string        // qualified id of the pipeline or connector that declares the processors
	Wake notify.Signal // a deadline has come, or batches were committed

	active     atomic.Bool  // there is a chain
	deadline   atomic.Int64 // of the chain, Unix nanoseconds; 0 for none
	releasable atomic.Bool  // the chain holds records that it can release early
	letGo      atomic.Bool  // the chain must release its records early

	durableMutex
	chain  connector.Chain // guarded by the mutex; nil for none
	timer  *time.Timer     // guarded by the mutex: wakes at the deadline
	due    time.Time       // guarded by the mutex: the deadline by the monotonic clock, since the wall clock may be set
	failed bool            // guarded by the mutex: the chain is broken
	closed bool            // guarded by the mutex: nothing may be queued any more
	tended bool            // guarded by the mutex: a goroutine tends the chain

	tokens    sync.Mutex
	committed []any // guarded by tokens; committed batches to report to the chain
}

// newChainSlot returns an empty slot.
func newChainSlot(id string) *chainSlot {
	return &chainSlot{ID: id, Wake: notify.NewSignal(), durableMutex: durableMutex{make(chan struct{}, 1)}}
}

// durableMutex is a lock on which a goroutine blocks durably in the sense of testing/synctest: its holder may wait for
// a destination, and so for time to pass.
type durableMutex struct{ held chan struct{} }

// Lock waits for the lock.
func (m durableMutex) Lock() { m.held <- struct{}{} }

// Unlock releases the lock.
func (m durableMutex) Unlock() { <-m.held }

// TryLock reports whether it got the lock without waiting.
func (m durableMutex) TryLock() bool {
	select {
	case m.held <- struct{}{}:
		return true
	default:
		return false
	}
}

// Active reports whether there is a chain. It may be called without the lock.
func (s *chainSlot) Active() bool { return s.active.Load() }

// Waits reports whether the chain has a deadline. It may be called without the lock.
func (s *chainSlot) Waits() bool { return s.deadline.Load() != 0 }

// LetGo makes the next Attend release early the records that the chain holds and can release. It may be called without
// the lock.
func (s *chainSlot) LetGo() {
	if s.releasable.Load() {
		s.letGo.Store(true)
		s.Wake.Notify()
	}
}

// Chain returns the chain, nil for none.
func (s *chainSlot) Chain() connector.Chain {
	s.Lock()
	defer s.Unlock()
	return s.chain
}

// Accepts reports whether next, nil for none, can replace the chain between two batches. If not, records that the
// chain holds, or emissions or commits that it still owes, would be lost.
func (s *chainSlot) Accepts(next connector.Chain) bool {
	s.Lock()
	defer s.Unlock()
	return s.accepts(next)
}

func (s *chainSlot) accepts(next connector.Chain) bool {
	if s.chain == nil {
		return true
	}
	if successor, ok := next.(connector.ChainSuccessor); ok {
		return successor.CanSucceed(s.chain)
	}
	return s.chain.Holding() == 0 && s.chain.Deadline().IsZero() && (next == nil || !s.chain.Observes())
}

// Install replaces the chain by next, nil for none, and returns the old one, which the caller must tear down. If the
// slot does not accept next, Install does nothing and returns false.
func (s *chainSlot) Install(next connector.Chain) (former connector.Chain, ok bool) {
	s.Lock()
	defer s.Unlock()
	if !s.accepts(next) {
		return nil, false
	}
	if successor, ok := next.(connector.ChainSuccessor); ok && s.chain != nil {
		successor.Succeed(s.chain)
	}
	former, s.chain = s.chain, next
	s.active.Store(next != nil)
	s.arm()
	return former, true
}

// Tend reports whether the caller must tend the chain: no other goroutine does, and the slot is open.
func (s *chainSlot) Tend() bool {
	s.Lock()
	defer s.Unlock()
	if s.tended || s.closed {
		return false
	}
	s.tended = true
	return true
}

// Close waits until the current batch is queued, and prevents further queueing.
func (s *chainSlot) Close() {
	s.Lock()
	defer s.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.Wake.Notify() // ends its goroutine
}

// Closed reports whether the slot was closed. The slot must be locked.
func (s *chainSlot) Closed() bool { return s.closed }

// Observes reports whether the chain observes commits. The slot must be locked.
func (s *chainSlot) Observes() bool { return s.chain.Observes() }

// Process lets the chain process a batch. The slot must be locked and have a chain.
func (s *chainSlot) Process(ctx context.Context, token any, records []record.Record) (connector.Outcome, error) {
	out, err := s.chain.Process(ctx, token, records)
	if err != nil {
		return out, s.broken(err)
	}
	s.arm()
	return out, nil
}

// Unfinished reports whether the chain has parts of a batch left, which Attend returns. The slot must be locked.
func (s *chainSlot) Unfinished() bool {
	c, ok := s.chain.(connector.ChainSplitter)
	return ok && !s.failed && c.Unfinished()
}

// Attend notifies the chain of committed batches, and lets it emit if it is unfinished, its deadline has passed or
// LetGo was called. The slot must be locked.
func (s *chainSlot) Attend(ctx context.Context) (connector.Outcome, error) {
	if s.chain == nil {
		return connector.Outcome{}, nil
	}
	if err := s.learn(ctx); err != nil {
		return connector.Outcome{}, s.broken(err)
	}
	if releaser, ok := s.chain.(connector.ChainReleaser); s.letGo.Swap(false) && ok {
		out, err := releaser.Release(ctx)
		if err != nil {
			return out, s.broken(err)
		}
		s.deadline.Store(0) // armed again below: the deadline may have passed
		s.arm()
		return out, nil
	}
	if !s.Unfinished() && (!s.Waits() || time.Now().Before(s.due)) {
		return connector.Outcome{}, nil
	}
	s.deadline.Store(0) // Process arms it again
	return s.Process(ctx, nil, nil)
}

// NoteCommitted notes that a saved position covers all records of the batch with this token. It
// never blocks for long, and is called without the lock.
func (s *chainSlot) NoteCommitted(token any) {
	s.tokens.Lock()
	s.committed = append(s.committed, token)
	s.tokens.Unlock()
	s.Wake.Notify()
}

// Teardown ends the chain. It skips a chain that was abandoned in a call.
func (s *chainSlot) Teardown(ctx context.Context) (err error) {
	if !s.TryLock() {
		return nil
	}
	defer s.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.chain == nil {
		return nil
	}
	if !s.failed {
		err = s.learn(ctx)
	}
	if terr := s.chain.Teardown(ctx); err == nil {
		err = terr
	}
	if err != nil {
		return fmt.Errorf("cannot tear down the processors of %s: %w", s.ID, err)
	}
	return nil
}

// arm sets the timer for the deadline of the chain, and records whether the chain can release held records.
func (s *chainSlot) arm() {
	var due time.Time
	if s.chain != nil {
		due = s.chain.Deadline()
	}
	releaser, ok := s.chain.(connector.ChainReleaser)
	s.releasable.Store(ok && releaser.Releasable())
	switch {
	case due.IsZero():
		s.deadline.Store(0)
		if s.timer != nil {
			s.timer.Stop()
		}
	case s.deadline.Swap(due.UnixNano()) != due.UnixNano():
		s.wakeAfter(time.Until(due))
	}
}

func (s *chainSlot) wakeAfter(d time.Duration) {
	s.due = time.Now().Add(d)
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.Wake.Notify)
	} else {
		s.timer.Reset(d)
	}
}

func (s *chainSlot) learn(ctx context.Context) error {
	s.tokens.Lock()
	committed := s.committed
	s.committed = nil
	s.tokens.Unlock()
	if len(committed) == 0 {
		return nil
	}
	return s.chain.Committed(ctx, committed)
}

// broken wraps the error of a chain that must not be called again.
func (s *chainSlot) broken(err error) error {
	s.failed = true
	return fmt.Errorf("cannot run the processors of %s: %w", s.ID, err)
}
