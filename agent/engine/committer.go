package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Committer makes positions durable for all pipelines of an agent, many in one
// transaction. A source that stands alone is committed at once; under load there is
// at most one commit per Interval.
type Committer struct {
	Store    Store
	Interval time.Duration

	Commits   Histogram     // seconds of a commit (DurationBounds)
	Committed atomic.Uint64 // positions made durable

	mu     sync.Mutex
	dirty  []committable // guarded by mu
	urgent bool          // guarded by mu
	wake   chan struct{} // capacity 1
	once   sync.Once
}

// committable is a source with progress to save.
type committable interface {
	// take returns what to save; ok is false when there is nothing.
	take() (s spec.Checkpoint, ok bool)
	// saved tells how it went, for what the last take returned.
	saved(err error)
}

func (c *Committer) init() {
	c.once.Do(func() { c.wake = make(chan struct{}, 1) })
}

// mark asks for s to be committed; urgent ones do not wait for the interval. A source
// marks itself once, and again only after saved was called.
func (c *Committer) mark(s committable, urgent bool) {
	c.init()
	c.mu.Lock()
	first := len(c.dirty) == 0
	c.dirty = append(c.dirty, s)
	c.urgent = c.urgent || urgent
	c.mu.Unlock()
	if first || urgent {
		c.signal() // for the others it waits already
	}
}

// hurry ends the wait for the interval.
func (c *Committer) hurry() {
	c.init()
	c.mu.Lock()
	c.urgent = true
	c.mu.Unlock()
	c.signal()
}

func (c *Committer) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run commits until ctx ends, and then once more what is left. It is to outlive all
// pipelines.
func (c *Committer) Run(ctx context.Context) error {
	c.init()
	var last time.Time
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.wake:
		case <-timer.C:
		case <-ctx.Done():
			c.commit(context.WithoutCancel(ctx))
			return nil
		}
		if wait := time.Until(last.Add(c.Interval)); wait > 0 && !c.hurried() {
			timer.Reset(wait)
			continue
		}
		if c.commit(ctx) {
			last = time.Now()
		}
	}
}

func (c *Committer) hurried() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.urgent || len(c.dirty) == 0
}

// commit saves all that is dirty and reports whether there was anything.
func (c *Committer) commit(ctx context.Context) bool {
	c.mu.Lock()
	dirty := c.dirty
	c.dirty, c.urgent = nil, false
	c.mu.Unlock()

	takers, positions := make([]committable, 0, len(dirty)), make([]spec.Checkpoint, 0, len(dirty))
	for _, s := range dirty {
		if p, ok := s.take(); ok {
			takers, positions = append(takers, s), append(positions, p)
		} else {
			s.saved(nil)
		}
	}
	if len(positions) == 0 {
		return false
	}
	err := c.save(ctx, positions)
	for i, s := range takers {
		// One source's failure must not be the others': each gets a try of its own.
		if err != nil && len(takers) > 1 {
			s.saved(c.save(ctx, positions[i:i+1]))
			continue
		}
		s.saved(err)
	}
	return true
}

func (c *Committer) save(ctx context.Context, positions []spec.Checkpoint) error {
	begin := time.Now()
	if err := c.Store.SaveCheckpoints(ctx, positions); err != nil {
		return err
	}
	c.Commits.observe(DurationBounds, time.Since(begin).Seconds(), 1)
	c.Committed.Add(uint64(len(positions)))
	return nil
}
