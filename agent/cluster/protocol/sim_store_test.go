package protocol

import (
	"slices"
	"strings"
	"time"
)

// write sends a write to the store. It may get lost, be late, be applied after it timed out,
// and its answer may get lost.
func (a *agent) write(c Write) {
	w, life := a.w, a.life
	answered := false
	answer := func(o Outcome) {
		if !answered {
			answered = true
			a.at(life, func() { a.node.Wrote(w.now, c.ID, c.Key, o); a.obey() })
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
		o := w.apply(c)
		if !lost {
			w.after(w.between(time.Millisecond, 20*time.Millisecond), func() { answer(o) })
		}
	})
}

// apply performs a compare-and-swap.
func (w *world) apply(c Write) Outcome {
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
	w.checkClaim(c)
	w.revision++
	s := &stored{Entry: Entry{c.Key, c.Value, c.State, w.revision}}
	if c.TTL != 0 {
		s.expires = w.now + c.TTL
	}
	w.keys[c.Key] = s
	for _, a := range w.agents {
		w.show(a, Entry{c.Key, c.Value, nil, w.revision})
	}
	return Outcome{Result: Applied, Revision: w.revision}
}

// expire removes sessions that were not renewed; no watch shows it.
func (w *world) expire() {
	for k, s := range w.keys {
		if s.expires != 0 && w.now >= s.expires+100*time.Millisecond {
			delete(w.keys, k)
		}
	}
}

// show has a watch deliver an entry; one that cannot is resumed with the latest of each key.
func (w *world) show(a *agent, e Entry) {
	life := a.life
	delay := w.between(time.Millisecond, 30*time.Millisecond)
	if !w.quiet && w.chance(0.05) {
		delay = w.between(time.Second, 5*time.Second)
	}
	w.after(delay, func() {
		if a.cut || w.down {
			w.after(time.Second, func() { w.show(a, e) })
			return
		}
		a.at(life, func() {
			if a.node != nil {
				a.node.Observe(w.now, e)
				a.obey()
			}
		})
	})
}

func (a *agent) read(c Read) {
	w, life := a.w, a.life
	answered := false
	answer := func(e Entry, ok bool) {
		if !answered {
			answered = true
			a.at(life, func() { a.node.Got(w.now, e, ok); a.obey() })
		}
	}
	w.after(2*time.Second, func() { answer(Entry{Key: c.Key}, false) })
	if a.cut || !w.quiet && w.chance(0.03) {
		return
	}
	// What the store had some time ago, as an outdated leader has it.
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

// checkClaim checks that a write of a claim does not take anything back.
func (w *world) checkClaim(c Write) {
	if !strings.HasPrefix(c.Key, ClaimPrefix) {
		return
	}
	after, _ := decode[Claim](c.Value)
	var before Claim
	var had []byte
	if s := w.keys[c.Key]; s != nil {
		before, _ = decode[Claim](s.Value)
		had = s.State
	}
	if number(c.State) < number(had) {
		w.t.Errorf("at %v the position of %s goes back from %d to %d by %s", w.now, after.Pipeline, number(had), number(c.State), after.Owner)
	}
	if before.Owner != "" && after.Owner != "" && before.Session != after.Session && slices.Contains(sorted(w.keys), SessionKey(before.Owner)) && before.Owner != after.Owner {
		s, _ := decode[Session](w.keys[SessionKey(before.Owner)].Value)
		if s.Stamp.Session == before.Session {
			w.t.Errorf("at %v %s takes %s over from %s, which has a session", w.now, after.Owner, after.Pipeline, before.Owner)
		}
	}
}
