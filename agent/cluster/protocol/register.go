package protocol

import "time"

// register is a chain of compare-and-swaps on one key: one write at a time, each on the
// revision of the one before. A write whose outcome is not known is sent again as it is, never
// a newer one past it, until it is known.
type register struct {
	key      string
	lasting  bool          // the key is never deleted: when it is not there the store was
	revision uint64        // that the next write builds on
	pending  *Write        // nil when none is under way
	stamp    Stamp         // of pending
	unsure   bool          // a try of pending may be applied, or be applied later
	reading  uint64        // the least revision that decides a conflict; 0 when none is to be decided
	sentAt   time.Duration // the first try of pending
	retryAt  time.Duration // the next try, 0 while one is under way
}

// send starts a write.
func (r *register) send(n *Node, value, state []byte, stamp Stamp, ttl time.Duration) {
	n.lastID++
	r.pending = &Write{Entry: Entry{Key: r.key, Value: value, State: state, Revision: r.revision}, ID: n.lastID, TTL: ttl}
	r.stamp, r.unsure, r.reading, r.retryAt, r.sentAt = stamp, false, 0, 0, n.now
	n.out.add(*r.pending)
}

// sent returns when the write that is under way was sent first, 0 when it is another one.
func (r *register) sent(id uint64) time.Duration {
	if r.pending == nil || r.pending.ID != id {
		return 0
	}
	return r.sentAt
}

// decision is what is known of a write in the end.
type decision int

const (
	undecided decision = iota
	won
	lost
	rolledBack // the store is at an older revision than one that was acknowledged
)

// wrote takes the outcome of a try.
func (r *register) wrote(n *Node, id uint64, o Outcome) decision {
	if r.pending == nil || r.pending.ID != id {
		return undecided
	}
	switch o.Result {
	case Applied:
		return r.applied(o.Revision)
	case Conflict:
		return r.conflict(n, o.Revision)
	}
	r.unsure = true
	r.again(n)
	return undecided
}

// again has the same write sent again soon.
func (r *register) again(n *Node) { r.retryAt = n.now + jitter(n.Rand, n.Timing.Retry) }

func (r *register) applied(revision uint64) decision {
	r.revision, r.pending, r.reading = revision, nil, 0
	return won
}

// conflict takes that another write was applied, which may be an earlier try of this one.
func (r *register) conflict(n *Node, current uint64) decision {
	if current != 0 && current < r.pending.Revision {
		return r.over(rolledBack)
	}
	vanished := r.lasting && current == 0 && r.pending.Revision != 0
	if !r.unsure && !vanished {
		return r.over(lost)
	}
	r.reading = max(current, r.pending.Revision+1)
	n.out.add(Read{Key: r.key})
	return undecided
}

func (r *register) over(d decision) decision {
	r.pending, r.reading = nil, 0
	return d
}

// read takes what the store has, if that is to decide a conflict.
func (r *register) read(n *Node, e Entry, stamp Stamp, ok bool) decision {
	switch {
	case r.pending == nil || r.reading == 0:
		return undecided
	case !ok || e.Value != nil && e.Revision < r.reading: // no answer, or one from before the conflict
		r.reading = 0
		r.again(n)
		return undecided
	case e.Value == nil && r.lasting && r.pending.Revision != 0:
		return r.over(rolledBack)
	case e.Value != nil && stamp == r.stamp:
		return r.applied(e.Revision)
	}
	return r.over(lost)
}

// tick sends a write again when it is time.
func (r *register) tick(n *Node) {
	if r.pending != nil && r.retryAt != 0 && n.now >= r.retryAt {
		r.retryAt = 0
		n.out.add(*r.pending)
	}
}
