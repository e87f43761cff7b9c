package protocol

import (
	"strings"
	"time"
)

// halted is a pipeline that should stop at some time and, in one of four histories, run again later. In one of three
// histories an agent does not declare it.
const halted = "halted"

// planHalt tells the agents that the pipeline should not run. It often kills the owner as well.
func (w *world) planHalt() {
	at := w.between(15*time.Second, 100*time.Second)
	w.eachLearns(at, func(a *agent) { a.halts = true })
	if w.chance(0.5) {
		w.after(at+w.between(-time.Second, 3*time.Second), w.killOwner)
	}
	if w.seed%4 == 1 {
		w.runsAgain = true
		w.eachLearns(at+w.between(20*time.Second, 80*time.Second), func(a *agent) { a.halts = false })
	}
}

// eachLearns applies a change of the declarations to one agent after the other.
func (w *world) eachLearns(at time.Duration, change func(*agent)) {
	for _, a := range w.agents {
		w.after(at+w.between(0, 5*time.Second), func() {
			change(a)
			a.declareAnew()
		})
	}
}

// killOwner kills the owner of the halted pipeline.
func (w *world) killOwner() {
	if a := w.running[halted]; a != nil {
		w.kill(a)
	}
}

// wantedHalted is the halted pipeline. In one of five histories it has two instances.
func (w *world) wantedHalted() Declaration {
	if w.seed%5 == 4 {
		return Declaration{Digest: "d", Instances: 2}
	}
	return Declaration{Digest: "d"}
}

// declareHalted adds the pipeline to the declarations of an agent.
func (a *agent) declareHalted(d *Declared) {
	switch {
	case a.w.seed%3 == 0 && a == a.w.agents[0]:
	case a.halts:
		d.Idle = map[string]bool{halted: true}
	default:
		d.Run[halted] = a.w.wantedHalted()
	}
}

// checkEndHalted checks that the pipeline has the right number of running instances at the end.
func (w *world) checkEndHalted() {
	most, members := w.wantedHalted().most(), len(w.agents)
	if w.seed%3 == 0 {
		members--
	}
	want := min(most, members)
	if !w.runsAgain {
		want = 0
	}
	if running := w.instances(halted, most); len(running) != want {
		w.t.Errorf("in the end %d of %d instances of %s run: %v", len(running), want, halted, running)
	}
}

// checkEndOwners checks that at the end no claim has an owner without a session.
func (w *world) checkEndOwners() {
	for _, key := range sorted(w.keys) {
		if !strings.HasPrefix(key, ClaimPrefix) {
			continue
		}
		if c, _ := decode[Claim](w.keys[key].Value); c.Owner != "" && !w.holds(c.Owner, c.Session) {
			w.t.Errorf("in the end %s is the owner of %s, and has no session", c.Owner, c.Pipeline)
		}
	}
}

// holds reports whether the store has a session of an agent that has not expired by a correct clock.
func (w *world) holds(agent, session string) bool {
	s := w.keys[SessionKey(agent)]
	if s == nil || w.now >= s.expires+100*time.Millisecond {
		return false
	}
	held, _ := decode[Session](s.Value)
	return held.Stamp.Session == session
}
