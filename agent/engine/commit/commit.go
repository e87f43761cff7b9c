// Package commit saves the checkpoints of many sources by group commit.
package commit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Committer saves the checkpoints of all pipelines of an agent by group commit: those of
// many sources in one transaction. While nothing was committed for Interval, a checkpoint
// is saved at once; under load there is at most one commit per Interval.
type Committer struct {
	Store    Store
	Interval time.Duration

	Commits   measure.Histogram // seconds of a commit (measure.DurationBounds)
	Committed atomic.Uint64     // checkpoints made durable

	mu     sync.Mutex
	dirty  []Source // guarded by mu
	urgent bool     // guarded by mu
	wake   notify.Signal
	once   sync.Once
}

// Store makes checkpoints durable.
type Store interface {
	// SaveCheckpoints makes all checkpoints durable in one transaction. When it returns
	// nil they survive a power cut; when it returns an error none of them changed.
	SaveCheckpoints(ctx context.Context, checkpoints []spec.Checkpoint) error
}

// Source is one with progress to save.
type Source interface {
	// Checkpoint returns what to save; ok is false when there is nothing.
	Checkpoint() (c spec.Checkpoint, ok bool)
	// Saved takes the outcome for what the last call of Checkpoint returned.
	Saved(err error)
}

func (c *Committer) init() {
	c.once.Do(func() { c.wake = notify.NewSignal() })
}

// MarkDirty asks for s to be committed; urgent ones do not wait for the interval. A source
// may do so again once Checkpoint was called, also before Saved is.
func (c *Committer) MarkDirty(s Source, urgent bool) {
	c.init()
	c.mu.Lock()
	first := len(c.dirty) == 0
	c.dirty = append(c.dirty, s)
	c.urgent = c.urgent || urgent
	c.mu.Unlock()
	if first || urgent {
		c.wake.Notify() // for the others it waits already
	}
}

// FlushNow ends the wait for the interval.
func (c *Committer) FlushNow() {
	c.init()
	c.mu.Lock()
	c.urgent = true
	c.mu.Unlock()
	c.wake.Notify()
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
		if wait := time.Until(last.Add(c.Interval)); wait > 0 && !c.due() {
			timer.Reset(wait)
			continue
		}
		if c.commit(ctx) {
			last = time.Now()
		}
	}
}

// due reports whether there is no reason to wait for the interval.
func (c *Committer) due() bool {
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

	sources, checkpoints := make([]Source, 0, len(dirty)), make([]spec.Checkpoint, 0, len(dirty))
	for _, s := range dirty {
		if p, ok := s.Checkpoint(); ok {
			sources, checkpoints = append(sources, s), append(checkpoints, p)
		} else {
			s.Saved(nil)
		}
	}
	if len(checkpoints) == 0 {
		return false
	}
	err := c.save(ctx, checkpoints)
	for i, s := range sources {
		// One source's failure must not be the others': each is tried alone.
		if err != nil && len(sources) > 1 {
			s.Saved(c.save(ctx, checkpoints[i:i+1]))
			continue
		}
		s.Saved(err)
	}
	return true
}

func (c *Committer) save(ctx context.Context, checkpoints []spec.Checkpoint) error {
	begin := time.Now()
	if err := c.Store.SaveCheckpoints(ctx, checkpoints); err != nil {
		return err
	}
	c.Commits.Took(time.Since(begin))
	c.Committed.Add(uint64(len(checkpoints)))
	return nil
}
