package protocol

import "time"

// phase is what this agent does about a pipeline of which it has, or wants, the claim.
type phase int

const (
	fetching  phase = iota // its state is being read
	claiming               // the write that claims is under way
	owning                 // it runs
	stopping               // it was asked to end in order
	releasing              // the write that gives the claim up is under way
	losing                 // it was asked to end at once; nothing is written any more
)

// claim is a pipeline that this agent runs, or is about to.
type claim struct {
	register
	pipeline string
	phase    phase
	wanted   instance
	value    Claim  // of the last write, the pending one included
	state    []byte // the same
	token    uint64 // of the state in value
	saved    uint64 // of the last state that is known to be saved
	next     []byte // newer state, to be saved when the pending write is decided
	nextTok  uint64 // of next; 0 for none
	from     string // agent that it was taken over from, "" for none
	ended    bool   // its run has ended
	edit     *edit  // when the claim is changed and not taken
	retire   bool   // the pipeline is deleted: it is cleaned up after, and does not run
	retired  bool   // that is done
}

// fetch begins to claim a pipeline: its state is read, for the write that claims it to keep.
func (n *Node) fetch(pipeline string, w instance, from string) {
	c := &claim{register: register{key: ClaimKey(pipeline), lasting: true}, pipeline: pipeline, wanted: w, from: from}
	n.claims[pipeline] = c
	n.claimAt = min(n.now, max(n.claimAt, n.now-maxClaims*n.Timing.Claims)+n.Timing.Claims)
	n.out.add(Read{Key: c.key})
}

// fetched writes the claim, if it is still to be had.
func (c *claim) fetched(n *Node, e Entry, ok bool) {
	if ok && e.Value == nil && n.entries[c.pipeline].Deleted { // the tombstone expired
		n.forget(n, c.pipeline)
	}
	if !ok || !n.session.held || e.Revision < n.entries[c.pipeline].revision {
		delete(n.claims, c.pipeline)
		return
	}
	if !n.mayWrite(n, c, e) {
		delete(n.claims, c.pipeline)
		return
	}
	c.phase, c.revision, c.state = claiming, e.Revision, e.State
	c.lasting = !n.entries[c.pipeline].Deleted
	c.value = Claim{
		Format: format, Pipeline: c.pipeline, Owner: n.Agent.Agent, Session: n.session.value.Stamp.Session,
		Digest: c.wanted.Digest, Since: n.Clock(), From: c.from,
	}
	if c.retire {
		c.value.Withdrawn, c.value.Retiring = n.entries[c.pipeline].Withdrawn, true
	}
	c.write(n)
}

func (c *claim) write(n *Node) {
	c.value.Stamp = Stamp{Session: n.session.value.Stamp.Session, Write: n.writes.next()}
	var ttl time.Duration
	if c.edit != nil {
		ttl = c.edit.ttl
	}
	c.send(n, encode(c.value), c.state, c.value.Stamp, ttl)
}

// decided takes the outcome of a write of the claim.
func (c *claim) decided(n *Node, d decision) {
	switch {
	case d == undecided:
	case d == won:
		c.won(n)
	case d == rolledBack:
		n.notice(c.pipeline, RolledBack, "")
		c.lose(n)
	case c.phase == claiming || c.edit != nil:
		delete(n.claims, c.pipeline)
	default:
		n.notice(c.pipeline, Fenced, "")
		c.lose(n)
	}
}

func (c *claim) won(n *Node) {
	switch c.phase {
	case claiming:
		c.begun(n)
	case owning, stopping:
		c.saved = c.token
		n.out.add(Saved{c.pipeline, c.value.Epoch, c.token, true})
		c.reconnected(n)
		c.saveNext(n)
		if c.pending == nil && c.ended {
			c.release(n)
		}
	case releasing:
		switch {
		case c.edit == nil:
			n.notice(c.pipeline, Released, "")
		case c.edit.notice != "":
			n.notice(c.pipeline, c.edit.notice, c.value.Withdrawn)
			n.done[c.pipeline] = true
		}
		delete(n.claims, c.pipeline)
	case losing: // too late to matter
	}
}

// begun has the pipeline run, unless the session ended before it was known that it may.
func (c *claim) begun(n *Node) {
	c.value.Epoch = c.revision
	if !n.session.held || c.value.Session != n.session.value.Stamp.Session {
		c.release(n)
		return
	}
	c.phase, c.lasting = owning, true
	reason := Claimed
	switch {
	case c.retire:
		reason = Retiring
	case c.from != "":
		reason = TookOver
	}
	n.notice(c.pipeline, reason, c.from)
	n.out.add(Start{c.pipeline, c.value.Epoch, c.state, c.retire})
}

// save writes newer state, once the write before is decided.
func (c *claim) save(n *Node, state []byte, token uint64) {
	if c.phase != owning && c.phase != stopping {
		n.out.add(Saved{c.pipeline, c.value.Epoch, token, false})
		return
	}
	c.next, c.nextTok = state, token
	if c.pending == nil {
		c.saveNext(n)
	}
}

func (c *claim) saveNext(n *Node) {
	if c.nextTok == 0 {
		return
	}
	c.state, c.token = c.next, c.nextTok
	c.value.Digest, c.value.Session = c.wanted.Digest, n.session.value.Stamp.Session
	c.next, c.nextTok = nil, 0
	c.write(n)
}

// renew writes the claim under the session that there is now.
func (c *claim) renew(n *Node) {
	switch {
	case c.phase != owning || c.pending != nil:
	case c.value.Session != n.session.value.Stamp.Session:
		c.value.Session = n.session.value.Stamp.Session
		c.write(n)
	default:
		c.reconnected(n)
	}
}

// reconnected says that a relaxed pipeline is acknowledged again.
func (c *claim) reconnected(n *Node) {
	if n.session.held && n.noticed[c.pipeline].Reason == Disconnected {
		n.notice(c.pipeline, Reconnected, "")
	}
}

// keep ends what is not wanted here any more, and renews what another session of this agent
// wrote.
func (c *claim) keep(n *Node) {
	_, wanted := n.wanted[c.pipeline]
	if c.retire {
		wanted = !n.declared(n, c.pipeline)
	}
	switch {
	case !wanted || n.session.leaving || !has(n.session.value.Labels, c.wanted.Labels):
		c.stop(n)
	case n.session.held:
		c.renew(n)
	}
}

// stop gives the pipeline away in order.
func (c *claim) stop(n *Node) {
	if c.phase == owning {
		c.phase = stopping
		n.out.add(Stop{c.pipeline, c.value.Epoch, false})
	}
}

// stopped takes that the run has ended.
func (c *claim) stopped(n *Node) {
	c.ended = true
	switch c.phase {
	case losing:
		delete(n.claims, c.pipeline)
	case owning, stopping:
		c.phase = stopping
		if c.pending == nil {
			c.release(n)
		}
	}
}

// release leaves the claim to whoever wants it.
func (c *claim) release(n *Node) {
	c.phase = releasing
	c.value.Owner, c.value.Session = "", ""
	if c.retired && !n.declared(n, c.pipeline) {
		c.edit = &edit{notice: Deleted, ttl: n.Timing.Tombstone}
		c.value.Deleted, c.state = true, n.Empty
	}
	c.write(n)
}

// lose ends the run at once. What is not saved by now never will be.
func (c *claim) lose(n *Node) {
	switch c.phase {
	case losing:
		return
	case fetching, claiming, releasing: // nothing runs; what the write under way does is found by watching
		delete(n.claims, c.pipeline)
		return
	}
	c.phase = losing
	if token := max(c.token, c.nextTok); token > c.saved {
		n.out.add(Saved{c.pipeline, c.value.Epoch, token, false})
	}
	c.pending, c.next, c.nextTok = nil, nil, 0
	if c.ended {
		delete(n.claims, c.pipeline)
		return
	}
	n.out.add(Stop{c.pipeline, c.value.Epoch, true})
}

// unsettled returns how long the write of a claim has gone without a known outcome.
func (c *claim) unsettled(now time.Duration) time.Duration {
	if c == nil || c.pending == nil {
		return 0
	}
	return now - c.sentAt
}
