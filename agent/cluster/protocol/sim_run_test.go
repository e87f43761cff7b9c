package protocol

import (
	"encoding/binary"
	"time"
)

func state(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func number(state []byte) uint64 {
	if len(state) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(state)
}

func (a *agent) start(c Start) {
	w := a.w
	w.stats.Starts++
	w.log("%s runs %s from %d, epoch %d", a.name, c.Pipeline, number(c.State), c.Epoch)
	if number(c.State) < w.acked[c.Pipeline] {
		w.t.Errorf("at %v %s starts %s from %d, and %d was acknowledged: records are lost", w.now, a.name, c.Pipeline,
			number(c.State), w.acked[c.Pipeline])
	}
	if other := w.running[c.Pipeline]; other != nil && c.Pipeline != "relaxed" {
		w.t.Errorf("at %v %s starts %s, which %s runs", w.now, a.name, c.Pipeline, other.name)
	}
	for id := range a.runs {
		one, _ := InstanceOf(id)
		if other, _ := InstanceOf(c.Pipeline); one == other && id != c.Pipeline {
			w.t.Errorf("at %v %s starts %s, and runs %s", w.now, a.name, c.Pipeline, id)
		}
	}
	w.running[c.Pipeline] = a
	r := &run{pipeline: c.Pipeline, epoch: c.Epoch, next: number(c.State) + 1, saving: map[uint64]uint64{}}
	a.runs[c.Pipeline] = r
	if c.Retire {
		a.cleanUp(r)
		return
	}
	a.move(r)
}

// move reads the next number and writes it to the sink, which takes some time.
func (a *agent) move(r *run) {
	w, life := a.w, a.life
	number := r.next
	r.next++
	w.after(w.between(20*time.Millisecond, time.Second), func() {
		if life == a.life && a.paused {
			w.stats.Zombies++ // a write in flight arrives nevertheless
		}
		w.arrive(r.pipeline, number)
		a.at(life, func() { a.moved(r, number) })
	})
}

func (w *world) arrive(pipeline string, number uint64) {
	w.stats.Records++
	switch greatest := w.sink[pipeline]; {
	case number == greatest+1:
		w.sink[pipeline] = number
	case number <= greatest:
		w.stats.Repeats++
	default:
		w.t.Errorf("at %v record %d of %s arrives after %d", w.now, number, pipeline, greatest)
	}
}

// moved saves an arrived number and continues.
func (a *agent) moved(r *run, number uint64) {
	r.arrived = number
	r.token++
	r.saving[r.token] = number
	// A run that was asked to stop still saves its in-flight number.
	a.node.Save(a.w.now, r.pipeline, r.epoch, state(number), r.token)
	a.executeCommands()
	if !r.stopped {
		a.move(r)
	}
}

func (a *agent) saved(c Saved) {
	r := a.runs[c.Pipeline]
	if r == nil || r.epoch != c.Epoch || !c.OK {
		return
	}
	if n, ok := r.saving[c.Token]; ok {
		if stored := a.w.keys[ClaimKey(c.Pipeline)]; stored == nil {
			a.w.t.Errorf("%s: a save of %s is confirmed, and nothing is stored", a.name, c.Pipeline)
		} else if number(stored.State) < n {
			a.w.t.Errorf("%s: %d of %s is said to be saved, the store has %d", a.name, n, c.Pipeline,
				number(stored.State))
		}
		a.w.acked[c.Pipeline] = max(a.w.acked[c.Pipeline], n)
	}
}

func (a *agent) stop(c Stop) {
	w, life := a.w, a.life
	r := a.runs[c.Pipeline]
	if r == nil || r.epoch != c.Epoch {
		return
	}
	r.stopped = true
	a.ends(c.Pipeline)
	w.after(w.between(0, 500*time.Millisecond), func() {
		a.at(life, func() {
			if a.runs[c.Pipeline] == r {
				delete(a.runs, c.Pipeline)
			}
			a.node.Stopped(w.now, c.Pipeline, r.epoch)
			a.executeCommands()
		})
	})
}

// checkFenced checks that an agent that gives a claim up as fenced does not own it.
func (a *agent) checkFenced(pipeline string) {
	s := a.w.keys[ClaimKey(pipeline)]
	if c, _ := decode[Claim](s.Value); c.Owner == a.name && c.Session == a.node.session.value.Stamp.Session {
		a.w.t.Errorf("at %v %s believes that %s was taken from it, which it owns", a.w.now, a.name, pipeline)
	}
}

func (a *agent) ends(pipeline string) {
	if a.w.running[pipeline] == a {
		delete(a.w.running, pipeline)
	}
}

// fault injects a fault and schedules the next one.
func (w *world) fault() {
	if w.quiet {
		return
	}
	w.after(w.between(time.Second, 15*time.Second), w.fault)
	a := w.agents[w.rand.IntN(len(w.agents))]
	if a.node == nil {
		return
	}
	switch w.rand.IntN(7) {
	case 0:
		w.pause(a, w.between(time.Second, 40*time.Second))
	case 1:
		w.kill(a)
	case 2:
		w.log("%s is cut off", a.name)
		a.cut = true
		w.after(w.between(time.Second, 40*time.Second), func() { a.cut = false; w.log("%s is connected", a.name) })
	case 3:
		w.outage(w.between(time.Second, 30*time.Second))
	case 4:
		w.setBack(a)
	case 5:
		a.node.Drain(w.now)
		a.executeCommands()
		life := a.life
		w.after(w.between(time.Second, 20*time.Second), func() {
			a.at(life, func() { a.node.Resume(w.now); a.executeCommands() })
		})
	}
}

// outage makes the store unavailable for some time.
func (w *world) outage(d time.Duration) {
	w.log("the store is down")
	if !w.down {
		w.down, w.downAt = true, w.now
	}
	w.after(d, func() {
		if w.log("the store is up"); w.down && w.now-w.downAt >= timing.SelfStop-timing.Renew/2 {
			w.upAt = w.now
		}
		w.down = false
	})
}

func (w *world) pause(a *agent, d time.Duration) {
	if a.paused {
		return
	}
	w.log("%s pauses", a.name)
	a.paused = true
	for pipeline := range a.runs {
		a.ends(pipeline) // the pipeline does not run at all
	}
	life := a.life
	w.after(d, func() {
		a.paused = false
		if life != a.life {
			return
		}
		w.log("%s goes on", a.name)
		a.node.Tick(w.now) // an agent reads the clock before it does anything else
		a.executeCommands()
		held := a.held
		a.held = nil
		for _, f := range held {
			f()
		}
	})
}

func (w *world) kill(a *agent) {
	w.killFor(a, w.between(time.Second, 30*time.Second))
}

func (w *world) killFor(a *agent, d time.Duration) {
	w.log("%s is killed", a.name)
	a.life++
	a.held = nil
	for pipeline := range a.runs {
		a.ends(pipeline)
	}
	a.runs, a.node, a.paused = nil, nil, false
	w.after(d, a.boot)
}

func (w *world) endFaults() {
	w.quiet = true
	w.log("no more faults")
}

// instances returns the agents that run the instances of a pipeline. Each instance must run, on an agent without
// another instance.
func (w *world) instances(pipeline string, most int) map[string]string {
	running, has := map[string]string{}, map[string]string{}
	for number := 1; number <= most; number++ {
		id := InstanceID(pipeline, number)
		for _, a := range w.agents {
			if r := a.runs[id]; r == nil || r.stopped {
				continue
			}
			if running[id] != "" || has[a.name] != "" {
				w.t.Errorf("in the end %s runs %s, as %s does, and %s", a.name, id, running[id], has[a.name])
			}
			running[id], has[a.name] = a.name, id
		}
	}
	return running
}

// checkEnd checks that at the end every pipeline runs with the right number of instances and makes progress.
func (w *world) checkEnd() {
	w.expire()
	w.checkEndDeleted()
	w.checkEndHalted()
	w.checkEndOwners()
	for pipeline, wanted := range w.wanted() {
		most := wanted.most()
		running := w.instances(pipeline, most)
		if want := min(most, len(w.agents)); len(running) != want {
			w.t.Errorf("in the end %d of %d instances of %s run: %v", len(running), want, pipeline, running)
		}
		for id := range running {
			w.checkAcknowledged(id)
		}
	}
}

// checkAcknowledged checks that at the end all arrived numbers are acknowledged. A relaxed pipeline whose agent was
// disconnected for long may still be repeating numbers: that must make progress.
func (w *world) checkAcknowledged(id string) {
	behind, lately := w.sink[id]-w.acked[id], w.acked[id]-w.ackedBefore[id]
	if behind > 50 && (id != "relaxed" || lately < 15) {
		w.t.Errorf("in the end %d records of %s are not acknowledged, and %d were within the last 30 seconds", behind,
			id, lately)
	}
}
