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

// join begins a session, once there is none under this name.
func (s *session) join(n *Node) {
	if s.pending != nil || s.probed || s.released || n.now < s.probeAt {
		return
	}
	s.probed = true
	n.out.add(Read{Key: s.key})
}

// probe takes what is under the key of the session before it is created. One that an agent of
// this name left expires by itself.
func (s *session) probe(n *Node, e Entry, other Session, ok bool) {
	s.probed = false
	switch {
	case !ok:
		n.predecessor = Stamp{} // it may have been renewed and not be seen
		s.probeAt = n.now + jitter(n.Rand, n.Timing.Retry)
	case e.Value == nil:
		s.begin(n, 0)
	case other.Stamp.Session == s.value.Stamp.Session: // the session outlived the stop
		s.revision = e.Revision
		s.renew(n)
	case other.Stamp == n.predecessor && n.now-max(n.precededAt, n.outage.last) >= 2*n.Timing.TTL: // the store keeps it, as in peer.kept
		s.begin(n, e.Revision)
	default:
		if other.Stamp != n.predecessor {
			n.predecessor, n.precededAt = other.Stamp, n.now // a predecessor writes no more
			n.notice("", NameTaken, other.Agent)
		}
		s.probeAt = n.now + time.Second
	}
}

// begin writes the session over a revision of its key.
func (s *session) begin(n *Node, revision uint64) {
	if s.renewed != 0 { // others may have seen that this one has ended
		s.value.Stamp.Session = n.NewID()
	}
	s.revision = revision
	s.renew(n)
}

func (s *session) renew(n *Node) {
	s.value.Stamp.Write = n.writes.next()
	s.send(n, encode(s.value), nil, s.value.Stamp, n.Timing.TTL)
}

// decided takes the outcome of a renewal.
func (s *session) decided(n *Node, d decision) {
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
		s.end(n, SessionLost)
		s.value.Stamp.Session = n.NewID()
	}
}

// end takes that this agent has no session any more: its strict pipelines may be taken
// by others.
func (s *session) end(n *Node, reason Reason) {
	if !s.held {
		return
	}
	s.held = false
	n.notice("", reason, "")
	s.loseClaims(n)
}

// loseClaims ends the runs that need a session.
func (s *session) loseClaims(n *Node) {
	for _, id := range sorted(n.claims) {
		switch c := n.claims[id]; {
		case !c.wanted.Relaxed || n.ending:
			c.lose(n)
		case c.phase == owning:
			n.notice(id, Disconnected, "")
		}
	}
}

func (s *session) step(n *Node) {
	s.tick(n)
	switch {
	case s.pending != nil || s.released || !n.synced:
	case s.leaving:
		s.leave(n)
	case !s.held:
		s.join(n)
	case n.now-s.sentAt >= n.Timing.Renew:
		s.renew(n)
	}
}

// leave gives the session up once no pipeline is left. Until then it says that others may take
// them.
func (s *session) leave(n *Node) {
	switch {
	case !s.held:
		s.released = len(n.claims) == 0
	case len(n.claims) == 0:
		s.value.Stamp.Write = n.writes.next()
		s.send(n, encode(s.value), nil, s.value.Stamp, time.Second)
		s.released, s.held = true, false
	case !s.value.Draining:
		s.value.Draining = true
		s.renew(n)
	case n.now-s.sentAt >= n.Timing.Renew:
		s.renew(n)
	}
}
