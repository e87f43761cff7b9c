// Package cluster lets many agents run one set of pipelines, each pipeline on one of them.
package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
)

// Store is shared by all agents. Its keys change by compare-and-swap.
type Store interface {
	// Write performs a compare-and-swap. It returns when the store has answered, or protocol.Unknown when ctx ends
	// first.
	Write(ctx context.Context, w protocol.Write) protocol.Outcome
	// Read returns the present entry of a key. An entry without Value means that the key does not exist.
	Read(ctx context.Context, key string) (protocol.Entry, error)
	// Watch calls observe with the entry of every key, without its state, then calls synced, and then calls observe
	// with the latest entry of each key that changes. It returns when ctx ends or on an error. A store with several
	// replicas may show an outdated entry before the latest one.
	Watch(ctx context.Context, observe func(protocol.Entry), synced func()) error
}

const (
	tick          = 250 * time.Millisecond
	writeTimeout  = 2 * time.Second
	retryPause    = 100 * time.Millisecond
	watchPause    = time.Second // least delay before a broken watch restarts; grows to maxWatchPause
	maxWatchPause = 30 * time.Second
)

// Noter tracks the entries of some keys of the store.
type Noter interface {
	// Note records an entry of the watch, without its state. It reports whether the key belongs to this Noter. It must
	// not block.
	Note(e protocol.Entry) bool
}

// Member is this agent's part in a cluster. Set the exported fields, then call Run.
type Member struct {
	Store Store
	Self  protocol.Session // Agent, Version, Labels and Capacity
	Log   *slog.Logger
	// Adopt replaces the local state of a pipeline that this agent now owns, before the pipeline runs. state is nil
	// when none was ever saved.
	Adopt func(ctx context.Context, pipeline string, state []byte) error
	// Inherit, when set, is called after Adopt with the id of the claim, for a pipeline that will run.
	Inherit func(ctx context.Context, id string) error
	// Retire releases the external resources that the connectors of a pipeline hold. The pipeline was deleted from the
	// cluster, and its state adopted. Retire returns when all are released, or ctx ends.
	Retire func(ctx context.Context, pipeline string) error
	// Placed is called when this agent gains or loses the right to run a pipeline. It must not block.
	Placed func(pipeline string)
	// Lost is called when a pipeline must stop at once, because another agent may run it. It must not block.
	Lost func(pipeline string)
	// Idle reports whether a pipeline that this agent no longer owns has stopped completely. It is called after Placed.
	Idle func(ctx context.Context, pipeline string) bool
	// Happened is called with each notice for people. It must not block.
	Happened func(protocol.Notice)
	// Asked, when set, is called when another member set an override. It must not block.
	Asked func()
	// Deleted, when set, is called for a pipeline whose claim and positions were deleted. It must not
	// block.
	Deleted func(pipeline string)
	// Dropped, when set, is called with the id of a deleted claim, the revision of the deletion, and the time for which
	// the deletion is remembered.
	Dropped func(ctx context.Context, id string, revision uint64, ttl time.Duration)
	// Notes receive all entries of the store other than sessions and claims.
	Notes []Noter
	// Moved, when set, is called when the owner of a pipeline changes. It must not block.
	Moved func(pipeline string)

	Timing protocol.Timing

	once   sync.Once
	joined atomic.Bool
	posts  chan func()
	begun  time.Time

	mu        sync.Mutex
	overrides map[string]Override        // guarded by mu: by pipeline
	owned     map[string]owned           // guarded by mu
	owners    map[string]protocol.Claim  // guarded by mu: latest claim seen, by claim id
	instances map[string]int             // guarded by mu: highest instance number seen, by pipeline
	counts    map[protocol.Reason]uint64 // guarded by mu: number of notices

	relaxed map[string]bool // guarded by mu: as last declared

	saves     saves
	heldUntil atomic.Int64 // end of the session by m.now, unless it is renewed

	// Owned by Run.
	node     protocol.Node
	adopting map[string]bool          // pipelines whose state is being adopted
	asking   map[string]bool          // pipelines with a call of Idle in progress
	stopping map[string]protocol.Stop // pipelines that must stop
	retiring retirements
	token    uint64
	working  sync.WaitGroup
}

// owned is a pipeline whose claim this agent has. An agent owns at most one instance of a pipeline.
type owned struct {
	number int // instance number
	epoch  uint64
	stop   bool // it must stop
	retire bool // it does not run: its resources are being cleaned up
}

func (m *Member) init() {
	m.once.Do(func() {
		m.posts = make(chan func(), 1024)
		m.owned, m.stopping, m.adopting, m.asking = map[string]owned{}, map[string]protocol.Stop{}, map[string]bool{},
			map[string]bool{}
		m.overrides, m.retiring = map[string]Override{}, retirements{}
		m.owners, m.instances, m.counts = map[string]protocol.Claim{}, map[string]int{}, map[protocol.Reason]uint64{}
		m.begun = time.Now()
		m.node = protocol.Node{
			Agent: m.Self, Timing: m.Timing, Clock: time.Now, NewID: newID, Empty: emptyState,
			Rand: mathrand.New(mathrand.NewPCG(mathrand.Uint64(), mathrand.Uint64())),
		}
		m.node.Init(0)
	})
}

func newID() string {
	b := make([]byte, 12)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// now returns the monotonic time since the member began.
func (m *Member) now() time.Duration { return time.Since(m.begun) }

// post queues f to run on the goroutine of Run.
func (m *Member) post(f func()) {
	m.init()
	m.posts <- f
}

// Run takes part in the cluster until ctx ends. Call Drain first for a graceful leave.
func (m *Member) Run(ctx context.Context) error {
	m.init()
	ctx, cancel := context.WithCancel(ctx)
	m.working.Go(func() { m.watch(ctx) })
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case f := <-m.posts:
			f()
		case <-ticker.C:
			m.node.Tick(m.now())
			m.joined.Store(len(m.node.Live()) > 0 || m.node.Drained())
			m.finishStops(ctx)
		case <-ctx.Done():
			cancel()
			m.abandon()
			return nil
		}
		m.heldUntil.Store(int64(m.node.HeldUntil()))
		m.executeCommands(ctx)
	}
}

// abandon discards posted functions until all work has ended, and then drops the saves.
func (m *Member) abandon() {
	done := make(chan struct{})
	go func() { m.working.Wait(); close(done) }()
	for {
		select {
		case <-m.posts:
		case <-done:
			m.saves.abandon()
			return
		}
	}
}

// watch passes the changes in the store to the node.
func (m *Member) watch(ctx context.Context) {
	pause := watchPause
	for ctx.Err() == nil {
		began := time.Now()
		err := m.Store.Watch(ctx,
			func(e protocol.Entry) { m.post(func() { m.observe(ctx, e) }) },
			func() { m.post(func() { m.node.Synced(m.now()) }) })
		if ctx.Err() != nil {
			return
		}
		m.Log.Warn("cannot watch the store of the cluster, trying again", "component", "cluster", "err", err)
		if time.Since(began) > maxWatchPause {
			pause = watchPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, maxWatchPause)
	}
}

// executeCommands carries out the commands of the node.
func (m *Member) executeCommands(ctx context.Context) {
	for commands := m.node.Commands(); len(commands) > 0; commands = m.node.Commands() {
		for _, c := range commands {
			m.carryOut(ctx, c)
		}
	}
}

func (m *Member) carryOut(ctx context.Context, c protocol.Command) {
	switch c := c.(type) {
	case protocol.Write:
		m.working.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, m.Timing.Answer)
			defer cancel()
			o := m.Store.Write(ctx, c)
			m.post(func() { m.node.Wrote(m.now(), c.ID, c.Key, o) })
		})
	case protocol.Read:
		m.working.Go(func() {
			select {
			case <-time.After(c.After):
			case <-ctx.Done():
			}
			ctx, cancel := context.WithTimeout(ctx, m.Timing.Answer)
			defer cancel()
			e, err := m.Store.Read(ctx, c.Key)
			e.Key = c.Key
			m.post(func() { m.node.Got(m.now(), e, err == nil) })
		})
	case protocol.Start:
		pipeline, number := protocol.InstanceOf(c.Pipeline)
		if c.State == nil && number > 1 { // the local state may belong to the first instance
			c.State = emptyState
		}
		m.adopting[pipeline] = true
		m.working.Go(func() {
			err := m.Adopt(ctx, pipeline, c.State)
			if err == nil && m.Inherit != nil && !c.Retire {
				err = m.Inherit(ctx, c.Pipeline)
			}
			m.post(func() { m.adopted(ctx, pipeline, number, c, err) })
		})
	case protocol.Stop:
		m.stop(ctx, c)
	case protocol.Saved:
		pipeline, _ := protocol.InstanceOf(c.Pipeline)
		m.saves.end(pipeline, c.OK)
	case protocol.Notice:
		log(m.Log, c)
		m.mu.Lock()
		m.counts[c.Reason]++
		m.mu.Unlock()
		if m.Happened != nil {
			m.Happened(c)
		}
	}
}

func log(to *slog.Logger, n protocol.Notice) {
	pipeline, number := protocol.InstanceOf(n.Pipeline)
	if number > 1 {
		to = to.With("instance", number)
	}
	level := slog.LevelInfo
	if warns(n) {
		level = slog.LevelWarn
	}
	to.Log(context.Background(), level, NoticeText(n), "component", "cluster", "reason", n.Reason,
		"pipeline_id", pipeline, "member", n.Other)
}

// adopted starts the run or the clean-up of a pipeline whose state was adopted. If that failed, it releases the claim.
func (m *Member) adopted(ctx context.Context, pipeline string, number int, c protocol.Start, err error) {
	delete(m.adopting, pipeline)
	if _, ended := m.stopping[pipeline]; ended {
		return // the claim was lost meanwhile
	}
	if err != nil {
		m.Log.Error("cannot take over a pipeline", "component", "cluster", "pipeline_id", pipeline, "instance", number,
			"err", err)
		m.node.Stopped(m.now(), c.Pipeline, c.Epoch)
		return
	}
	if c.Retire {
		m.retiring.begin(ctx, m, c)
		return
	}
	m.mu.Lock()
	m.owned[pipeline] = owned{number: number, epoch: c.Epoch}
	m.mu.Unlock()
	m.Placed(pipeline)
}

// stop makes the run of a pipeline stop; finishStop notices when it has.
func (m *Member) stop(ctx context.Context, c protocol.Stop) {
	pipeline, number := protocol.InstanceOf(c.Pipeline)
	m.mu.Lock()
	if o := m.owned[pipeline]; c.Lost {
		delete(m.owned, pipeline)
	} else {
		o.number, o.stop = number, true
		m.owned[pipeline] = o
	}
	m.mu.Unlock()
	m.stopping[pipeline] = c
	m.retiring.cancel(pipeline)
	if c.Lost {
		m.Lost(pipeline)
	}
	m.Placed(pipeline)
	m.finishStop(ctx, pipeline, c)
}

// finishStops checks every pipeline that must stop.
func (m *Member) finishStops(ctx context.Context) {
	for id, c := range m.stopping {
		m.finishStop(ctx, id, c)
	}
}

// finishStop waits for a short time until a stopping pipeline is idle. The next tick tries again.
func (m *Member) finishStop(ctx context.Context, id string, c protocol.Stop) {
	if m.adopting[id] || m.asking[id] || m.retiring[id] != nil {
		return
	}
	m.asking[id] = true
	m.working.Go(func() {
		idle := soon(ctx, func() bool { return m.Idle(ctx, id) })
		m.post(func() {
			delete(m.asking, id)
			if idle && !m.adopting[id] && m.retiring[id] == nil && m.stopping[id].Epoch == c.Epoch {
				delete(m.stopping, id)
				m.mu.Lock()
				delete(m.owned, id)
				m.mu.Unlock()
				m.node.Stopped(m.now(), c.Pipeline, c.Epoch)
			}
		})
	})
}

// soon polls is for about the time between two ticks and reports whether it became true.
func soon(ctx context.Context, is func() bool) bool {
	for pause := tick / 32; ctx.Err() == nil; pause *= 2 {
		switch {
		case is():
			return true
		case pause >= tick:
			return false
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return false
}

// Declare replaces the declared pipelines of this member. It may block until Run starts, if many calls came before.
func (m *Member) Declare(ctx context.Context, d protocol.Declared) {
	m.init()
	relaxed := map[string]bool{}
	for id, w := range d.Run {
		if w.Relaxed {
			relaxed[id] = true
		}
	}
	m.mu.Lock()
	m.relaxed = relaxed
	m.mu.Unlock()
	select {
	case m.posts <- func() { m.node.Declare(m.now(), d) }:
	case <-ctx.Done():
	}
}

// Joined reports whether this agent has a session, or released it on request.
func (m *Member) Joined() bool { return m.joined.Load() }

// RunsHere reports whether this agent may run a pipeline.
func (m *Member) RunsHere(pipeline string) bool {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.owned[pipeline]
	return ok && !o.stop && !o.retire
}

// Instance returns the number of the instance of a pipeline whose claim this agent has, or 0 if it has none.
func (m *Member) Instance(pipeline string) int {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned[pipeline].number
}

// Epoch returns the epoch of this agent's claim of a pipeline; ok is false if it has none.
func (m *Member) Epoch(pipeline string) (epoch uint64, ok bool) {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.owned[pipeline]
	return o.epoch, ok
}

// Save starts to save the state of a pipeline in its claim. A pipeline has one save in flight at a time. done is called
// once, from any goroutine, when the outcome is known.
func (m *Member) Save(pipeline string, epoch uint64, state []byte, done func(ok bool)) {
	m.init()
	m.saves.begin(pipeline, m.now(), done)
	m.mu.Lock()
	id := protocol.InstanceID(pipeline, m.owned[pipeline].number)
	m.mu.Unlock()
	m.post(func() {
		m.token++
		m.node.Save(m.now(), id, epoch, state, m.token)
	})
}

// Drain moves all pipelines to other members and waits until that is done.
func (m *Member) Drain(ctx context.Context) error {
	failed := func(err error) error {
		return fmt.Errorf("cannot hand over the pipelines to other members: %w", err)
	}
	if err := m.ask(ctx, func() { m.node.Drain(m.now()) }); err != nil {
		return failed(err)
	}
	for {
		drained := make(chan bool, 1)
		if err := m.ask(ctx, func() { drained <- m.node.Drained() }); err != nil {
			return failed(err)
		}
		if <-drained {
			return nil
		}
		select {
		case <-time.After(tick / 8):
		case <-ctx.Done():
			return failed(ctx.Err())
		}
	}
}

// End announces that the agent ends, before its pipelines have. It does not block for long.
func (m *Member) End() { m.post(func() { m.node.End(m.now()) }) }

// Resume accepts pipelines again after Drain.
func (m *Member) Resume(ctx context.Context) error {
	return m.ask(ctx, func() { m.node.Resume(m.now()) })
}
