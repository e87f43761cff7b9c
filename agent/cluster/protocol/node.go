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
	Empty  []byte           // state of a pipeline that begins anew

	now         time.Duration
	out         commands
	lastID      uint64
	writes      writeIDs
	session     session
	synced      bool // all of the store was seen once
	outage      outage
	predecessor Stamp         // of the session that was under the name of this agent last
	precededAt  time.Duration // when it was seen first
	ending      bool          // no pipeline goes on without a session
	watched
	retiring
	orphans   orphans
	claims    map[string]*claim
	wanted    map[string]instance      // by the id of its claim
	ids       []string                 // sorted, of wanted
	wantedAt  map[string]time.Duration // since when
	claimAt   time.Duration            // token bucket: a claim takes Timing.Claims of the time since then
	balanceAt time.Duration            // when one may be handed over again
	handedAt  map[string]time.Duration // when a pipeline was handed over last
	noticed   map[string]Notice
}

// Init makes a new node ready. It joins once Synced.
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
	if now-n.now >= 2*n.Timing.Renew { // it was paused, and may have slept through an outage
		n.outage.last = now
	}
	n.now = now
	if n.session.held && now-n.session.renewed >= n.Timing.SelfStop {
		n.session.end(n, SelfStopped)
	}
}

// outage is what this agent knows of times in which the store took no writes, so that no session could be renewed.
//
// After a long one all wait for the whole time of a session before any take-over: owners have stopped themselves, and go on where they
// are. After a brief one, such as a single request that got no answer, or the election of a leader, they wait for as long as an owner
// that lives needs to renew, and for what is left of the time of its session. That is as safe. Whatever the store did, a take-over
// waits until this agent has seen no renewal of the owner for TTL by its own clock, and then has the key of the session read; the
// owner stops itself SelfStop, which is less, after it sent the last renewal that was applied; and the claim changes by
// compare-and-swap only. An outage adds to that wait for the sake of owners that live: what they run is not to move.
type outage struct {
	on      bool          // a request got no answer, and no write was applied since
	last    time.Duration // when the last long one ended
	brief   time.Duration // when the last brief one did
	applied time.Duration // when that write was sent first which was applied last: the next outage did not begin before
}

// wrote takes the result of a write that was first sent at a time, or Unknown for a read without an answer. An answer to a read
// does not end an outage: a leader without a quorum reads on.
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

// silent reports whether so much time went by, also since the last outage, that a session that was last seen to change then must
// have ended.
func (o *outage) silent(n *Node, since time.Duration) bool {
	return !o.on && n.now-max(since, o.last, n.session.joined) >= n.Timing.TTL && n.now-o.brief >= n.Timing.settle()
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

// Declare takes what is declared.
func (n *Node) Declare(now time.Duration, d Declared) {
	n.advance(now)
	n.known(d)
	before, wanted := n.wanted, instancesOf(d.Wanted)
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

// Synced takes that everything that was in the store was observed.
func (n *Node) Synced(now time.Duration) {
	n.advance(now)
	n.synced = true
	n.tick()
}

// Observe takes an entry of the store as a watch shows it, which may be late.
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

// observedClaim takes a claim, the value of an entry, and remembers those that are being deleted.
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

// Wrote takes the outcome of a Write.
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
		n.session.step(n) // who waits for this agent to have left waits no longer
	}
}

// Got takes the answer to a Read: e.Value is nil when there is no such key; ok is false when
// there was no answer.
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
		n.tick() // whose pipelines may be to take over
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

// Retired takes that nothing is left of a pipeline that was started with this epoch to be cleaned up after. Its
// claim is deleted, unless the pipeline was declared again meanwhile.
func (n *Node) Retired(now time.Duration, pipeline string, epoch uint64) {
	n.advance(now)
	if c := n.claims[pipeline]; c != nil && c.value.Epoch == epoch {
		c.retired = c.phase == owning
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
