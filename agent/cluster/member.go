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

// Store is what all agents share: keys that change by compare-and-swap.
type Store interface {
	// Write performs a compare-and-swap. It returns when the store answered or ctx ended, then
	// with protocol.Unknown.
	Write(ctx context.Context, w protocol.Write) protocol.Outcome
	// Read returns the present entry of a key; one without Value when there is none.
	Read(ctx context.Context, key string) (protocol.Entry, error)
	// Watch calls observe for the entry of every key, without its state, then synced, and then
	// observe for the latest entry of each key that changes, until ctx ends or an error. A store of
	// several replicas may show an entry that was replaced before it shows the one that replaced it.
	Watch(ctx context.Context, observe func(protocol.Entry), synced func()) error
}

const (
	tick          = 250 * time.Millisecond
	writeTimeout  = 2 * time.Second
	retryPause    = 100 * time.Millisecond
	watchPause    = time.Second // at least, before a watch that broke is begun again; grows to maxWatchPause
	maxWatchPause = 30 * time.Second
)

// Noter keeps what the store has under some keys.
type Noter interface {
	// Note takes an entry as a watch shows it, without its state. It reports whether that is one of those. It must not block.
	Note(e protocol.Entry) bool
}

// Member is this agent's part in a cluster. Set the exported fields, then call Run.
type Member struct {
	Store Store
	Self  protocol.Session // Agent, Version, Labels and Capacity
	Log   *slog.Logger
	// Adopt takes over the state of a pipeline that this agent now owns, before it runs; nil when
	// none was ever saved.
	Adopt func(ctx context.Context, pipeline string, state []byte) error
	// Inherit, when set, is called after Adopt with the id of the claim, of a pipeline that is to run.
	Inherit func(ctx context.Context, id string) error
	// Retire gives up what the connectors of a pipeline hold, which was deleted from the cluster and whose state was
	// adopted. It returns once that is done, or ctx ended.
	Retire func(ctx context.Context, pipeline string) error
	// Placed is called when a pipeline begins or ceases to be this agent's to run. It must not
	// block.
	Placed func(pipeline string)
	// Lost is called when a pipeline must end at once, because another agent may run it. It
	// must not block.
	Lost func(pipeline string)
	// Idle reports whether nothing of a pipeline runs that is not this agent's any more. It is
	// asked after Placed.
	Idle func(ctx context.Context, pipeline string) bool
	// Happened is called with what people want to know of. It must not block.
	Happened func(protocol.Notice)
	// Asked, when set, is called when another member was asked to run or stop a pipeline. It must
	// not block.
	Asked func()
	// Deleted, when set, is called for a pipeline whose claim and positions were deleted. It must not
	// block.
	Deleted func(pipeline string)
	// Dropped, when set, is called with the id of a claim that was deleted, the revision at which it was, and for how long
	// that is remembered.
	Dropped func(ctx context.Context, id string, revision uint64, ttl time.Duration)
	// Notes are shown what the store has beside sessions and claims.
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
	owners    map[string]protocol.Claim  // guarded by mu: as they were seen last, by the id of the claim
	instances map[string]int             // guarded by mu: the greatest number of one that was seen, by pipeline
	counts    map[protocol.Reason]uint64 // guarded by mu: notices

	relaxed map[string]bool // guarded by mu: as declared last

	saves     saves
	heldUntil atomic.Int64 // when the session ends by m.now, unless it is renewed

	// Owned by Run.
	node     protocol.Node
	adopting map[string]bool          // pipelines whose state is being taken over
	asking   map[string]bool          // pipelines of which it is being asked whether they run
	stopping map[string]protocol.Stop // pipelines that are to end
	retiring retirements
	token    uint64
	working  sync.WaitGroup
}

// owned is a pipeline of which this agent has a claim. It has no two of one pipeline.
type owned struct {
	number int // of the instance
	epoch  uint64
	stop   bool // it is to end
	retire bool // it does not run: it is cleaned up after
}

func (m *Member) init() {
	m.once.Do(func() {
		m.posts = make(chan func(), 1024)
		m.owned, m.stopping, m.adopting, m.asking = map[string]owned{}, map[string]protocol.Stop{}, map[string]bool{}, map[string]bool{}
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

// now is monotonic.
func (m *Member) now() time.Duration { return time.Since(m.begun) }

// post has f run by Run.
func (m *Member) post(f func()) {
	m.init()
	m.posts <- f
}

// Run takes part until ctx ends. To leave in order call Drain before.
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
		m.obey(ctx)
	}
}

// abandon ends what waits.
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

// watch feeds the node with what the store shows.
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
		m.Log.Warn("the cluster's store is not watched, trying again", "component", "cluster", "err", err)
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

// obey carries out what the node wants.
func (m *Member) obey(ctx context.Context) {
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
		if c.State == nil && number > 1 { // what this agent has may be of the first
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

// log logs a notice.
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

// adopted has a pipeline run or be cleaned up after, or gives it up when its state cannot be taken over.
func (m *Member) adopted(ctx context.Context, pipeline string, number int, c protocol.Start, err error) {
	delete(m.adopting, pipeline)
	if _, ended := m.stopping[pipeline]; ended {
		return // it was lost meanwhile
	}
	if err != nil {
		m.Log.Error("cannot take over a pipeline", "component", "cluster", "pipeline_id", pipeline, "instance", number, "err", err)
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

// stop has the run of a pipeline end; finishStop notices that it has.
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

// finishStops waits for all that is to end.
func (m *Member) finishStops(ctx context.Context) {
	for id, c := range m.stopping {
		m.finishStop(ctx, id, c)
	}
}

// finishStop waits for a pipeline that is to end, for a while: the next tick goes on.
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

// soon waits for about the time between two ticks until something is so, and reports whether it is.
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

// Declare takes what is declared. It waits for Run to begin when many were declared before.
func (m *Member) Declare(ctx context.Context, d protocol.Declared) {
	m.init()
	relaxed := map[string]bool{}
	for id, w := range d.Wanted {
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

// Joined reports whether this agent has a session, or gave it up because it was asked to.
func (m *Member) Joined() bool { return m.joined.Load() }

// Here reports whether a pipeline is this agent's to run.
func (m *Member) Here(pipeline string) bool {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.owned[pipeline]
	return ok && !o.stop && !o.retire
}

// Instance returns which instance of a pipeline this agent has the claim of; 0 when it has none.
func (m *Member) Instance(pipeline string) int {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned[pipeline].number
}

// Epoch returns that of this agent's claim of a pipeline; ok is false when it has none.
func (m *Member) Epoch(pipeline string) (epoch uint64, ok bool) {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.owned[pipeline]
	return o.epoch, ok
}

// Save has the state of a pipeline saved under its claim. There is one save of a pipeline at a
// time; done is called once, from any goroutine, when it is known whether it was.
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

// Drain gives all pipelines to other members and waits until that is done.
func (m *Member) Drain(ctx context.Context) error {
	failed := func(err error) error {
		return fmt.Errorf("cannot give the pipelines to other members: %w", err)
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

// End takes that the agent ends, before its pipelines have. It does not block for long.
func (m *Member) End() { m.post(func() { m.node.End(m.now()) }) }

// Resume takes pipelines again after Drain.
func (m *Member) Resume(ctx context.Context) error {
	return m.ask(ctx, func() { m.node.Resume(m.now()) })
}
