package protocol

import (
	"strings"
	"testing"
	"time"
)

// setBack sets the clock of the store back, so that existing sessions expire later. It often kills an agent as well,
// sometimes for longer than the others need to notice. The lifetime of tombstones is long compared to the change of the
// clock.
func (w *world) setBack(a *agent) {
	d := w.between(time.Second, time.Hour)
	w.log("the clock of the store is set back by %v", d)
	w.keeps = true
	for key, s := range w.keys {
		if strings.HasPrefix(key, SessionPrefix) {
			s.kept += d
		}
	}
	if w.chance(0.7) {
		w.killFor(a, w.between(time.Second, faultTime+30*time.Second-w.now))
	}
}

// countKept counts take-overs from an agent whose session the store keeps past its expiry.
func (w *world) countKept(before Claim) {
	s := w.keys[SessionKey(before.Owner)]
	if s == nil || s.kept == 0 || w.now < s.expires {
		return
	}
	if held, _ := decode[Session](s.Value); held.Stamp.Session == before.Session {
		w.stats.Kept++
	}
}

// TestKeptSession kills an agent after the clock of the store was set back by an hour. Others take its pipelines over
// after twice the TTL of a session, not before. The agent joins again within the same time.
func TestKeptSession(t *testing.T) {
	w := newWorld(t, 1, nil, nil)
	w.quiet = true
	for range 3 {
		w.addAgent().boot()
	}
	w.run(30 * time.Second)
	dead := w.running["strict-1"]
	for _, s := range w.keys {
		s.kept = time.Hour
	}
	w.killFor(dead, time.Hour)
	w.run(2*timing.TTL - timing.Renew - time.Second)
	if now := w.running["strict-1"]; now != nil {
		t.Errorf("%s took over too early", now.name)
	}
	w.run(timing.Renew + 3*time.Second)
	for id := range w.wanted() {
		if now := w.running[id]; now == nil || now == dead {
			t.Errorf("%v after the kill nobody took %s over", 2*timing.TTL+2*time.Second, id)
		}
	}
	for _, a := range w.agents {
		if a == dead {
			continue
		}
		for _, m := range a.node.View(w.now).Members {
			if m.Gone != (m.Agent == dead.name) {
				t.Errorf("%s says of %s that it is gone: %v", a.name, m.Agent, m.Gone)
			}
		}
	}
	dead.boot()
	w.run(2*timing.TTL - time.Second)
	if dead.node.session.held {
		t.Error("an agent joined too early under a name that has a session")
	}
	w.run(5 * time.Second)
	if !dead.node.session.held {
		t.Error("an agent cannot join whose former session the store keeps")
	}
}
