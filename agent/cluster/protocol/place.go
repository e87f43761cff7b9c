package protocol

import "time"

// maxClaims is how many pipelines are claimed at once at most.
const maxClaims = 10

// tick does what is due.
func (n *Node) tick() {
	if n.peers == nil {
		return
	}
	n.session.step(n)
	for _, id := range sorted(n.claims) {
		c := n.claims[id]
		c.tick(n)
		c.keep(n)
	}
	if n.session.held && !n.session.leaving && n.now-n.session.joined >= n.Timing.Rank {
		n.claimFree()
		n.balance()
	}
}

// claimFree claims what has no owner, when this agent ranks first, as many as the time since
// the last ones allows.
func (n *Node) claimFree() {
	may := min(int((n.now-n.claimAt)/n.Timing.Claims), maxClaims)
	if may <= 0 {
		return
	}
	live := n.live(n.session.value)
	for _, id := range n.ids {
		if n.claims[id] != nil || !n.mayClaim(id, live) {
			continue
		}
		from := n.entries[id].Owner
		if from == n.Agent.Agent {
			from = ""
		}
		n.fetch(id, n.wanted[id], from)
		if may--; may == 0 {
			return
		}
	}
}

// mayClaim reports whether a pipeline has no owner and this agent comes before all others.
func (n *Node) mayClaim(id string, live []Session) bool {
	s, there := n.entries[id]
	free := max(s.changed, n.session.joined, n.wantedAt[id])
	switch {
	case there && !s.known:
		n.notice(id, NewerFormat, s.Owner)
		return false
	case !there || s.Owner == "":
	case s.Owner == n.Agent.Agent: // its predecessor, or a write that was thought lost
		return true
	default:
		gone, since := n.ownerGone(s)
		if !gone {
			return false
		}
		free = max(since, n.session.joined)
	}
	w := n.wanted[id]
	if there && s.Digest != "" && s.Digest != w.Digest && n.now-s.changed < n.Timing.Differ {
		n.notice(id, Differs, s.Owner)
		return false
	}
	all := ranked(id, w.Labels, live)
	if len(all) == 0 {
		n.notice(id, Unplaced, "")
	}
	for rank, session := range all {
		if session.Agent == n.Agent.Agent {
			return n.now-free >= n.Timing.Rank*time.Duration(rank)
		}
	}
	return false
}

// ownerGone reports whether the session that owns a claim has ended, and since when that can
// be known. It has the key of the session read when enough time went by.
func (n *Node) ownerGone(s seen) (gone bool, since time.Duration) {
	p := n.peers[s.Owner]
	switch {
	case p == nil: // its session ended before this one began, or is still to be seen
		p = &peer{Session: Session{Agent: s.Owner, Stamp: Stamp{Session: s.Session}}, changed: s.since}
		n.peers[s.Owner] = p
	case p.Stamp.Session != s.Session: // it started over, and may soon claim what it had
		return n.silent(max(s.changed, p.began)), max(s.changed, p.began) + n.Timing.TTL
	}
	if !p.gone && !p.asked && n.silent(p.changed) {
		p.asked = true
		n.out.add(Read{SessionKey(p.Agent)})
	}
	return p.gone, p.changed + n.Timing.TTL
}

// balance hands one pipeline over to a member that has fewer than half of its share.
func (n *Node) balance() {
	if n.now < n.balanceAt {
		return
	}
	n.balanceAt = n.now + jitter(n.Rand, n.Timing.Balance)
	live := n.live(n.session.value)
	has := map[string]int{}
	for _, s := range n.entries {
		has[s.Owner]++
	}
	for _, c := range n.claims {
		if c.phase == stopping || c.phase == releasing {
			return // one at a time
		}
	}
	share := len(n.entries) / len(live)
	for _, id := range sorted(n.claims) {
		c := n.claims[id]
		all := ranked(id, c.wanted.Labels, live)
		if c.phase == owning && len(all) > 0 && all[0].Agent != n.Agent.Agent && 2*has[all[0].Agent] < share && has[n.Agent.Agent] > share {
			c.stop(n)
			return
		}
	}
}
