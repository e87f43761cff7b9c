package protocol

import "time"

// retiring is what this agent knows of pipelines that are being deleted. The claim of one is marked
// once a member that had a declaration of it has none any more, and every member that has one
// removes the mark. A claim that kept its mark for Retire is taken by one member, which cleans up after the
// connectors of the pipeline and replaces the claim by a tombstone. That expires: until then a member that was
// away knows that its declaration is an old one.
type retiring struct {
	idle   map[string]bool   // pipelines that this agent has a declaration of, and would not run
	gone   map[string]Wanted // whose declaration this agent had
	marked map[string]bool   // claims with a mark, and tombstones
	more   map[string]bool   // claims of instances but the first
	done   map[string]bool   // that this agent marked: once is enough, for it may be wrong
}

// edit is a change of a claim without an owner.
type edit struct {
	notice Reason // "" for none
	ttl    time.Duration
	change func(c *Claim)
}

// known takes of which pipelines there is a declaration, and of which there was one.
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
		if s, there := n.entries[id]; there && s.Withdrawn == "" && !r.done[id] && n.claims[id] == nil && (s.free() || r.abandoned(n, s)) {
			r.mark(n, id)
		}
	}
	for _, id := range sorted(r.marked) {
		s := n.entries[id]
		pipeline, number := InstanceOf(id)
		_, wanted := n.wanted[id]
		switch {
		case s.Deleted && n.now-s.since >= 2*n.Timing.Tombstone: // it has expired
			r.forget(n, id)
		case n.claims[id] != nil || !s.free() && (s.Deleted || !r.abandoned(n, s)):
		case wanted && s.Owner != "": // it is taken over
		case r.declared(n, id) && (number == 1 || !n.entries[pipeline].Deleted):
			r.edit(n, id, edit{change: func(c *Claim) { c.Owner, c.Session, c.Withdrawn, c.Retiring = "", "", "", false }})
		case r.due(n, id, s) && !claimsOther(n, pipeline, number):
			n.fetch(id, instance{Wanted{Digest: s.Digest, Labels: r.gone[pipeline].Labels}, pipeline, number}, "")
			n.claims[id].retire = true
		}
	}
}

// declared reports whether this agent has a declaration of the pipeline that a claim is of.
func (r *retiring) declared(n *Node, id string) bool {
	pipeline, _ := InstanceOf(id)
	_, wanted := n.wanted[pipeline]
	return wanted || r.idle[pipeline]
}

// due reports whether this agent is to clean up after a pipeline and to delete it, or to go on with that. A
// member that had its declaration comes first: it may reach what the connectors of the pipeline used.
func (r *retiring) due(n *Node, id string, s seen) bool {
	pipeline, number := InstanceOf(id)
	if first, there := n.entries[pipeline]; number > 1 && there && !first.Deleted {
		return false // a member that has a declaration may still keep it, with all instances
	}
	w, had := r.gone[pipeline]
	var after time.Duration
	if !s.Retiring {
		after += n.Timing.Retire
	}
	if !had {
		after += n.Timing.Retire
	}
	// What a person deleted waits for no member that may have another declaration.
	if !w.Purge && (n.now-s.since < after || !n.outage.silent(n, s.since)) {
		return false
	}
	all := ranked(id, w.Labels, n.live(n.session.value))
	return s.Owner == n.Agent.Agent || len(all) > 0 && all[0].Agent == n.Agent.Agent // what it began, it alone may go on with
}

// mayWrite reports whether what was read of a claim is to be had, to run its pipeline or to clean up after it.
func (r *retiring) mayWrite(n *Node, c *claim, e Entry) bool {
	s := n.entries[c.pipeline]
	if !c.retire {
		_, may := n.mayClaim(c.pipeline, n.live(n.session.value))
		return may
	}
	return e.Revision == s.revision && s.Withdrawn != "" && (s.free() || !s.Deleted && r.abandoned(n, s)) && r.due(n, c.pipeline, s)
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

// abandoned reports whether the owner of a claim has ended without giving it up.
func (r *retiring) abandoned(n *Node, s seen) bool {
	if !s.known || s.Owner == "" || s.Owner == n.Agent.Agent { // its predecessor
		return s.known && s.Owner != ""
	}
	gone, _ := n.ownerGone(s)
	return gone && n.outage.silent(n, 0)
}

// mark says that the declaration of a pipeline is gone on this agent.
func (r *retiring) mark(n *Node, id string) {
	r.edit(n, id, edit{notice: Withdrawn, change: func(c *Claim) { c.Owner, c.Session, c.Withdrawn = "", "", n.Agent.Agent }})
}

// forget takes that there is no claim of a pipeline any more.
func (r *retiring) forget(n *Node, id string) {
	delete(n.entries, id)
	delete(r.marked, id)
	delete(r.more, id)
}

// edit changes a claim without an owner, after its state was read.
func (r *retiring) edit(n *Node, id string, e edit) {
	n.claims[id] = &claim{register: register{key: ClaimKey(id), lasting: true, revision: n.entries[id].revision}, pipeline: id, edit: &e}
	n.out.add(Read{Key: ClaimKey(id)})
}

// fetched writes the change, if the claim still is as it was when that was decided.
func (d *edit) fetched(n *Node, c *claim, e Entry, ok bool) {
	if !ok || e.Revision != c.revision || !n.session.held {
		delete(n.claims, c.pipeline)
		return
	}
	c.phase, c.value, c.state = releasing, n.entries[c.pipeline].Claim, e.State
	d.change(&c.value)
	c.write(n)
}

// revives reports whether a pipeline that was deleted was declared again since. A declaration that
// this agent had before may be an old one, unless it came when the deletion had begun.
func (r *retiring) revives(n *Node, id string, s seen) bool {
	if _, number := InstanceOf(id); number > 1 {
		return true // the first instance decides for all
	}
	at := n.wantedAt[id]
	if at > s.retired || at > n.session.joined && s.retired-at < n.Timing.TTL {
		return true
	}
	n.notice(id, Outdated, s.Withdrawn)
	return false
}
