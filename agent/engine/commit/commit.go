// Package commit saves the checkpoints of many sources by group commit.
package commit

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
	"github.com/conduit-agent/conduit/spec/sorting"
)

// Committer saves the checkpoints of all pipelines of an agent by group commit: those of
// many sources in one transaction. While nothing was committed for Interval, a checkpoint
// is saved at once; under load there is at most one commit per Interval.
type Committer struct {
	Store    Store
	Interval time.Duration
	Barrier  Barrier  // nil when destinations leave nothing to sync
	Replicas Replicas // nil when there are no copies of the checkpoints elsewhere

	Commits   measure.Histogram // seconds of a commit (measure.DurationBounds)
	Committed atomic.Uint64     // checkpoints made durable

	mu      sync.Mutex
	dirty   []Source        // guarded by mu
	urgent  bool            // guarded by mu
	synced  []*taken        // guarded by mu: what may be saved, and what failed
	copied  []*taken        // guarded by mu: what was replicated, and what failed
	syncing map[Source]bool // guarded by mu: the value says whether it is dirty again
	wake    notify.Signal
	once    sync.Once

	// Owned by Run: the arrays that dirty and synced had before, to be used again.
	spareDirty  []Source
	spareSynced []*taken
}

// taken is a source with the checkpoint to save for it, unless err says why it must not be.
type taken struct {
	source     Source
	checkpoint spec.Checkpoint
	err        error
}

// Barrier makes durable what destinations wrote, before the checkpoints are saved that
// count on it.
type Barrier interface {
	// Sync makes durable what the destinations of the pipelines wrote until now. It calls
	// done for every pipeline, once, from within or from another goroutine.
	Sync(pipelines []string, done func(pipelines []string, err error))
}

// Replicas are copies of the checkpoints outside of the store, without which they do not count.
type Replicas interface {
	// Replicate copies checkpoints that are in the store. It calls done for every pipeline,
	// once, from within or from another goroutine.
	Replicate(checkpoints []spec.Checkpoint, done func(pipeline string, err error))
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
			c.finish(context.WithoutCancel(ctx))
			return nil
		}
		c.save(ctx)
		if wait := time.Until(last.Add(c.Interval)); wait > 0 && !c.due() {
			timer.Reset(wait)
			continue
		}
		if c.commit(ctx) {
			last = time.Now()
		}
	}
}

// finish commits what is left.
func (c *Committer) finish(ctx context.Context) {
	c.commit(ctx)
	for c.busy() {
		<-c.wake
		c.save(ctx)
		c.commit(ctx)
	}
}

// due reports whether there is no reason to wait for the interval.
func (c *Committer) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.urgent || len(c.dirty) == 0
}

// busy reports whether something is being synced.
func (c *Committer) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.syncing) > 0
}

// commit takes the checkpoints of all that is dirty, has synced what they count on, and saves
// them; those that wait for a disk are saved when it is done. It reports whether there
// were any.
func (c *Committer) commit(ctx context.Context) bool {
	all := c.take()
	if len(all) == 0 {
		return false
	}
	if c.Barrier == nil {
		c.saveAll(ctx, pointers(all))
		return true
	}
	sorting.By(all, byPipeline)
	pipelines := make([]string, 0, len(all))
	for i := range all {
		if id := all[i].checkpoint.PipelineID; i == 0 || id != pipelines[len(pipelines)-1] {
			pipelines = append(pipelines, id)
		}
	}
	c.Barrier.Sync(pipelines, func(pipelines []string, err error) { c.settled(all, pipelines, err) })
	c.save(ctx)
	return true
}

func pointers(all []taken) []*taken {
	to := make([]*taken, len(all))
	for i := range all {
		to[i] = &all[i]
	}
	return to
}

func byPipeline(a, b taken) int {
	return strings.Compare(a.checkpoint.PipelineID, b.checkpoint.PipelineID)
}

// take returns the checkpoints of all dirty sources, except of those that are being synced.
func (c *Committer) take() (all []taken) {
	c.mu.Lock()
	marked := c.dirty
	c.dirty, c.urgent = c.spareDirty[:0], false
	dirty := marked
	if c.Barrier != nil || c.Replicas != nil {
		dirty = c.startSyncing(dirty)
	}
	c.mu.Unlock()
	if len(dirty) > 0 {
		all = make([]taken, 0, len(dirty))
	}
	for _, s := range dirty {
		if p, ok := s.Checkpoint(); ok {
			all = append(all, taken{source: s, checkpoint: p})
			continue
		}
		c.saved(s, nil)
	}
	clear(marked)
	c.spareDirty = marked
	return all
}

// startSyncing returns the sources that are not being synced, which are from then on.
func (c *Committer) startSyncing(dirty []Source) []Source {
	if c.syncing == nil {
		c.syncing = map[Source]bool{}
	}
	free := dirty[:0]
	for _, s := range dirty {
		if _, busy := c.syncing[s]; busy {
			c.syncing[s] = true
			continue
		}
		c.syncing[s] = false
		free = append(free, s)
	}
	return free
}

// settled takes the outcome of syncing what the checkpoints of the pipelines count on. round
// is sorted by pipeline.
func (c *Committer) settled(round []taken, pipelines []string, err error) {
	c.mu.Lock()
	for _, id := range pipelines {
		i, _ := slices.BinarySearchFunc(round, id, func(t taken, id string) int { return strings.Compare(t.checkpoint.PipelineID, id) })
		for ; i < len(round) && round[i].checkpoint.PipelineID == id; i++ {
			round[i].err = err
			c.synced = append(c.synced, &round[i])
		}
	}
	c.mu.Unlock()
	c.wake.Notify()
}

// save saves the positions whose data was synced, and reports the failures. The sources of a pipeline may depend on the
// same data: when it could not be synced, no position of the pipeline is saved.
func (c *Committer) save(ctx context.Context) {
	c.report()
	c.mu.Lock()
	synced := c.synced
	c.synced = c.spareSynced[:0]
	c.mu.Unlock()
	var failed map[string]error // by pipeline
	for _, t := range synced {
		if t.err != nil {
			if failed == nil {
				failed = map[string]error{}
			}
			failed[t.checkpoint.PipelineID] = t.err
		}
	}
	good := synced[:0]
	for _, t := range synced {
		if err := cmp.Or(t.err, failed[t.checkpoint.PipelineID]); err != nil { // t may be read by settled
			c.saved(t.source, err)
			continue
		}
		good = append(good, t)
	}
	c.saveAll(ctx, good)
	clear(synced)
	c.spareSynced = synced
}

// saveAll saves the checkpoints in one transaction, or each alone when that fails: one
// source's failure must not be the others'.
func (c *Committer) saveAll(ctx context.Context, all []*taken) {
	if len(all) == 0 {
		return
	}
	checkpoints := make([]spec.Checkpoint, len(all))
	for i, t := range all {
		checkpoints[i] = t.checkpoint
	}
	err := c.store(ctx, checkpoints)
	if err == nil {
		c.replicate(all)
		return
	}
	if len(all) == 1 {
		c.saved(all[0].source, err)
		return
	}
	for i := range all {
		c.saveAll(ctx, all[i:i+1])
	}
}

// replicate has what was saved copied, where it has to be.
func (c *Committer) replicate(all []*taken) {
	if c.Replicas == nil {
		for _, t := range all {
			c.saved(t.source, nil)
		}
		return
	}
	round, checkpoints := make(map[string][]*taken, len(all)), make([]spec.Checkpoint, len(all))
	for i, t := range all {
		checkpoints[i] = t.checkpoint
		round[t.checkpoint.PipelineID] = append(round[t.checkpoint.PipelineID], t)
	}
	c.Replicas.Replicate(checkpoints, func(pipeline string, err error) {
		c.mu.Lock()
		for _, t := range round[pipeline] {
			t.err = err
			c.copied = append(c.copied, t)
		}
		c.mu.Unlock()
		c.wake.Notify()
	})
	c.report()
}

// report reports what became of what was to be replicated.
func (c *Committer) report() {
	c.mu.Lock()
	copied := c.copied
	c.copied = nil
	c.mu.Unlock()
	for _, t := range copied {
		c.saved(t.source, t.err)
	}
}

// saved reports the outcome to a source, and has it committed again if it is dirty again.
func (c *Committer) saved(s Source, err error) {
	if c.Barrier != nil || c.Replicas != nil {
		c.mu.Lock()
		if c.syncing[s] {
			c.dirty = append(c.dirty, s)
			c.wake.Notify()
		}
		delete(c.syncing, s)
		c.mu.Unlock()
	}
	s.Saved(err)
}

func (c *Committer) store(ctx context.Context, checkpoints []spec.Checkpoint) error {
	begin := time.Now()
	if err := c.Store.SaveCheckpoints(ctx, checkpoints); err != nil {
		return err
	}
	c.Commits.Took(time.Since(begin))
	c.Committed.Add(uint64(len(checkpoints)))
	return nil
}
