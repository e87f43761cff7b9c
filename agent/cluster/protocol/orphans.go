package protocol

import "time"

// orphans are the claims that have an owner and that no member would take over: of pipelines that are declared and
// are not to run, and of instances beyond those that are to run. When the owner has ended, another member frees
// them.
type orphans struct {
	since   map[string]time.Duration // when this agent noticed, by the id of the claim
	freedAt time.Duration            // when this agent freed one last
}

// observe takes that a claim, or what this agent would run, may have changed.
func (o *orphans) observe(n *Node, id string) {
	s, there := n.entries[id]
	i, wanted := n.wanted[id]
	if !there || !s.known || s.Owner == "" || s.Deleted || wanted && !i.surplus() || !n.declared(n, id) {
		delete(o.since, id)
	} else if _, had := o.since[id]; !had {
		o.since[id] = n.now
	}
}

// surplus reports whether an instance may be one more than there are members for.
func (i instance) surplus() bool { return i.Each && i.number > 1 }

// free frees orphans whose owner has ended, as many as the time since the last ones allows: first those for which
// this agent ranks first, so that the members do not contend.
func (o *orphans) free(n *Node) {
	may := min(int((n.now-o.freedAt)/n.Timing.Claims), maxClaims)
	if may <= 0 || len(o.since) == 0 {
		return
	}
	live := n.live(n.session.value)
	var others []string
	for _, id := range sorted(o.since) {
		switch rank, ok := o.mayFree(n, id, live); {
		case !ok:
		case rank == 0:
			o.edit(n, id)
			if may--; may == 0 {
				return
			}
		case len(others) < may:
			others = append(others, id)
		}
	}
	for _, id := range others[:min(may, len(others))] {
		o.edit(n, id)
	}
}

// mayFree reports whether the owner of an orphan has ended and those that rank before this agent had the time to
// free it.
func (o *orphans) mayFree(n *Node, id string, live []Session) (rank int, ok bool) {
	s := n.entries[id]
	if i, wanted := n.wanted[id]; n.claims[id] != nil || n.marked[id] || !n.abandoned(n, s) || wanted && i.due(n, live) {
		return 0, false
	}
	if s.Owner == n.Agent.Agent {
		return 0, true
	}
	_, gone := n.ownerGone(s)
	for rank, session := range ranked(id, nil, live) {
		if session.Agent == n.Agent.Agent {
			return rank, n.now-max(gone, o.since[id], n.session.joined) >= n.Timing.Rank*time.Duration(rank)
		}
	}
	return 0, false
}

func (o *orphans) edit(n *Node, id string) {
	o.freedAt = n.now
	n.edit(n, id, edit{change: func(c *Claim) { c.Owner, c.Session = "", "" }})
}
