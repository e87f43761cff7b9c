package protocol

import (
	"math/rand/v2"
	"strings"
	"time"
)

// Node is one agent's part. Its methods take what happened, and when, by a monotonic clock that
// begins anywhere; Commands returns what to do about it. It is for one goroutine.
type Node struct {
	Agent  Session // Agent, Version, Labels, Capacity and Started of this agent
	Timing Timing
	Rand   *rand.Rand
	NewID  func() string    // random, for a session
	Clock  func() time.Time // for people

	now         time.Duration
	out         commands
	lastID      uint64
	writes      writeIDs
	session     session
	synced      bool // all of the store was seen once
	syncedAt    time.Duration
	unanswered  time.Duration // when a write got no answer last
	predecessor Stamp
	ending      bool // no pipeline goes on without a session
	watched
	claims    map[string]*claim
	wanted    map[string]Wanted
	ids       []string                 // sorted, of wanted
	wantedAt  map[string]time.Duration // since when, by pipeline
	claimAt   time.Duration            // when a pipeline was claimed last
	balanceAt time.Duration            // when one may be handed over again
	noticed   map[string]Notice
}

// Init makes a new node ready. It joins once Synced.
func (n *Node) Init(now time.Duration) {
	n.now, n.unanswered = now, now
	n.peers, n.entries, n.claims = map[string]*peer{}, map[string]seen{}, map[string]*claim{}
	n.wanted, n.wantedAt, n.noticed = map[string]Wanted{}, map[string]time.Duration{}, map[string]Notice{}
	n.session.key = SessionKey(n.Agent.Agent)
	n.session.value = n.Agent
	n.session.value.Format = format
	n.session.value.Stamp.Session = n.NewID()
}

// Commands returns what is to be done, in order, and forgets it.
func (n *Node) Commands() []Command {
	out := n.out
	n.out = nil
	return out
}

// commands are what is to be done, in order.
type commands []Command

func (all *commands) add(c Command) { *all = append(*all, c) }

// writeIDs counts the writes of this agent: each has a number of its own.
type writeIDs uint64

func (last *writeIDs) next() uint64 { *last++; return uint64(*last) }

// advance takes what time it is. Whatever else happened: a session that is over is over.
func (n *Node) advance(now time.Duration) {
	n.now = now
	if n.session.held && now-n.session.renewed >= n.Timing.SelfStop {
		n.session.end(n, SelfStopped)
	}
}

// notice says something once, until something else is to be said of the same pipeline.
func (n *Node) notice(pipeline string, r Reason, other string) {
	notice := Notice{pipeline, r, other}
	if n.noticed[pipeline] != notice {
		n.noticed[pipeline] = notice
		n.out.add(notice)
	}
}

// jitter returns from half of d to one and a half.
func jitter(r *rand.Rand, d time.Duration) time.Duration {
	return d/2 + time.Duration(r.Int64N(int64(d)))
}

// Declare takes which pipelines this agent would run.
func (n *Node) Declare(now time.Duration, wanted map[string]Wanted) {
	n.advance(now)
	n.wanted, n.ids = wanted, sorted(wanted)
	for id := range n.wantedAt {
		if _, ok := wanted[id]; !ok {
			delete(n.wantedAt, id)
		}
	}
	for id := range wanted {
		if _, ok := n.wantedAt[id]; !ok {
			n.wantedAt[id] = now
		}
	}
	for id, c := range n.claims {
		if w, ok := wanted[id]; ok {
			c.wanted = w
		}
	}
	n.tick()
}

// Synced takes that everything that was in the store was observed.
func (n *Node) Synced(now time.Duration) {
	n.advance(now)
	if !n.synced {
		n.synced, n.syncedAt = true, now
	}
	n.tick()
}

// Observe takes an entry of the store as a watch shows it, which may be late.
func (n *Node) Observe(now time.Duration, e Entry) {
	n.advance(now)
	switch {
	case strings.HasPrefix(e.Key, SessionPrefix):
		n.observePeer(n.now, n.Agent.Agent, e)
	case strings.HasPrefix(e.Key, ClaimPrefix):
		n.observeClaim(n.now, e)
	}
}

// Wrote takes the outcome of a Write.
func (n *Node) Wrote(now time.Duration, id uint64, key string, o Outcome) {
	n.advance(now)
	switch {
	case key == n.session.key:
		n.session.decided(n, n.session.wrote(n, id, o))
	default:
		if c := n.claimOf(key); c != nil {
			c.decided(n, c.wrote(n, id, o))
		}
	}
}

// Got takes the answer to a Read: e.Value is nil when there is no such key; ok is false when
// there was no answer.
func (n *Node) Got(now time.Duration, e Entry, ok bool) {
	n.advance(now)
	if !ok {
		n.unanswered = now
	}
	switch {
	case e.Key == n.session.key:
		s, _ := decode[Session](e.Value)
		if n.session.probed {
			n.session.probe(n, e, s, ok)
		} else {
			n.session.decided(n, n.session.read(n, e, s.Stamp, ok))
		}
	case strings.HasPrefix(e.Key, SessionPrefix):
		n.gotPeer(e, ok)
	default:
		c, _ := decode[Claim](e.Value)
		if ok && e.Value != nil {
			n.observeClaim(n.now, e)
		}
		switch own := n.claimOf(e.Key); {
		case own == nil:
		case own.phase == fetching:
			own.fetched(n, e, ok)
		default:
			own.decided(n, own.read(n, e, c.Stamp, ok))
		}
	}
}

func (n *Node) gotPeer(e Entry, ok bool) {
	for _, p := range n.peers {
		if SessionKey(p.Agent) != e.Key {
			continue
		}
		p.asked = false
		switch {
		case !ok:
		case e.Value == nil:
			p.gone = n.silent(p.changed)
		case e.Revision > p.revision:
			n.observePeer(n.now, n.Agent.Agent, e)
		default:
			p.changed = n.now - n.Timing.TTL + time.Second // it expires late: ask again soon
		}
		return
	}
}

// silent reports whether so much time went by, without writes of this agent's own that got no answer, that a
// session that was last seen to change then must have ended.
func (n *Node) silent(since time.Duration) bool {
	return n.now-max(since, n.unanswered, n.syncedAt) >= n.Timing.TTL
}

func (n *Node) claimOf(key string) *claim {
	return n.claims[pipelineOfKey(key)]
}

// Save has state written to the claim of a pipeline, for the run that was started with this
// epoch. Tokens count up.
func (n *Node) Save(now time.Duration, pipeline string, epoch uint64, state []byte, token uint64) {
	n.advance(now)
	if c := n.claims[pipeline]; c != nil && c.value.Epoch == epoch {
		c.save(n, state, token)
	} else {
		n.out.add(Saved{pipeline, epoch, token, false})
	}
}

// Stopped takes that the run of a pipeline that was started with this epoch has ended.
func (n *Node) Stopped(now time.Duration, pipeline string, epoch uint64) {
	n.advance(now)
	if c := n.claims[pipeline]; c != nil && c.value.Epoch == epoch {
		c.stopped(n)
	}
}

// Drain gives all pipelines away and takes no more. Drained then reports that it is done.
func (n *Node) Drain(now time.Duration) {
	n.advance(now)
	n.session.leaving = true
	n.tick()
}

// End takes that the agent ends: a relaxed pipeline whose checkpoints cannot be saved is lost, for it
// would never end in order.
func (n *Node) End(now time.Duration) {
	n.advance(now)
	n.ending = true
	if !n.session.held {
		n.session.loseClaims(n)
	}
}

// Resume takes pipelines again after Drain.
func (n *Node) Resume(now time.Duration) {
	n.advance(now)
	n.session.leaving, n.session.value.Draining, n.session.released = false, false, false
	n.tick()
}

// Drained reports whether no pipeline is left after Drain, and the session is given up.
func (n *Node) Drained() bool { return n.session.released && n.session.pending == nil }

// Tick takes that time went by, and does what is due. It is to be called four times a second or
// more.
func (n *Node) Tick(now time.Duration) {
	n.advance(now)
	n.tick()
}
