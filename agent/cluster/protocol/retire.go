package protocol

import "time"

// retiring tracks the deletion of pipelines. A member that no longer has a declaration it had before marks the claim of
// the pipeline, and every member that has a declaration removes the mark. When a claim has kept its mark for
// Timing.Retire, one member takes it, cleans up after the connectors of the pipeline and replaces the claim by a
// tombstone. Until the tombstone expires, a member that was away can tell that its declaration is an old one.
type retiring struct {
	idle   map[string]bool        // pipelines that are declared on this agent but should not run
	gone   map[string]Declaration // pipelines whose declaration this agent had
	marked map[string]bool        // claims with a mark, and tombstones
	more   map[string]bool        // claims of instances other than the first
	done   map[string]bool        // marked by this agent, which marks once because it may be wrong
}

// edit is a change of a claim without an owner.
type edit struct {
	notice Reason // "" if there is none
	ttl    time.Duration
	change func(c *Claim)
}

// known records which pipelines have a declaration, and which had one.
func (r *retiring) known(d Declared) {
	r.idle, r.gone = d.Idle, d.Gone
	for id := range r.done {
		pipeline, _ := InstanceOf(id)
		if _, gone := d.Gone[pipeline]; !gone {
			delete(r.done, id)
		}
	}
}

// retire advances the deletion of pipelines.
func (r *retiring) retire(n *Node) {
	for _, id := range r.withdrawn() {
		if s, there := n.entries[id]; there && s.Withdrawn == "" && !r.done[id] && n.claims[id] == nil &&
			(s.free() || r.abandoned(n, s)) {
			r.mark(n, id)
		}
	}
	for _, id := range sorted(r.marked) {
		s := n.entries[id]
		pipeline, number := InstanceOf(id)
		_, wanted := n.wanted[id]
		switch {
		case s.Deleted && n.now-s.since >= 2*n.Timing.Tombstone: // the tombstone has expired
			r.forget(n, id)
		case n.claims[id] != nil || !s.free() && (s.Deleted || !r.abandoned(n, s)):
		case wanted && s.Owner != "": // left to a take-over
		case r.declared(n, id) && (number == 1 || !n.entries[pipeline].Deleted):
			r.edit(n, id, edit{change: func(c *Claim) {
				c.Owner, c.Session, c.Withdrawn, c.Retiring = "", "", "", false
			}})
		case r.due(n, id, s) && !claimsOther(n, pipeline, number):
			n.fetch(id, instance{Declaration{Digest: s.Digest, Labels: r.gone[pipeline].Labels}, pipeline, number}, "")
			n.claims[id].retire = true
		}
	}
}

// declared reports whether this agent has a declaration of the pipeline of a claim.
func (r *retiring) declared(n *Node, id string) bool {
	pipeline, _ := InstanceOf(id)
	_, wanted := n.wanted[pipeline]
	return wanted || r.idle[pipeline]
}

// due reports whether this agent should clean up after a pipeline and delete it, or continue a clean-up. A member that
// had the declaration comes first, because it may reach the resources that the connectors of the pipeline used.
func (r *retiring) due(n *Node, id string, s seen) bool {
	pipeline, number := InstanceOf(id)
	if first, there := n.entries[pipeline]; number > 1 && there && !first.Deleted {
		return false // a member with a declaration may still keep the pipeline, with all instances
	}
	w, had := r.gone[pipeline]
	var after time.Duration
	if !s.Retiring {
		after += n.Timing.Retire
	}
	if !had {
		after += n.Timing.Retire
	}
	// A deletion by a person does not wait for members that may have another declaration.
	if !w.Purge && (n.now-s.since < after || !n.outage.silent(n, s.since)) {
		return false
	}
	all := ranked(id, w.Labels, n.live(n.session.value))
	// Only this agent can continue a clean-up that it began.
	return s.Owner == n.Agent.Agent || len(all) > 0 && all[0].Agent == n.Agent.Agent
}

// mayWriteClaim reports whether this agent may take the claim that it read, to run the pipeline or to clean up after
// it.
func (r *retiring) mayWriteClaim(n *Node, c *claim, e Entry) bool {
	s := n.entries[c.pipeline]
	if !c.retire {
		_, may := n.mayClaim(c.pipeline, n.live(n.session.value))
		return may
	}
	return e.Revision == s.revision && s.Withdrawn != "" && (s.free() || !s.Deleted && r.abandoned(n, s)) &&
		r.due(n, c.pipeline, s)
}

// withdrawn returns the claims of pipelines whose declaration this agent had.
func (r *retiring) withdrawn() []string {
	all := sorted(r.gone)
	for _, id := range sorted(r.more) {
		pipeline, _ := InstanceOf(id)
		if _, gone := r.gone[pipeline]; gone {
			all = append(all, id)
		}
	}
	return all
}

// free reports whether a claim has no owner and is not deleted.
func (s *seen) free() bool { return s.known && s.Owner == "" && !s.Deleted }

// abandoned reports whether the owner of a claim has ended without releasing it.
func (r *retiring) abandoned(n *Node, s seen) bool {
	if !s.known || s.Owner == "" || s.Owner == n.Agent.Agent { // owned by an earlier process of this agent
		return s.known && s.Owner != ""
	}
	gone, _ := n.ownerGone(s)
	return gone && n.outage.silent(n, 0)
}

// mark records in the claim that this agent no longer has a declaration of the pipeline.
func (r *retiring) mark(n *Node, id string) {
	r.edit(n, id, edit{notice: Withdrawn, change: func(c *Claim) {
		c.Owner, c.Session, c.Withdrawn = "", "", n.Agent.Agent
	}})
}

// forget handles the disappearance of a claim.
func (r *retiring) forget(n *Node, id string) {
	delete(n.entries, id)
	delete(r.marked, id)
	delete(r.more, id)
}

// edit changes a claim without an owner after reading its state.
func (r *retiring) edit(n *Node, id string, e edit) {
	n.claims[id] = &claim{register: register{key: ClaimKey(id), lasting: true, revision: n.entries[id].revision},
		pipeline: id, edit: &e}
	n.out.add(Read{Key: ClaimKey(id)})
}

// fetched writes the change, if the claim has not changed since the decision.
func (d *edit) fetched(n *Node, c *claim, e Entry, ok bool) {
	if !ok || e.Revision != c.revision || !n.session.held {
		delete(n.claims, c.pipeline)
		return
	}
	c.phase, c.value, c.state = releasing, n.entries[c.pipeline].Claim, e.State
	d.change(&c.value)
	c.write(n)
}

// revives reports whether a deleted pipeline was declared again after its deletion. A declaration that this agent had
// before may be an old one, unless it came after the deletion had begun.
func (r *retiring) revives(n *Node, id string, s seen) bool {
	if _, number := InstanceOf(id); number > 1 {
		return true // the first instance decides for all instances
	}
	at := n.wantedAt[id]
	if at > s.retired || at > n.session.joined && s.retired-at < n.Timing.TTL {
		return true
	}
	n.notice(id, Outdated, s.Withdrawn)
	return false
}
