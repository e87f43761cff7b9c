package engine

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
)

// Committer saves the checkpoints of all pipelines of an agent by group commit: the checkpoints of many sources in one
// transaction. If nothing was committed during the last CommitInterval, a checkpoint is saved at once; under load there
// is at most one commit per CommitInterval.
type Committer struct {
	Store          CheckpointStore
	CommitInterval time.Duration // the setting db.commit-interval
	// Before makes the dead letters durable that checkpoints cover, before those are saved; nil: there are none.
	Before   func(ctx context.Context, checkpoints []spec.Checkpoint) error
	Barrier  Barrier  // nil when destinations leave nothing to sync
	Replicas Replicas // nil when there are no copies of the checkpoints elsewhere

	Commits   measure.Histogram // duration of commits in seconds (measure.DurationBounds)
	Committed atomic.Uint64     // number of checkpoints made durable

	mu      sync.Mutex
	dirty   []Checkpointer        // guarded by mu
	urgent  bool                  // guarded by mu
	synced  []*taken              // guarded by mu: checkpoints that may be saved, and failed ones
	copied  []*taken              // guarded by mu: replicated checkpoints, and failed ones
	syncing map[Checkpointer]bool // guarded by mu: sources whose data is being synced; true if dirty again
	wake    notify.Signal
	once    sync.Once

	// Owned by Run: the former arrays of dirty and synced, for reuse.
	spareDirty  []Checkpointer
	spareSynced []*taken
}

// taken is a source with the checkpoint to save for it, unless err says why it must not be saved.
type taken struct {
	source     Checkpointer
	checkpoint spec.Checkpoint
	err        error
}

// Barrier makes the writes of destinations durable before the checkpoints that depend on them are saved.
type Barrier interface {
	// Sync makes durable all writes of the destinations of the pipelines until now. It calls done once for every
	// pipeline, before it returns or from another goroutine.
	Sync(pipelines []string, done func(pipelines []string, err error))
}

// Replicas are copies of the checkpoints outside the store, without which the checkpoints do not count.
type Replicas interface {
	// Replicate copies checkpoints that are in the store. It calls done once for every pipeline, before it returns or
	// from another goroutine.
	Replicate(checkpoints []spec.Checkpoint, done func(pipeline string, err error))
}

// CheckpointStore makes checkpoints durable.
type CheckpointStore interface {
	// SaveCheckpoints makes all checkpoints durable in one transaction. When it returns nil they survive a power cut;
	// when it returns an error no checkpoint has changed.
	SaveCheckpoints(ctx context.Context, checkpoints []spec.Checkpoint) error
}

// Checkpointer is a source with progress to save.
type Checkpointer interface {
	// Checkpoint returns the checkpoint to save; ok is false when there is none.
	Checkpoint() (c spec.Checkpoint, ok bool)
	// Saved reports the outcome for the last checkpoint that Checkpoint returned.
	Saved(err error)
}

func (c *Committer) init() {
	c.once.Do(func() { c.wake = notify.NewSignal() })
}

// MarkDirty requests a commit of s; an urgent one does not wait for the interval. A source may do so again once
// Checkpoint was called, even before Saved is called.
func (c *Committer) MarkDirty(s Checkpointer, urgent bool) {
	c.init()
	c.mu.Lock()
	first := len(c.dirty) == 0
	c.dirty = append(c.dirty, s)
	c.urgent = c.urgent || urgent
	c.mu.Unlock()
	if first || urgent {
		c.wake.Notify() // otherwise Run waits for the interval already
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

// Run commits until ctx ends, and then commits the remaining checkpoints. It must outlive all pipelines.
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
		c.saveSynced(ctx)
		if wait := time.Until(last.Add(c.CommitInterval)); wait > 0 && !c.due() {
			timer.Reset(wait)
			continue
		}
		if c.commit(ctx) {
			last = time.Now()
		}
	}
}

// finish commits the remaining checkpoints.
func (c *Committer) finish(ctx context.Context) {
	c.commit(ctx)
	for c.busy() {
		<-c.wake
		c.saveSynced(ctx)
		c.commit(ctx)
	}
}

// due reports whether there is no reason to wait for the interval.
func (c *Committer) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.urgent || len(c.dirty) == 0
}

// busy reports whether a sync is in progress.
func (c *Committer) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.syncing) > 0
}

// commit takes the checkpoints of all dirty sources, syncs the data that they depend on, and saves them; those that
// wait for a disk are saved when its sync is done. It reports whether there were any.
func (c *Committer) commit(ctx context.Context) bool {
	all := c.take()
	if len(all) == 0 {
		return false
	}
	if c.Barrier == nil {
		c.saveTogether(ctx, pointers(all))
		return true
	}
	slices.SortFunc(all, byPipeline)
	pipelines := make([]string, 0, len(all))
	for i := range all {
		if id := all[i].checkpoint.PipelineID; i == 0 || id != pipelines[len(pipelines)-1] {
			pipelines = append(pipelines, id)
		}
	}
	c.Barrier.Sync(pipelines, func(pipelines []string, err error) { c.syncDone(all, pipelines, err) })
	c.saveSynced(ctx)
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

// take returns the checkpoints of all dirty sources, except those whose data is being synced.
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
		c.notifySource(s, nil)
	}
	clear(marked)
	c.spareDirty = marked
	return all
}

// startSyncing returns the sources that are not being synced, and marks them as being synced.
func (c *Committer) startSyncing(dirty []Checkpointer) []Checkpointer {
	if c.syncing == nil {
		c.syncing = map[Checkpointer]bool{}
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

// syncDone records the outcome of syncing the data on which the checkpoints of the pipelines depend. round is sorted by
// pipeline.
func (c *Committer) syncDone(round []taken, pipelines []string, err error) {
	c.mu.Lock()
	for _, id := range pipelines {
		i, _ := slices.BinarySearchFunc(round, id, func(t taken, id string) int {
			return strings.Compare(t.checkpoint.PipelineID, id)
		})
		for ; i < len(round) && round[i].checkpoint.PipelineID == id; i++ {
			round[i].err = err
			c.synced = append(c.synced, &round[i])
		}
	}
	c.mu.Unlock()
	c.wake.Notify()
}

// saveSynced saves the positions whose data was synced, and reports the failures. The sources of a pipeline may depend
// on the same data: when it could not be synced, no position of the pipeline is saved.
func (c *Committer) saveSynced(ctx context.Context) {
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
		if err := cmp.Or(t.err, failed[t.checkpoint.PipelineID]); err != nil { // syncDone may be reading t
			c.notifySource(t.source, err)
			continue
		}
		good = append(good, t)
	}
	c.saveTogether(ctx, good)
	clear(synced)
	c.spareSynced = synced
}

// saveTogether saves the checkpoints in one transaction, or each alone when that fails: a source that fails must not
// affect the others.
func (c *Committer) saveTogether(ctx context.Context, all []*taken) {
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
		c.notifySource(all[0].source, err)
		return
	}
	for i := range all {
		c.saveTogether(ctx, all[i:i+1])
	}
}

// replicate replicates saved checkpoints if there are Replicas.
func (c *Committer) replicate(all []*taken) {
	if c.Replicas == nil {
		for _, t := range all {
			c.notifySource(t.source, nil)
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

// report reports the outcome of replication.
func (c *Committer) report() {
	c.mu.Lock()
	copied := c.copied
	c.copied = nil
	c.mu.Unlock()
	for _, t := range copied {
		c.notifySource(t.source, t.err)
	}
}

// notifySource reports the outcome to a source, and marks it for another commit if it is dirty again.
func (c *Committer) notifySource(s Checkpointer, err error) {
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
	if c.Before != nil {
		if err := c.Before(ctx, checkpoints); err != nil {
			return err
		}
	}
	if err := c.Store.SaveCheckpoints(ctx, checkpoints); err != nil {
		return err
	}
	c.Commits.Took(time.Since(begin))
	c.Committed.Add(uint64(len(checkpoints)))
	return nil
}
