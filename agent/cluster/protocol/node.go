package protocol

import (
	"math/rand/v2"
	"strings"
	"time"
)

// Node is the state machine of an agent. Its methods receive events with their times on a monotonic clock of any
// origin; Commands returns the resulting commands. Only one goroutine at a time may use a Node.
type Node struct {
	Agent  Session // Agent, Version, Labels, Capacity and Started of this agent
	Timing Timing
	Rand   *rand.Rand
	NewID  func() string    // returns a random session id
	Clock  func() time.Time // wall clock, informational
	Empty  []byte           // state of a pipeline that starts from the beginning

	now         time.Duration
	out         commands
	lastID      uint64
	writes      writeIDs
	session     session
	synced      bool // the whole store was seen once
	outage      outage
	predecessor Stamp         // latest other session under this agent's name
	precededAt  time.Duration // when it was first seen
	ending      bool          // no pipeline keeps running without a session
	watched
	retiring
	orphans   orphans
	claims    map[string]*claim
	wanted    map[string]instance      // by claim id
	ids       []string                 // sorted keys of wanted
	wantedAt  map[string]time.Duration // since when an id is wanted
	claimAt   time.Duration            // token bucket: each claim uses Timing.Claims of the time since then
	balanceAt time.Duration            // when the next pipeline may be handed over
	handedAt  map[string]time.Duration // when a pipeline was last handed over
	noticed   map[string]Notice
}

// Init prepares a new node. It joins after Synced.
func (n *Node) Init(now time.Duration) {
	n.now, n.outage.last, n.outage.applied = now, now, now
	n.peers, n.entries, n.claims = map[string]*peer{}, map[string]seen{}, map[string]*claim{}
	n.handedAt, n.orphans.since = map[string]time.Duration{}, map[string]time.Duration{}
	n.marked, n.done, n.more = map[string]bool{}, map[string]bool{}, map[string]bool{}
	n.wanted, n.wantedAt, n.noticed = map[string]instance{}, map[string]time.Duration{}, map[string]Notice{}
	n.session.key = SessionKey(n.Agent.Agent)
	n.session.value = n.Agent
	n.session.value.Format = format
	n.session.value.Stamp.Session = n.NewID()
}

// Commands returns the pending commands, in order, and clears them.
func (n *Node) Commands() []Command {
	out := n.out
	n.out = nil
	return out
}

// commands is a list of pending commands, in order.
type commands []Command

func (all *commands) add(c Command) { *all = append(*all, c) }

// writeIDs numbers the writes of this agent.
type writeIDs uint64

func (last *writeIDs) next() uint64 { *last++; return uint64(*last) }

// advance sets the current time. It ends the session when that has expired.
func (n *Node) advance(now time.Duration) {
	if now-n.now >= 2*n.Timing.Renew { // it was paused, and may have missed an outage
		n.outage.last = now
	}
	n.now = now
	if n.session.held && now-n.session.renewed >= n.Timing.SelfStop {
		n.session.end(n, SelfStopped)
	}
}

// outage tracks the times in which the store accepted no writes, so that no session could be renewed.
//
// After a long outage all members wait for the full TTL of a session before any take-over: owners have stopped
// themselves, and resume their own pipelines. After a brief outage, such as a single request without an answer or the
// election of a leader, they wait as long as a live owner needs to renew, and for the rest of the owner's TTL.
//
// The brief wait is equally safe. Whatever the store did, a take-over waits until this agent has seen no renewal of the
// owner for TTL by its own clock, and then reads the key of the session. The owner stops itself SelfStop, which is less
// than TTL, after it sent the last renewal that was applied. The claim changes only by compare-and-swap. The wait after
// an outage only protects live owners: their pipelines should not move.
type outage struct {
	on      bool          // a request got no answer, and no write was applied since
	last    time.Duration // end of the last long outage
	brief   time.Duration // end of the last brief outage
	applied time.Duration // first send time of the last applied write: the next outage began no earlier
}

// wrote records the result of a write that was first sent at sent, or Unknown for a read without an answer. A
// successful read does not end an outage: a leader without a quorum still answers reads.
func (o *outage) wrote(n *Node, sent time.Duration, r Result) {
	switch r {
	case Unknown:
		o.on = true
	case Applied:
		if o.on && n.now-o.applied < n.Timing.brief() {
			o.brief = n.now
		} else if o.on {
			o.last = n.now
		}
		o.on, o.applied = false, max(o.applied, sent)
	}
}

// silent reports whether a session that last changed at since must have ended, given the time that has passed since
// then and since the last outage.
func (o *outage) silent(n *Node, since time.Duration) bool {
	return !o.on && n.now-max(since, o.last, n.session.joined) >= n.Timing.TTL && n.now-o.brief >= n.Timing.settle()
}

// notice emits a notice, unless it equals the last one about the same pipeline.
func (n *Node) notice(pipeline string, r Reason, other string) {
	notice := Notice{pipeline, r, other}
	if n.noticed[pipeline] != notice {
		n.noticed[pipeline] = notice
		n.out.add(notice)
	}
}

// jitter returns a random duration between 0.5 d and 1.5 d.
func jitter(r *rand.Rand, d time.Duration) time.Duration {
	return d/2 + time.Duration(r.Int64N(int64(d)))
}

// Declare replaces the declarations.
func (n *Node) Declare(now time.Duration, d Declared) {
	n.advance(now)
	n.known(d)
	before, wanted := n.wanted, instancesOf(d.Run)
	n.wanted, n.ids = wanted, sorted(wanted)
	for id := range n.wantedAt {
		if _, ok := wanted[id]; !ok {
			delete(n.wantedAt, id)
			delete(n.handedAt, id)
		}
	}
	for id, w := range wanted {
		if _, ok := n.wantedAt[id]; !ok || w.Digest != before[id].Digest {
			n.wantedAt[id] = now
		}
	}
	for id, c := range n.claims {
		if w, ok := wanted[id]; ok && !c.retire {
			c.wanted = w
		}
	}
	for id := range n.entries {
		n.orphans.observe(n, id)
	}
	n.tick()
}

// Synced reports that Observe has seen the whole store.
func (n *Node) Synced(now time.Duration) {
	n.advance(now)
	n.synced = true
	n.tick()
}

// Observe handles an entry of the store from a watch, which may lag.
func (n *Node) Observe(now time.Duration, e Entry) {
	n.advance(now)
	switch {
	case strings.HasPrefix(e.Key, SessionPrefix):
		n.observePeer(n.now, n.Agent.Agent, e)
	case strings.HasPrefix(e.Key, ClaimPrefix):
		if c, ok := decode[Claim](e.Value); ok {
			n.observedClaim(n, e, c)
			if c.Owner == "" {
				takeFreed(n, pipelineOfKey(e.Key))
			}
		}
	}
}

// observedClaim handles a claim, the value of an entry, and remembers claims with a deletion in progress.
func (r *retiring) observedClaim(n *Node, e Entry, c Claim) {
	n.observeClaim(n.now, e.Revision, c)
	id := pipelineOfKey(e.Key)
	if _, number := InstanceOf(id); number > 1 {
		r.more[id] = true
	}
	if s := n.entries[id]; s.Withdrawn != "" || s.Deleted {
		r.marked[id] = true
	} else {
		delete(r.marked, id)
	}
	n.orphans.observe(n, id)
}

// Wrote handles the outcome of a Write.
func (n *Node) Wrote(now time.Duration, id uint64, key string, o Outcome) {
	n.advance(now)
	switch c := n.claims[pipelineOfKey(key)]; {
	case key == n.session.key:
		n.outage.wrote(n, n.session.sent(id), o.Result)
		n.session.decided(n, n.session.wrote(n, id, o))
	case c != nil:
		n.outage.wrote(n, c.sent(id), o.Result)
		c.decided(n, c.wrote(n, id, o))
	default:
		n.outage.wrote(n, 0, o.Result)
	}
	if n.session.leaving && len(n.claims) == 0 {
		n.session.step(n) // the session may have waited for this write to leave
	}
}

// Got handles the answer to a Read: e.Value is nil if the key does not exist; ok is false if there was no answer.
func (n *Node) Got(now time.Duration, e Entry, ok bool) {
	n.advance(now)
	if !ok {
		n.outage.wrote(n, 0, Unknown)
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
		n.gotPeer(n, e, ok)
		n.tick() // a peer's pipelines may now be free
	default:
		c, there := decode[Claim](e.Value)
		if ok && there {
			n.observedClaim(n, e, c)
		}
		switch own := n.claims[pipelineOfKey(e.Key)]; {
		case own == nil:
		case own.phase == fetching && own.edit != nil:
			own.edit.fetched(n, own, e, ok)
		case own.phase == fetching:
			own.fetched(n, e, ok)
		default:
			own.decided(n, own.read(n, e, c.Stamp, ok))
		}
	}
}

// Save requests that state is written to the claim of a pipeline, for the run that was started with this epoch. Tokens
// must increase.
func (n *Node) Save(now time.Duration, pipeline string, epoch uint64, state []byte, token uint64) {
	n.advance(now)
	if c := n.claims[pipeline]; c != nil && c.value.Epoch == epoch {
		c.save(n, state, token)
	} else {
		n.out.add(Saved{pipeline, epoch, token, false})
	}
}

// Stopped reports that the run of a pipeline that was started with this epoch has ended.
func (n *Node) Stopped(now time.Duration, pipeline string, epoch uint64) {
	n.advance(now)
	if c := n.claims[pipeline]; c != nil && c.value.Epoch == epoch {
		c.stopped(n)
	}
}

// Retired reports that the clean-up of a pipeline that was started with this epoch is complete. The node deletes the
// claim, unless the pipeline was declared again meanwhile.
func (n *Node) Retired(now time.Duration, pipeline string, epoch uint64) {
	n.advance(now)
	if c := n.claims[pipeline]; c != nil && c.value.Epoch == epoch {
		c.retired = c.phase == owning
		c.stopped(n)
	}
}

// Drain releases all pipelines and stops claiming. Drained reports when that is complete.
func (n *Node) Drain(now time.Duration) {
	n.advance(now)
	n.session.leaving = true
	n.tick()
}

// End announces the end of the agent. A relaxed pipeline whose checkpoints cannot be saved is lost, because its
// graceful stop would never end.
func (n *Node) End(now time.Duration) {
	n.advance(now)
	n.ending = true
	if !n.session.held {
		n.session.loseClaims(n)
	}
}

// Resume claims pipelines again after Drain.
func (n *Node) Resume(now time.Duration) {
	n.advance(now)
	n.session.leaving, n.session.value.Draining, n.session.released = false, false, false
	n.tick()
}

// Drained reports whether, after Drain, no pipeline is left and the session is released.
func (n *Node) Drained() bool { return n.session.released && n.session.pending == nil }

// Tick advances the time and does all work that is due. Call it at least four times a second.
func (n *Node) Tick(now time.Duration) {
	n.advance(now)
	n.tick()
}
