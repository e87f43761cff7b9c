package protocol

import "time"

// session is this agent's own. It is held from the first acknowledged write until SelfStop
// after the last acknowledged one was sent.
type session struct {
	register
	value    Session
	held     bool
	joined   time.Duration // when it began to be held: others may be about to join, too
	renewed  time.Duration // when the last acknowledged renewal was sent
	leaving  bool          // the agent ends: its key is made to expire at once
	probed   bool          // what is under the key is being read before it is created
	probeAt  time.Duration // when to do so again
	released bool          // the key is given up
}

// join begins a session, once nobody has one under this name.
func (n *Node) join() {
	s := &n.session
	if s.pending != nil || s.probed || s.released || n.now < s.probeAt {
		return
	}
	s.probed = true
	n.do(Read{s.key})
}

// probe takes what is under the key of the session before it is created. One that an agent of
// this name left expires by itself.
func (n *Node) probe(e Entry, other Session, ok bool) {
	s := &n.session
	s.probed = false
	switch {
	case !ok:
		s.probeAt = n.now + n.jitter(n.Timing.Retry)
	case e.Value == nil:
		if s.renewed != 0 { // others may have seen that this one has ended
			s.value.Stamp.Session = n.NewID()
		}
		s.revision = 0
		n.renew()
	case other.Stamp.Session == s.value.Stamp.Session: // the session outlived the stop
		s.revision = e.Revision
		n.renew()
	default:
		if other.Stamp != n.predecessor {
			n.predecessor = other.Stamp // a predecessor writes no more
			n.notice("", NameTaken, other.Agent)
		}
		s.probeAt = n.now + time.Second
	}
}

func (n *Node) renew() {
	s := &n.session
	s.value.Stamp.Write = n.nextWrite()
	s.send(n, encode(s.value), nil, s.value.Stamp, n.Timing.TTL)
}

// sessionDecided takes the outcome of a renewal.
func (n *Node) sessionDecided(d decision) {
	s := &n.session
	switch d {
	case won:
		s.renewed = s.sentAt
		if s.released || n.now-s.renewed >= n.Timing.SelfStop { // known too late to count
			return
		}
		if !s.held {
			s.held, s.joined = true, n.now
			n.notice("", Joined, "")
		}
	case lost, rolledBack:
		if d == rolledBack {
			n.notice("", RolledBack, "")
		}
		n.endSession(SessionLost)
		s.value.Stamp.Session = n.NewID()
	}
}

// endSession takes that this agent has no session any more: its strict pipelines may be taken
// by others.
func (n *Node) endSession(reason Reason) {
	s := &n.session
	if !s.held {
		return
	}
	s.held = false
	n.notice("", reason, "")
	for _, id := range sorted(n.claims) {
		if c := n.claims[id]; !c.wanted.Relaxed {
			c.lose(n)
		}
	}
}

func (n *Node) tickSession() {
	s := &n.session
	s.tick(n)
	switch {
	case s.pending != nil || s.released || !n.synced:
	case s.leaving:
		n.leave()
	case !s.held:
		n.join()
	case n.now-s.sentAt >= n.Timing.Renew:
		n.renew()
	}
}

// leave gives the session up once no pipeline is left. Until then it says that others may take
// them.
func (n *Node) leave() {
	s := &n.session
	switch {
	case !s.held:
		s.released = len(n.claims) == 0
	case len(n.claims) == 0:
		s.value.Stamp.Write = n.nextWrite()
		s.send(n, encode(s.value), nil, s.value.Stamp, time.Second)
		s.released, s.held = true, false
	case !s.value.Draining:
		s.value.Draining = true
		n.renew()
	case n.now-s.sentAt >= n.Timing.Renew:
		n.renew()
	}
}
