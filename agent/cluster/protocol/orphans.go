package protocol

import "time"

// orphans are the claims that have an owner but that no member would take over: claims of declared pipelines that
// should not run, and of surplus instances. When the owner has ended, another member frees them.
type orphans struct {
	since   map[string]time.Duration // when this agent noticed an orphan, by claim id
	freedAt time.Duration            // when this agent last freed an orphan
}

// observe re-examines a claim after the claim or this agent's declarations changed.
func (o *orphans) observe(n *Node, id string) {
	s, there := n.entries[id]
	i, wanted := n.wanted[id]
	if !there || !s.known || s.Owner == "" || s.Deleted || wanted && !i.surplus() || !n.declared(n, id) {
		delete(o.since, id)
	} else if _, had := o.since[id]; !had {
		o.since[id] = n.now
	}
}

// surplus reports whether there may be fewer eligible members than the number of the instance.
func (i instance) surplus() bool { return i.Each && i.number > 1 }

// free frees orphans whose owner has ended, at a limited rate. It begins with those for which this agent ranks first,
// so that members do not contend.
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

// mayFree reports whether the owner of an orphan has ended and the members that rank before this agent have had their
// time to free it.
func (o *orphans) mayFree(n *Node, id string, live []Session) (rank int, ok bool) {
	s := n.entries[id]
	if i, wanted := n.wanted[id]; n.claims[id] != nil || n.marked[id] || !n.abandoned(n, s) || wanted &&
		i.due(n, live) {
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
