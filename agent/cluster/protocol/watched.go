package protocol

import "time"

// watched is what the store showed last.
type watched struct {
	peers   map[string]*peer // by agent
	entries map[string]seen  // claims, by pipeline
}

// seen is a claim as the store had it.
type seen struct {
	Claim
	revision uint64
	known    bool          // of a format that this version understands
	since    time.Duration // when the revision was seen first
	changed  time.Duration // when owner or digest were seen to change
}

// peer is the session of another agent as it was seen last.
type peer struct {
	Session
	revision uint64
	began    time.Duration // when this session was seen first
	changed  time.Duration // when it was seen to change last
	gone     bool          // its key was read and not there, when it had not changed for the time of a session
	asked    bool          // its key is being read
}

// observePeer takes a session; that of the agent itself is of no interest.
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

func (w *watched) observeClaim(now time.Duration, e Entry) {
	c, ok := decode[Claim](e.Value)
	if !ok {
		return
	}
	before, had := w.entries[c.Pipeline]
	if had && e.Revision <= before.revision {
		return
	}
	s := seen{Claim: c, revision: e.Revision, known: c.Format <= format, since: now, changed: before.changed}
	if !had || before.Session != c.Session || before.Digest != c.Digest {
		s.changed = now
	}
	w.entries[c.Pipeline] = s
}

// live returns the sessions that are not known to have ended, own included.
func (w *watched) live(own Session) []Session {
	all := []Session{own}
	for _, id := range sorted(w.peers) {
		if p := w.peers[id]; !p.gone {
			all = append(all, p.Session)
		}
	}
	return all
}
