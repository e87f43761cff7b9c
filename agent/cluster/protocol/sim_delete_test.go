package protocol

import "time"

// brief is the pipeline that is deleted and, in some histories, declared again.
const brief = "brief"

// planDeletion removes the file of a pipeline from the agents: one long after the others, or all within a short time.
// In the second case they get it back.
func (w *world) planDeletion() {
	at, late := w.between(20*time.Second, 60*time.Second), w.agents[w.rand.IntN(len(w.agents))]
	if w.chance(0.5) {
		late = nil
		w.after(w.between(81*time.Second, 150*time.Second), w.declareAgain)
	}
	for _, a := range w.agents {
		lost := at + w.between(0, 20*time.Second)
		if a == late {
			lost += w.between(20*time.Second, 60*time.Second)
		}
		w.after(lost, func() { a.keepFile(false) })
	}
}

func (w *world) declareAgain() {
	w.log("%s is declared again", brief)
	w.again = true
	for _, a := range w.agents {
		w.after(w.between(0, 5*time.Second), func() { a.keepFile(true) })
	}
}

func (a *agent) keepFile(file bool) {
	a.file = file
	a.declareAnew()
}

// declareAnew passes the changed declarations to the node of a live agent.
func (a *agent) declareAnew() {
	if a.node != nil {
		a.at(a.life, func() { a.declare(); a.executeCommands() })
	}
}

// declare passes the present declarations to the node.
func (a *agent) declare() {
	d := Declared{Run: a.w.wanted(), Gone: map[string]Declaration{}}
	if a.file {
		d.Run[brief] = a.w.wantedBrief()
	} else {
		d.Gone[brief] = Declaration{Purge: a.w.purges()}
	}
	a.declareHalted(&d)
	a.node.Declare(a.w.now, d)
}

// cleanUp releases the resources of a pipeline's connectors, which takes some time.
func (a *agent) cleanUp(r *run) {
	w, life, most := a.w, a.life, 45*time.Second
	if w.now > 100*time.Second {
		most = 10 * time.Second // for the claim to be deleted at the end
	}
	w.after(w.between(100*time.Millisecond, most), func() {
		a.at(life, func() {
			if r.stopped {
				return
			}
			w.stats.Cleaned++
			a.cleaned = r.epoch
			delete(a.runs, r.pipeline)
			a.ends(r.pipeline)
			a.node.Retired(w.now, r.pipeline, r.epoch)
			a.executeCommands()
		})
	})
}

// checkCleaned checks that a tombstone was written by a member that cleaned up.
func (w *world) checkCleaned(before, after Claim) {
	for _, a := range w.agents {
		if a.name == before.Owner && before.Retiring && after.Stamp.Session == before.Session &&
			a.cleaned == after.Epoch {
			return
		}
	}
	w.t.Errorf("at %v the claim of %s, %+v, is deleted, and no member cleaned up", w.now, after.Pipeline, before)
}

// checkDeleted checks that a tombstone replaces no claim of a declared pipeline, and that no member runs a deleted
// pipeline because of an old file.
func (w *world) checkDeleted(before, after Claim) {
	switch {
	case after.Deleted && before.Withdrawn == "":
		w.t.Errorf("at %v the claim of %s, %+v, is deleted", w.now, after.Pipeline, before)
	case after.Retiring && !before.Retiring && w.purges():
	case after.Retiring && !before.Retiring:
		for _, a := range w.agents {
			if n := a.node; n != nil && a.file && !a.paused && n.session.held && !n.session.leaving &&
				w.now-max(n.session.joined, n.wantedAt[brief]) > timing.Retire {
				w.t.Errorf("at %v %s is cleaned up after, and %s has its file", w.now, after.Pipeline, a.name)
			}
		}
	case after.Deleted:
		w.checkCleaned(before, after)
		w.acked[after.Pipeline], w.sink[after.Pipeline] = 0, 0
	case before.Deleted && !w.again:
		w.t.Errorf("at %v %s runs %s, which was deleted", w.now, after.Owner, after.Pipeline)
	}
}

// purges reports whether a person deletes the pipeline. Members learn that at different times; a member that knows it
// cleans up at once.
func (w *world) purges() bool { return w.seed%7 == 2 }

// wantedBrief is the pipeline that is deleted. In one of five histories it has two instances.
func (w *world) wantedBrief() Declaration {
	if w.seed%5 == 3 {
		return Declaration{Digest: "d", Instances: 2}
	}
	return Declaration{Digest: "d"}
}

// checkEndDeleted checks the remains of the pipeline at the end.
func (w *world) checkEndDeleted() {
	most := w.wantedBrief().most()
	running := w.instances(brief, most)
	if w.again {
		if len(running) != min(most, len(w.agents)) {
			w.t.Errorf("in the end %s, which was declared again, runs on %v", brief, running)
		}
		return
	}
	for number := 1; number <= most; number++ {
		s := w.keys[ClaimKey(InstanceID(brief, number))]
		if s == nil {
			w.stats.Expired++
		} else if c, _ := decode[Claim](s.Value); !c.Deleted {
			w.t.Errorf("in the end there is a claim of %s, which was deleted: %+v", c.Pipeline, c)
		}
	}
}
