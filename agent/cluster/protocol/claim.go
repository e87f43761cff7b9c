package protocol

import "time"

// phase is the state of a claim that this agent has or wants.
type phase int

const (
	fetching  phase = iota // its state is being read
	claiming               // the claiming write is in flight
	owning                 // the pipeline runs
	stopping               // a graceful stop was requested
	releasing              // the releasing write is in flight
	losing                 // an immediate stop was requested; nothing is written any more
)

// claim is the claim of a pipeline that this agent runs, or is about to run.
type claim struct {
	register
	pipeline string
	phase    phase
	wanted   instance
	value    Claim  // of the last write, including the pending one
	state    []byte // as value
	token    uint64 // of the state in value
	saved    uint64 // token of the last state known to be saved
	next     []byte // newer state, to be saved when the pending write is decided
	nextTok  uint64 // token of next; 0 if there is none
	from     string // previous owner that it was taken over from, or ""
	ended    bool   // the run has ended
	edit     *edit  // set for a change of the claim that does not take it
	retire   bool   // the pipeline is deleted: its resources are cleaned up, and it does not run
	retired  bool   // the clean-up is complete
}

// fetch begins to claim a pipeline. It reads the state, which the claiming write keeps.
func (n *Node) fetch(pipeline string, w instance, from string) {
	c := &claim{register: register{key: ClaimKey(pipeline), lasting: true}, pipeline: pipeline, wanted: w, from: from}
	n.claims[pipeline] = c
	n.claimAt = min(n.now, max(n.claimAt, n.now-maxClaims*n.Timing.Claims)+n.Timing.Claims)
	n.out.add(Read{Key: c.key})
}

// fetched writes the claim, if it is still available.
func (c *claim) fetched(n *Node, e Entry, ok bool) {
	if ok && e.Value == nil && n.entries[c.pipeline].Deleted { // the tombstone expired
		n.forget(n, c.pipeline)
	}
	if !ok || !n.session.held || e.Revision < n.entries[c.pipeline].revision {
		delete(n.claims, c.pipeline)
		return
	}
	if !n.mayWriteClaim(n, c, e) {
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

// decided handles the outcome of a write of the claim.
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

// begun starts the pipeline, unless the session ended before the claim was confirmed.
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

// save writes newer state once the pending write is decided.
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

// renew writes the claim under the current session.
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

// reconnected reports that a relaxed pipeline acknowledges again.
func (c *claim) reconnected(n *Node) {
	if n.session.held && n.noticed[c.pipeline].Reason == Disconnected {
		n.notice(c.pipeline, Reconnected, "")
	}
}

// keep stops a pipeline that this agent no longer wants, and renews a claim that an earlier session of this agent
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

// stop begins a graceful stop, to release the claim.
func (c *claim) stop(n *Node) {
	if c.phase == owning {
		c.phase = stopping
		n.out.add(Stop{c.pipeline, c.value.Epoch, false})
	}
}

// stopped handles the end of the run.
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

// release gives up the claim, so that any member can take it.
func (c *claim) release(n *Node) {
	c.phase = releasing
	c.value.Owner, c.value.Session = "", ""
	if c.retired && !n.declared(n, c.pipeline) {
		c.edit = &edit{notice: Deleted, ttl: n.Timing.Tombstone}
		c.value.Deleted, c.state = true, n.Empty
	}
	c.write(n)
}

// lose stops the run at once. State that is not saved yet is never saved.
func (c *claim) lose(n *Node) {
	switch c.phase {
	case losing:
		return
	case fetching, claiming, releasing: // nothing runs; the watch shows the outcome of the write in flight
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

// unsettled returns the time that the write of a claim has been without a known outcome.
func (c *claim) unsettled(now time.Duration) time.Duration {
	if c == nil || c.pending == nil {
		return 0
	}
	return now - c.sentAt
}
