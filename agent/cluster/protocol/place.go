package protocol

import "time"

// maxClaims is the maximum number of pipelines claimed at once.
const maxClaims = 10

// tick does all work that is due.
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
		n.retire(n)
		n.orphans.free(n)
		n.balance()
	}
}

// takeFreed claims a pipeline that was just released, if this agent ranks first for it. A planned move waits neither
// for the next tick nor for members that may be about to join.
func takeFreed(n *Node, id string) {
	if !n.synced || !n.session.held || n.session.leaving || n.claims[id] != nil || n.now-n.claimAt < n.Timing.Claims {
		return
	}
	if _, wanted := n.wanted[id]; !wanted {
		return
	}
	if rank, ok := n.mayClaim(id, n.live(n.session.value)); ok && rank == 0 {
		n.take(id)
	}
}

// claimFree claims pipelines without an owner, at a limited rate. It begins with those for which this agent ranks
// first, so that members that start together do not contend.
func (n *Node) claimFree() {
	may := min(int((n.now-n.claimAt)/n.Timing.Claims), maxClaims)
	if may <= 0 {
		return
	}
	live := n.live(n.session.value)
	n.disown(n)
	var others []string
	for _, id := range n.ids {
		if n.claims[id] != nil {
			continue
		}
		switch rank, ok := n.mayClaim(id, live); {
		case !ok:
		case rank > 0:
			if len(others) < may {
				others = append(others, id)
			}
		default:
			n.take(id)
			if may--; may == 0 {
				return
			}
		}
	}
	for _, id := range others[:min(may, len(others))] {
		if i := n.wanted[id]; i.most() == 1 || !i.otherOf(n, n.Agent.Agent) {
			n.take(id)
		}
	}
}

// take begins to claim a pipeline.
func (n *Node) take(id string) {
	from := n.entries[id].Owner
	if from == n.Agent.Agent {
		from = ""
	}
	n.fetch(id, n.wanted[id], from)
}

// mayClaim reports whether a pipeline has no live owner and the members that rank before this agent have had their time
// to claim it.
func (n *Node) mayClaim(id string, live []Session) (rank int, ok bool) {
	s, there := n.entries[id]
	w := n.wanted[id]
	free, wait := max(s.changed, n.session.joined, n.wantedAt[id]), n.Timing.Rank
	switch {
	case !w.due(n, live):
		return 0, false
	case there && !s.known:
		n.notice(id, NewerFormat, s.Owner)
		return 0, false
	case there && s.Deleted && !n.revives(n, id, s):
		return 0, false
	case !there || s.Owner == "":
	// The owner is an earlier process of this agent, or this agent through a write presumed lost.
	case s.Owner == n.Agent.Agent:
		return 0, true
	default:
		gone, since := n.ownerGone(s)
		if !gone || !n.outage.silent(n, 0) {
			return 0, false
		}
		// The pipeline has been down for long enough already, so the wait is short.
		free, wait = max(since, n.session.joined), n.Timing.Rank/4
	}
	if there && !s.Deleted && s.Digest != "" && s.Digest != w.Digest && n.now-s.changed < n.Timing.Differ {
		n.notice(id, Differs, s.Owner)
		return 0, false
	}
	all := w.candidates(n, live)
	switch {
	case len(all) > 0:
	case eligible(w.Labels, live) == 0:
		n.notice(id, Unplaced, "")
	default:
		n.notice(id, Waiting, "")
	}
	for rank, session := range all {
		if session.Agent == n.Agent.Agent {
			return rank, n.now-free >= wait*time.Duration(rank)
		}
	}
	return 0, false
}

// ahead is the time before the expected end of a session at which the read of the session key is scheduled. Tick is
// called at this interval.
const ahead = 250 * time.Millisecond

// ownerGone reports whether the owner's session of a claim has ended, and since when that can be known. After enough
// time it reads the key of the session.
func (n *Node) ownerGone(s seen) (gone bool, since time.Duration) {
	p := n.peers[s.Owner]
	switch {
	case p == nil: // its session ended before this one began, or was not shown yet
		p = &peer{Session: Session{Agent: s.Owner, Stamp: Stamp{Session: s.Session}}, changed: s.since}
		n.peers[s.Owner] = p
	case p.Stamp.Session != s.Session: // it restarted, and may soon claim its pipelines
		return n.outage.silent(n, max(s.changed, p.began)), max(s.changed, p.began) + n.Timing.TTL
	}
	if !p.gone && !p.asked && n.outage.silent(n, p.changed-ahead) {
		p.asked = true
		n.out.add(Read{SessionKey(p.Agent), max(0, p.changed+n.Timing.TTL-n.now)})
	}
	return p.gone, p.changed + n.Timing.TTL
}

// balance hands one pipeline over to a member that has fewer than half of its fair share, if this agent has more than
// its own share.
func (n *Node) balance() {
	if n.now < n.balanceAt {
		return
	}
	n.balanceAt = n.now + jitter(n.Rand, n.Timing.Balance)
	live := n.live(n.session.value)
	has, all := map[string]int{}, 0
	for _, s := range n.entries {
		if !s.Deleted {
			has[s.Owner]++
			all++
		}
	}
	for _, c := range n.claims {
		if c.phase == stopping || c.phase == releasing {
			return // one at a time
		}
	}
	share := n.shares(all, live)
	for _, id := range sorted(n.claims) {
		c := n.claims[id]
		best := c.wanted.candidates(n, live)
		if at, handed := n.handedAt[id]; handed && n.now-at < n.Timing.Differ {
			continue // it was returned: the other member may lack its file
		}
		if c.phase == owning && !c.retire && len(best) > 0 && best[0].Agent != n.Agent.Agent &&
			2*has[best[0].Agent] < share[best[0].Agent] && has[n.Agent.Agent] > share[n.Agent.Agent] {
			n.handedAt[id] = n.now
			c.stop(n)
			return
		}
	}
}

// shares returns each member's fair share of all pipelines by capacity, among the members that may run at least one.
func (n *Node) shares(all int, live []Session) map[string]int {
	capacity, sum := map[string]float64{}, 0.0
	for i := range live {
		for _, w := range n.wanted {
			if live[i].eligible(w.Labels) {
				capacity[live[i].Agent] = live[i].capacity()
				sum += live[i].capacity()
				break
			}
		}
	}
	shares := make(map[string]int, len(capacity))
	for agent, c := range capacity {
		shares[agent] = int(float64(all) * c / sum)
	}
	return shares
}
