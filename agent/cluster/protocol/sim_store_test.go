package protocol

import (
	"strings"
	"time"
)

// write sends a write to the store. The write may get lost, be late, or be applied after its timeout, and its answer
// may get lost.
func (a *agent) write(c Write) {
	w, life := a.w, a.life
	answered, called := false, w.now
	answer := func(o Outcome) {
		if !answered {
			answered = true
			w.record(a, c, called, o)
			a.at(life, func() { a.node.Wrote(w.now, c.ID, c.Key, o); a.executeCommands() })
		}
	}
	w.after(2*time.Second, func() { answer(Outcome{Result: Unknown}) })
	delay := w.between(time.Millisecond, 20*time.Millisecond)
	if !w.quiet && w.chance(0.03) {
		delay = w.between(time.Second, 6*time.Second)
		w.stats.Late++
	}
	if a.cut && w.chance(0.7) {
		return
	}
	lost := a.cut || !w.quiet && w.chance(0.03)
	w.after(delay, func() {
		if w.down {
			return
		}
		o := w.apply(a, c)
		if !lost {
			w.after(w.between(time.Millisecond, 20*time.Millisecond), func() { answer(o) })
		}
	})
}

// apply performs a compare-and-swap of an agent.
func (w *world) apply(a *agent, c Write) Outcome {
	w.expire()
	var current uint64
	if s := w.keys[c.Key]; s != nil {
		current = s.Revision
	}
	switch {
	case current != c.Revision && w.chance(0.5):
		return Outcome{Result: Conflict, Revision: current}
	case current != c.Revision:
		return Outcome{Result: Conflict}
	case !w.quiet && w.chance(0.02):
		return Outcome{Result: Busy}
	}
	w.revision++
	s := &stored{Entry: Entry{c.Key, c.Value, c.State, w.revision}}
	if strings.HasPrefix(c.Key, ClaimPrefix) {
		s.claim, _ = decode[Claim](c.Value)
		w.checkClaim(a, s)
	}
	if c.TTL != 0 {
		s.expires = w.now + c.TTL
	}
	w.keys[c.Key] = s
	shown := *s
	shown.State = nil
	for _, a := range w.agents {
		w.show(a, shown)
	}
	return Outcome{Result: Applied, Revision: w.revision}
}

// expire removes sessions that were not renewed; no watch shows it.
func (w *world) expire() {
	for k, s := range w.keys {
		if s.expires != 0 && w.now >= s.expires+s.kept+100*time.Millisecond {
			delete(w.keys, k)
		}
	}
}

// show delivers an entry to a watch. A broken watch resumes with the latest entry of each key.
func (w *world) show(a *agent, s stored) {
	life := a.life
	delay := w.between(time.Millisecond, 30*time.Millisecond)
	if !w.quiet && w.chance(0.05) {
		delay = w.between(time.Second, 5*time.Second)
	}
	w.after(delay, func() {
		if a.cut || w.down {
			w.after(time.Second, func() { w.show(a, s) })
			return
		}
		a.at(life, func() {
			if a.node != nil {
				a.observe(s)
				a.executeCommands()
			}
		})
	})
}

// observe passes an entry to the node. Claims were decoded before, once for all agents.
func (a *agent) observe(s stored) {
	if s.claim.Pipeline == "" {
		a.node.Observe(a.w.now, s.Entry)
		return
	}
	a.node.advance(a.w.now)
	a.node.observedClaim(a.node, s.Entry, s.claim)
}

func (a *agent) read(c Read) {
	if after := c.After; after > 0 {
		c.After = 0
		life := a.life
		a.w.after(after, func() { a.at(life, func() { a.read(c) }) })
		return
	}
	w, life := a.w, a.life
	answered := false
	answer := func(e Entry, ok bool) {
		if !answered {
			answered = true
			a.at(life, func() { a.node.Got(w.now, e, ok); a.executeCommands() })
		}
	}
	w.after(2*time.Second, func() { answer(Entry{Key: c.Key}, false) })
	if a.cut || !w.quiet && w.chance(0.03) {
		return
	}
	// An older entry, as from an outdated leader.
	e := w.lookup(c.Key)
	stale := !w.quiet && w.chance(0.05)
	w.after(w.between(2*time.Millisecond, 40*time.Millisecond), func() {
		if w.down {
			return
		}
		if !stale {
			e = w.lookup(c.Key)
		}
		answer(e, true)
	})
}

func (w *world) lookup(key string) Entry {
	w.expire()
	if s := w.keys[key]; s != nil {
		return s.Entry
	}
	return Entry{Key: key}
}

// checkClaim checks that a write of a claim reverts nothing.
func (w *world) checkClaim(a *agent, s *stored) {
	after := s.claim
	var before Claim
	var had []byte
	if s := w.keys[s.Key]; s != nil {
		before, had = s.claim, s.State
	}
	w.checkDeleted(before, after)
	if number(s.State) < number(had) && !after.Deleted {
		w.t.Errorf("at %v the position of %s goes back from %d to %d by %s", w.now, after.Pipeline, number(had),
			number(s.State), after.Owner)
	}
	if before.Owner == "" || before.Owner == a.name {
		return
	}
	w.checkOutage(a, before)
	w.countKept(before)
	if w.holds(before.Owner, before.Session) {
		w.t.Errorf("at %v %s takes %s from %s, which has a session", w.now, a.name, after.Pipeline, before.Owner)
	}
}

// checkOutage checks that no agent takes a claim from another one for the TTL of a session after an outage in which no
// session could be renewed.
func (w *world) checkOutage(a *agent, before Claim) {
	if w.upAt == 0 || w.now-w.upAt >= timing.TTL || a.node == nil {
		return
	}
	// A write that was first sent before the outage is sent again after it.
	if c := a.node.claims[before.Pipeline]; c != nil && c.sentAt >= w.upAt {
		w.t.Errorf("at %v %s takes %s from %s, %v after an outage", w.now, a.name, before.Pipeline, before.Owner,
			w.now-w.upAt)
	}
}
