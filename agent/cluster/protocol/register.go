package protocol

import "time"

// register is a chain of compare-and-swaps on one key: one write at a time, each on the revision of the previous one. A
// write with an unknown outcome is sent again unchanged until its outcome is known. No newer write overtakes it.
type register struct {
	key      string
	lasting  bool          // the key is never deleted: if it is missing, the store was
	revision uint64        // base revision of the next write
	pending  *Write        // nil if no write is in flight
	stamp    Stamp         // of pending
	unsure   bool          // an attempt of pending may be applied, now or later
	reading  uint64        // least revision that decides a conflict; 0 if there is no conflict to decide
	sentAt   time.Duration // first attempt of pending
	retryAt  time.Duration // next attempt; 0 while one is in flight
}

func (r *register) send(n *Node, value, state []byte, stamp Stamp, ttl time.Duration) {
	n.lastID++
	r.pending = &Write{Entry: Entry{Key: r.key, Value: value, State: state, Revision: r.revision}, ID: n.lastID,
		TTL: ttl}
	r.stamp, r.unsure, r.reading, r.retryAt, r.sentAt = stamp, false, 0, 0, n.now
	n.out.add(*r.pending)
}

// sent returns when the write in flight was first sent, or 0 if id is another write.
func (r *register) sent(id uint64) time.Duration {
	if r.pending == nil || r.pending.ID != id {
		return 0
	}
	return r.sentAt
}

// decision is the final outcome of a write.
type decision int

const (
	undecided decision = iota
	won
	lost
	rolledBack // the store is at an older revision than an acknowledged one
)

// wrote handles the outcome of an attempt.
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

// again schedules another attempt of the same write.
func (r *register) again(n *Node) { r.retryAt = n.now + jitter(n.Rand, n.Timing.Retry) }

func (r *register) applied(revision uint64) decision {
	r.revision, r.pending, r.reading = revision, nil, 0
	return won
}

// conflict handles the application of another write, which may be an earlier attempt of this one.
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

// read handles the present entry, if a conflict waits for it.
func (r *register) read(n *Node, e Entry, stamp Stamp, ok bool) decision {
	switch {
	case r.pending == nil || r.reading == 0:
		return undecided
	case !ok || e.Value != nil && e.Revision < r.reading: // no answer, or an entry older than the conflict
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

// tick sends the write again when that is due.
func (r *register) tick(n *Node) {
	if r.pending != nil && r.retryAt != 0 && n.now >= r.retryAt {
		r.retryAt = 0
		n.out.add(*r.pending)
	}
}
