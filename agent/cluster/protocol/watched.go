package protocol

import (
	"cmp"
	"time"
)

// watched is the latest content of the store, as shown by the watch.
type watched struct {
	peers   map[string]*peer // by agent
	entries map[string]seen  // claims, by pipeline
}

// seen is a claim in the store.
type seen struct {
	Claim
	revision uint64
	known    bool          // in a format that this version understands
	since    time.Duration // when the revision was first seen
	changed  time.Duration // when owner or digest last changed
	retired  time.Duration // when the clean-up or deletion of the pipeline was first seen; 0 if there is none
}

// peer is the latest session of another agent.
type peer struct {
	Session
	revision uint64
	began    time.Duration // when this session was first seen
	changed  time.Duration // when it was last seen to change
	gone     bool          // unchanged for TTL and its key is missing, or unchanged for twice TTL
	asked    bool          // its key is being read
	outlived time.Duration // when its key was first found to exist after TTL without a change; 0 before
}

// observePeer handles a session other than this agent's own.
func (w *watched) observePeer(now time.Duration, self string, e Entry) {
	s, ok := decode[Session](e.Value)
	if !ok || s.Agent == self {
		return
	}
	p := w.peers[s.Agent]
	if p == nil {
		p = &peer{}
		w.peers[s.Agent] = p
	}
	if e.Revision <= p.revision {
		return
	}
	began := p.began
	if s.Stamp.Session != p.Stamp.Session {
		began = now
	}
	*p = peer{Session: s, revision: e.Revision, began: began, changed: now}
}

// gotPeer handles the read of the session key of a peer that was silent for TTL.
func (w *watched) gotPeer(n *Node, e Entry, ok bool) {
	for _, p := range w.peers {
		if SessionKey(p.Agent) != e.Key {
			continue
		}
		p.asked = false
		switch {
		case !ok:
		case e.Value == nil:
			p.gone = n.outage.silent(n, p.changed)
		case e.Revision > p.revision:
			w.observePeer(n.now, n.Agent.Agent, e)
		case p.kept(n):
			p.gone = true
		default:
			p.asked = true // it expires late
			n.out.add(Read{e.Key, n.Timing.Retry / 2})
		}
		return
	}
}

// kept reports whether the store keeps the key of a session that has ended, for example because its clock was set back:
// the key existed, unchanged, for another TTL, throughout which this agent renewed its own session.
func (p *peer) kept(n *Node) bool {
	if p.outlived == 0 && n.outage.silent(n, p.changed) {
		p.outlived = n.now
	}
	return p.outlived != 0 && n.session.held && n.outage.silent(n, p.outlived)
}

func (w *watched) observeClaim(now time.Duration, revision uint64, c Claim) {
	before, had := w.entries[c.Pipeline]
	if had && revision <= before.revision {
		return
	}
	s := seen{Claim: c, revision: revision, known: c.Format <= format, since: now, changed: before.changed}
	if !had || before.Session != c.Session || before.Digest != c.Digest {
		s.changed = now
	}
	if c.Retiring || c.Deleted {
		s.retired = cmp.Or(before.retired, now, 1)
	}
	w.entries[c.Pipeline] = s
}

// live returns the sessions that are not known to have ended, including own.
func (w *watched) live(own Session) []Session {
	all := append(make([]Session, 0, len(w.peers)+1), own)
	for _, id := range sorted(w.peers) {
		if p := w.peers[id]; !p.gone {
			all = append(all, p.Session)
		}
	}
	return all
}
