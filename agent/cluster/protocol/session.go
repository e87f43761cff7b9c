package protocol

import "time"

// session is this agent's own session. It is held from the first acknowledged write until SelfStop after the last
// acknowledged write was sent.
type session struct {
	register
	value    Session
	held     bool
	joined   time.Duration // when it was first held: other members may be about to join, too
	renewed  time.Duration // when the last acknowledged renewal was sent
	leaving  bool          // the agent ends: the key expires at once
	probed   bool          // the present entry of the key is being read before the key is created
	probeAt  time.Duration // when to read it again
	released bool          // the key is released
}

// join begins a session, once no other session has this agent's name.
func (s *session) join(n *Node) {
	if s.pending != nil || s.probed || s.released || n.now < s.probeAt {
		return
	}
	s.probed = true
	n.out.add(Read{Key: s.key})
}

// probe handles the present entry of the session key before the key is created. A session left by an earlier agent of
// this name expires by itself.
func (s *session) probe(n *Node, e Entry, other Session, ok bool) {
	s.probed = false
	switch {
	case !ok:
		n.predecessor = Stamp{} // it may have been renewed unnoticed
		s.probeAt = n.now + jitter(n.Rand, n.Timing.Retry)
	case e.Value == nil:
		s.begin(n, 0)
	case other.Stamp.Session == s.value.Stamp.Session: // this session still exists after a stop
		s.revision = e.Revision
		s.renew(n)
	// The store keeps an expired key, as in peer.kept.
	case other.Stamp == n.predecessor && n.now-max(n.precededAt, n.outage.last) >= 2*n.Timing.TTL:
		s.begin(n, e.Revision)
	default:
		if other.Stamp != n.predecessor {
			n.predecessor, n.precededAt = other.Stamp, n.now // an earlier process does not write any more
			n.notice("", NameTaken, other.Agent)
		}
		s.probeAt = n.now + time.Second
	}
}

// begin writes the session on top of revision.
func (s *session) begin(n *Node, revision uint64) {
	if s.renewed != 0 { // others may have seen the end of the previous session
		s.value.Stamp.Session = n.NewID()
	}
	s.revision = revision
	s.renew(n)
}

func (s *session) renew(n *Node) {
	s.value.Stamp.Write = n.writes.next()
	s.send(n, encode(s.value), nil, s.value.Stamp, n.Timing.TTL)
}

// decided handles the outcome of a renewal.
func (s *session) decided(n *Node, d decision) {
	switch d {
	case won:
		s.renewed = s.sentAt
		if s.released || n.now-s.renewed >= n.Timing.SelfStop { // known too late
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

// end handles the loss of the session: other agents may take its strict pipelines.
func (s *session) end(n *Node, reason Reason) {
	if !s.held {
		return
	}
	s.held = false
	n.notice("", reason, "")
	s.loseClaims(n)
}

// loseClaims stops the runs that require a session.
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

// leave releases the session once no pipeline is left. Until then it announces that others may take the pipelines.
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
